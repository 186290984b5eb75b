"""A log of a million lines, measured: how long its page's windows, a search and a jump to a time take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import factories
import proofs
import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from job_rows import run_job

pytestmark = [pytest.mark.prove, pytest.mark.django_db]
LINES = 1_000_000


def test_a_million_lines_open_in_under_a_second(client: Client, carol: Any, project: Any, alice: Any):
    job = factories.job(project, alice)
    run_job(job)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            insert into records_logline (subject_kind, subject_id, attempt, seq, level, text, at)
            select 'job', %s, 1, n, case when n %% 1000 = 0 then 'warning' else 'info' end,
                   'step ' || n || ' loss 0.0' || n %% 997, now() - (%s - n) * interval '1 second'
              from generate_series(1, %s) as n
            """,
            [job.pk, LINES, LINES],
        )
        cursor.execute("ANALYZE records_logline")
        cursor.execute("select extract(epoch from at) from records_logline where seq = %s", [LINES // 3])
        moment = cursor.fetchone()[0]
    client.force_login(carol)
    address = reverse("job-log-lines", args=[job.project_id, job.pk])

    def ms(query: dict[str, str], check: Callable[[Any], bool]) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            answer = client.get(address, query).json()
            times.append(1000 * (time.perf_counter() - began))
            assert check(answer), str(answer)[:300]
        return round(statistics.median(times), 1)

    measured = {
        "lines": LINES,
        "open_ms": ms({}, lambda a: len(a["lines"]) == 300),
        "earlier_ms": ms({"before": "1:500000"}, lambda a: a["lines"][-1][1] == 499_999),
        "to_time_ms": ms({"at": str(moment)}, lambda a: a["target"] == [1, LINES // 3]),
        "warnings_ms": ms({"level": "warning"}, lambda a: len(a["lines"]) == 300),
        "search_hit_ms": ms({"q": "step 999"}, lambda a: bool(a["lines"])),
        "search_nothing_ms": ms({"q": "nowhere"}, lambda a: a.get("lines") == [] or "longer" in a.get("error", "")),
    }
    proofs.write("long_log", "pytest -m prove tests/integration/jobs_pages/test_log_proof.py", measured)
    assert measured["open_ms"] < 1000
