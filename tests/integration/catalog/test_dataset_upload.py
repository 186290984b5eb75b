"""Uploading data: the check, the versions, what is stored, and what is refused with its reasons."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.conf import settings

from catalog import services
from catalog.models import Dataset, DatasetVersion
from catalog.previews import column_of, columns_by_hand, preview_rows
from trainers.spec import Columns
from trainers.storage import Storage
from workspaces.errors import Refused
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db

GOOD = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(5)]


def jsonl(rows: list[Any]) -> io.BytesIO:
    return io.BytesIO("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode())


@pytest.fixture
def upload(project: Any, bob: Any) -> Any:
    def send(rows: list[Any], name: str = "Sums", **more: Any) -> DatasetVersion:
        return services.dataset_upload(
            project=project, name=name, file=jsonl(rows), file_name="sums.jsonl", actor=bob, **more
        )

    return send


def test_it_keeps_the_file_byte_for_byte(upload: Any):
    version = upload(GOOD)
    with Storage(settings.STORAGE_URL).open_read(version.object_key) as stored:
        assert stored.read() == jsonl(GOOD).read()
    assert (version.number, version.rows, version.usable_rows) == (1, 5, 5)
    assert version.size == len(jsonl(GOOD).read())
    assert AuditEvent.objects.get(action="dataset.upload").object_label == "Sums v1"


def test_it_finds_the_columns_and_shows_the_first_rows(upload: Any):
    version = upload(GOOD)
    assert column_of(version, "prompt") == "question"
    assert columns_by_hand(version) == {}
    first = preview_rows(version)[0]
    assert (first.line, first.prompt, first.answer) == (1, "What is 0 + 1?", "1")
    assert first.raw == GOOD[0]


def test_bad_rows_are_listed_and_the_others_kept(upload: Any):
    version = upload([*GOOD, "{broken", {"question": "", "answer": "1"}, {"question": "no answer", "answer": None}])
    assert (version.rows, version.usable_rows, version.report["bad"]) == (8, 5, 3)
    listed = [(p["line"], p["column"]) for p in version.report["problems"] if p["severity"] == "error"]
    assert listed == [(6, None), (7, "question"), (8, "answer")]
    assert all(p["message"] and p["advice"] for p in version.report["problems"])


def test_a_file_without_a_usable_row_is_refused_with_its_reasons(upload: Any):
    with pytest.raises(services.DatasetRefused, match=r"None of the 2 rows can be used\. Line 1:") as refused:
        upload(["{broken", "nor this"])
    assert [problem.line for problem in refused.value.report.problems] == [1, 2]
    assert not Dataset.objects.exists()


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "empty"), (b"PK\x03\x04zip", "zip archive"), (b"\n\n \n", "empty")]
)
def test_what_is_no_data_is_refused(project: Any, bob: Any, content: bytes, said: str):
    with pytest.raises(Refused, match=said):
        services.dataset_upload(project=project, name="x", file=io.BytesIO(content), file_name="x.jsonl", actor=bob)


def test_columns_that_names_do_not_tell_can_be_chosen(upload: Any):
    rows = [{"甲": "一加一等于几？", "乙": "2"}]
    with pytest.raises(Refused, match="No column looks like a prompt"):
        upload(rows)
    version = upload(rows, columns=Columns(prompt="甲", answer="乙"))
    assert preview_rows(version)[0].answer == "2"
    assert columns_by_hand(version) == {"prompt": "甲", "answer": "乙"}


def test_the_same_name_in_any_case_gets_the_next_version(upload: Any):
    first, second = upload(GOOD, "Sums"), upload(GOOD[:3], " SUMS ")
    assert second.dataset_id == first.dataset_id
    assert second.number == 2


def test_the_same_bytes_again_are_the_same_version(upload: Any):
    assert upload(GOOD) == upload(GOOD)
    other = upload(GOOD, "Other name")
    assert other.number == 1
    assert DatasetVersion.objects.count() == 2


def test_without_a_name_the_file_gives_it(upload: Any):
    assert upload(GOOD, "").dataset.name == "sums"


def test_it_refuses_more_bytes_than_allowed(upload: Any, settings: Any):
    settings.UPLOAD_MAX_BYTES = 50
    with pytest.raises(Refused, match="larger than 50 B"):
        upload(GOOD)


def test_nul_and_broken_surrogates_do_not_break_the_database(upload: Any):
    version = upload([*GOOD, '{"question": "nul \\u0000 here", "answer": "\\ud800", "x\\u0000": "y"}'])
    assert version.rows == 6


def test_deleting_removes_the_file_that_nobody_else_has(
    upload: Any, alice: Any, django_capture_on_commit_callbacks: Any
):
    storage = Storage(settings.STORAGE_URL)
    kept, gone = upload(GOOD, "kept"), upload(GOOD[:2], "gone")
    shared = upload(GOOD, "shares a file with kept")
    for version in (gone, shared):
        with django_capture_on_commit_callbacks(execute=True):
            services.dataset_delete(dataset=version.dataset, actor=alice)
    assert not storage.exists(gone.object_key)
    assert storage.exists(kept.object_key)
    assert AuditEvent.objects.filter(action="dataset.delete").count() == 2


def test_data_that_a_job_used_stays(upload: Any, alice: Any, project: Any):
    import factories

    from jobs.services import job_submit

    version = upload(GOOD)
    factories.base_model()
    job_submit(project=project, spec=factories.spec(version), submitted_by=alice, idempotency_key="k")
    with pytest.raises(Refused, match="Jobs used this dataset"):
        services.dataset_delete(dataset=version.dataset, actor=alice)
    assert Dataset.objects.filter(pk=version.dataset_id).exists()
    assert not AuditEvent.objects.filter(action="dataset.delete").exists()
