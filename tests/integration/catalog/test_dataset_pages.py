"""The pages of datasets: what they show, whom they let in, and how hostile text looks there."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from catalog.models import Dataset, DatasetVersion

pytestmark = pytest.mark.django_db

ROWS = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(5)]
HOSTILE = "<script>alert(1)</script>"


def content(rows: list[Any]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def send(client: Client, project: Any, data: bytes = content(ROWS), file_name: str = "sums.jsonl", **more: Any) -> Any:
    headers = more.pop("headers", None)
    file = SimpleUploadedFile(file_name, data)
    return client.post(reverse("dataset-upload", args=[project.pk]), {"file": file, **more}, headers=headers)


@pytest.fixture
def version(client: Client, bob: Any, project: Any) -> DatasetVersion:
    client.force_login(bob)
    assert send(client, project, name="Sums").status_code == 302
    return DatasetVersion.objects.get()


def test_an_upload_leads_to_its_page(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    answer = send(client, project, name="Sums")
    page = client.get(answer["Location"]).content.decode()
    assert "What is 0 + 1?" in page
    assert "sums.jsonl" in page


def test_scripts_get_the_address_or_the_refusal_as_json(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    fetch = {"X-Requested-With": "fetch"}
    done = send(client, project, name="Sums", headers=fetch)
    assert done.status_code == 201
    assert done.json() == {"url": reverse("dataset", args=[project.pk, Dataset.objects.get().pk])}
    refused = send(client, project, b"{broken", headers=fetch)
    assert refused.status_code == 422
    assert "Line 1:" in refused.json()["html"]
    nothing = client.post(reverse("dataset-upload", args=[project.pk]), {}, headers=fetch)
    assert nothing.status_code == 422
    assert "Choose a file." in nothing.json()["html"]


def test_without_script_a_refusal_is_on_the_form(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    answer = send(client, project, content([{"甲": "一", "乙": "2"}]), name="Sums")
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "No column looks like a prompt" in page
    assert "甲" in page
    assert not Dataset.objects.exists()
    again = send(client, project, content([{"甲": "一", "乙": "2"}]), name="Sums", prompt="甲", answer="乙")
    assert again.status_code == 302


def test_equal_problems_in_a_row_are_one_line(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    send(client, project, content(ROWS) + b"\n" + b"{x\n" * 40, name="Sums")
    page = client.get(reverse("dataset", args=[project.pk, Dataset.objects.get().pk])).content.decode()
    assert "6–45" in page
    assert "40 ×" in page


def test_hostile_text_is_shown_as_text(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    rows = [{"question": HOSTILE, "answer": HOSTILE, HOSTILE: HOSTILE}, {"question": "", "answer": HOSTILE}]
    assert send(client, project, content(rows), f"{HOSTILE}.jsonl", name=HOSTILE).status_code == 302
    for url in (
        reverse("dataset", args=[project.pk, Dataset.objects.get().pk]),
        reverse("datasets", args=[project.pk]),
        reverse("reward-new", args=[project.pk]),
    ):
        page = client.get(url).content.decode()
        assert "alert(1)" in page
        assert HOSTILE not in page


def test_the_file_comes_back_byte_for_byte(client: Client, version: DatasetVersion, project: Any):
    answer = client.get(reverse("dataset-file", args=[project.pk, version.dataset_id, 1]))
    assert b"".join(answer.streaming_content) == content(ROWS)
    assert answer["Content-Disposition"] == 'attachment; filename="sums.jsonl"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert client.get(reverse("dataset-file", args=[project.pk, version.dataset_id, 2])).status_code == 404


def test_an_older_version_can_be_looked_at(client: Client, version: DatasetVersion, project: Any):
    send(client, project, content(ROWS[:2]), name="Sums")
    url = reverse("dataset", args=[project.pk, version.dataset_id])
    assert "v2</span></h1>" in client.get(url).content.decode()
    assert "v1</span></h1>" in client.get(url, {"version": "1"}).content.decode()
    assert "v2</span></h1>" in client.get(url, {"version": "nonsense"}).content.decode()


def test_viewers_look_and_editors_change(client: Client, version: DatasetVersion, project: Any, carol: Any):
    client.force_login(carol)
    args = [project.pk, version.dataset_id]
    page = client.get(reverse("dataset", args=args))
    assert page.status_code == 200
    assert "Delete dataset" not in page.content.decode()
    assert client.get(reverse("dataset-upload", args=[project.pk])).status_code == 403
    assert send(client, project, name="Other").status_code == 403
    assert client.post(reverse("dataset-delete", args=args)).status_code == 403
    assert Dataset.objects.count() == 1


def test_a_dataset_is_not_reached_through_another_project(
    client: Client, version: DatasetVersion, project: Any, bob: Any
):
    from workspaces.services import project_create

    other = project_create(workspace=project.workspace, name="Other", actor=bob)
    assert client.get(reverse("dataset", args=[other.pk, version.dataset_id])).status_code == 404
    assert client.post(reverse("dataset-delete", args=[other.pk, version.dataset_id])).status_code == 404


def test_deleting_takes_a_post(client: Client, version: DatasetVersion, project: Any):
    url = reverse("dataset-delete", args=[project.pk, version.dataset_id])
    assert client.get(url).status_code == 405
    assert Dataset.objects.exists()
    assert client.post(url)["Location"] == reverse("datasets", args=[project.pk])
    assert not Dataset.objects.exists()


def test_the_list_takes_a_fixed_number_of_queries(
    client: Client, bob: Any, project: Any, django_assert_max_num_queries: Any
):
    client.force_login(bob)
    for number in range(12):
        send(client, project, name=f"data {number}")
    with django_assert_max_num_queries(12):
        client.get(reverse("datasets", args=[project.pk]))


def test_pairs_stand_side_by_side_and_columns_can_be_named(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    rows = [{"q": f"Question {n}?", "good": f"Better {n}", "bad": HOSTILE} for n in range(3)]
    answer = send(client, project, content(rows), "pairs.jsonl", prompt="q", chosen="good", rejected="bad")
    page = client.get(answer["Location"]).content.decode()
    assert "side-chosen" in page and "Better 0" in page and "side-rejected" in page
    assert HOSTILE not in page and "&lt;script&gt;" in page
    assert DatasetVersion.objects.get().report["pairs"] == 3


def test_plain_text_is_shown_as_it_is(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    answer = send(client, project, b"First paragraph.\n\nSecond.\n", "book.txt")
    page = client.get(answer["Location"]).content.decode()
    assert "First paragraph." in page and "Plain texts" in page


def test_parquet_is_checked_like_any_other_file(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    sink = io.BytesIO()
    pq.write_table(pa.table({"question": ["What is 1 + 1?", None], "answer": ["2", "3"]}), sink)
    answer = send(client, project, sink.getvalue(), "sums.parquet")
    page = client.get(answer["Location"]).content.decode()
    assert "PARQUET" in page and "What is 1 + 1?" in page
    refused = send(client, project, b"PAR1" + bytes(100) + b"PAR1", "broken.parquet")
    assert refused.status_code == 422 and "cannot be read" in refused.content.decode()


def test_lengths_have_a_histogram_and_frequent_answers_are_listed(client: Client, bob: Any, project: Any):
    client.force_login(bob)
    rows = [{"question": "Why? " * (n % 7 + 1) + str(n), "answer": "yes" if n % 3 else "no"} for n in range(60)]
    page = client.get(send(client, project, content(rows))["Location"]).content.decode()
    assert 'class="histogram"' in page and "Most frequent answers" in page and "<meter" in page


def test_shared_prompts_of_two_datasets_are_listed(client: Client, version: DatasetVersion, project: Any):
    held_out = [{"question": "what is  3 + 1?", "answer": "4"}, {"question": "new", "answer": "1"}]
    send(client, project, content(held_out), "eval.jsonl", name="Held out")
    other = DatasetVersion.objects.exclude(pk=version.pk).get()
    url = reverse("dataset-compare", args=[project.pk, version.dataset_id, version.number])
    assert url in client.get(reverse("dataset", args=[project.pk, version.dataset_id])).content.decode()
    page = client.get(url, {"with": str(other.pk)}).content.decode()
    assert "What is 3 + 1?" in page and "Held out" in page
    assert "No prompt is in both" not in page
    assert "Choose another dataset" in client.get(url, {"with": str(version.pk)}).content.decode()
