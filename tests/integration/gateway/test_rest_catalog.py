"""Projects, datasets, rewards and base models over HTTP."""

from __future__ import annotations

import hashlib
import io
import json

import factories
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_callers import V1, Caller, key_of, problem

from catalog.models import BaseModel, Dataset, DatasetVersion, RewardVersion
from catalog.services import reward_save
from workspaces.models import Project, Role

pytestmark = pytest.mark.django_db
ROWS = [{"prompt": f"{n} + {n} =", "answer": str(2 * n)} for n in range(20)]


def file_of(rows: object, name: str = "sums.json") -> SimpleUploadedFile:
    content = rows if isinstance(rows, bytes) else json.dumps(rows).encode()
    return SimpleUploadedFile(name, content)


def test_projects_are_listed_and_made(as_bob, project, workspace):
    assert [item["name"] for item in as_bob.get("/projects").json()["items"]] == ["Sums"]
    answer = as_bob.post("/projects", {"name": "  Dialogue  ", "description": "Talks."})
    assert answer.status_code == 201
    assert answer.json()["name"] == "Dialogue"
    assert Project.objects.get(name="Dialogue").workspace == workspace
    taken = as_bob.post("/projects", {"name": "dialogue"})
    assert taken.status_code == 422
    assert problem(taken)["fields"][0]["path"] == "name"


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "\u0000"])
def test_a_project_needs_a_usable_name(as_bob, name):
    answer = as_bob.post("/projects", {"name": name})
    assert answer.status_code in (400, 422)
    problem(answer)


def test_a_viewer_makes_nothing(as_carol, project):
    answers = [
        as_carol.post("/projects", {"name": "New"}),
        as_carol.upload("/datasets", project=str(project.pk), file=file_of(ROWS)),
        as_carol.post("/rewards", {"project": str(project.pk), "name": "New", "spec": {"components": []}}),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert (Project.objects.count(), Dataset.objects.count()) == (1, 0)


def test_a_token_of_a_viewer_makes_nothing_for_an_owner_either(alice, project):
    caller = Caller(key_of(alice, Role.VIEWER))
    assert caller.upload("/datasets", project=str(project.pk), file=file_of(ROWS)).status_code == 403


def test_a_file_becomes_a_dataset_with_a_report(as_bob, bob, project):
    answer = as_bob.upload("/datasets", project=str(project.pk), name="Sums", file=file_of(ROWS))
    assert answer.status_code == 201, answer.content
    version = answer.json()
    stored = DatasetVersion.objects.get()
    assert version["source"] == stored.source == f"dataset:{stored.dataset_id}@1"
    assert (version["rows"], version["usable_rows"], version["created_by"]) == (20, 20, bob.email)
    assert version["sha256"] == hashlib.sha256(json.dumps(ROWS).encode()).hexdigest()
    listed = as_bob.get("/datasets", project=str(project.pk), sha256=version["sha256"]).json()["items"]
    assert [item["name"] for item in listed] == ["Sums"]
    assert listed[0]["versions"] == [version]
    assert as_bob.get("/datasets", sha256="0" * 64).json()["items"] == []
    assert as_bob.get(f"/datasets/{stored.dataset_id}").json() == listed[0]
    report = as_bob.get(f"/datasets/{stored.dataset_id}/versions/1").json()
    assert report["report"] and report["id"] == version["id"]


def test_the_same_file_again_is_the_same_version(as_bob, project):
    first, again = (
        as_bob.upload("/datasets", project=str(project.pk), name="Sums", file=file_of(ROWS)).json() for _ in range(2)
    )
    assert first == again
    assert DatasetVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "sums.json"),
        (b"{", "sums.json"),
        (b"[]", "sums.json"),
        (b"\x00\x01\x02", "sums.json"),
        (b"PK\x03\x04 zip", "sums.json"),
        (b"[" * 100_000, "sums.json"),
        (b'{"prompt": "a"}\n{', "../../etc/passwd"),
        (b'{"a": 1}\n', "x" * 300 + ".jsonl"),
    ],
)
def test_a_file_without_a_usable_row_is_refused_with_where_and_why(as_bob, project, content, name):
    answer = as_bob.upload("/datasets", project=str(project.pk), name="Odd", file=file_of(content, name))
    if answer.status_code == 201:
        assert answer.json()["usable_rows"] > 0
        return
    assert answer.status_code == 422, answer.content
    assert problem(answer)["fields"][0]["path"] == "file"
    assert Dataset.objects.count() == 0


def test_parts_that_are_missing_from_an_upload_are_named(as_bob, project):
    answer = as_bob.upload("/datasets", project=str(project.pk))
    assert answer.status_code == 422
    assert [item["path"] for item in problem(answer)["fields"]] == ["file"]
    answer = as_bob.upload("/datasets", file=file_of(ROWS))
    assert [item["path"] for item in problem(answer)["fields"]] == ["project"]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"no multipart at all", "multipart/form-data; boundary=x"),
        (b"--x\r\nContent-Disposition: form-data; name=", "multipart/form-data; boundary=x"),
        (b"--x", "multipart/form-data"),
        (b"--x", "multipart/form-data; boundary=" + "x" * 500),
        (b"{}", "application/json"),
        (b"project=1", "application/x-www-form-urlencoded"),
        (b"--x\r\n" * 2000, "multipart/form-data; boundary=x"),
    ],
)
def test_an_upload_that_is_none_is_refused_in_a_sentence(as_bob, project, body, content_type):
    answer = as_bob.client.post(f"{V1}/datasets", body, content_type=content_type)
    assert answer.status_code in (400, 422), answer.content
    problem(answer)
    assert Dataset.objects.count() == 0


def test_a_file_above_the_limit_is_refused(as_bob, project, settings):
    settings.UPLOAD_MAX_BYTES = 100
    answer = as_bob.upload("/datasets", project=str(project.pk), file=file_of(ROWS))
    assert answer.status_code == 413
    assert "at most 100" in problem(answer)["message"]


def test_form_values_that_cannot_be_stored_are_refused(as_bob, project):
    answer = as_bob.upload("/datasets", project=str(project.pk), name="a\x00b", file=file_of(ROWS))
    assert answer.status_code == 400
    assert "NUL" in problem(answer)["message"]


def test_foreign_data_and_rewards_are_not_there(as_mallory, alice, project):
    version = factories.dataset_version(project)
    reward = reward_save(project=project, name="R", spec={"components": [{"kind": "exact"}]}, actor=alice).reward
    for path in (
        f"/datasets/{version.dataset_id}",
        f"/datasets/{version.dataset_id}/versions/1",
        f"/rewards/{reward.pk}",
    ):
        answer = as_mallory.get(path)
        assert answer.status_code == 404
        problem(answer)
    for path in ("/datasets", "/rewards", "/models"):
        assert as_mallory.get(path).json()["items"] == []
        assert as_mallory.get(path, project=str(project.pk)).json()["items"] == []
    assert [item["name"] for item in as_mallory.get("/projects").json()["items"]] == ["Elsewhere"]
    target = str(project.pk)
    assert as_mallory.upload("/datasets", project=target, file=file_of(ROWS)).status_code == 404
    body = {"project": target, "name": "R", "spec": {"components": [{"kind": "exact"}]}}
    assert as_mallory.post("/rewards", body).status_code == 404
    assert as_mallory.get(f"/datasets/{version.dataset_id}/versions/99999999999999999999").status_code == 404


def test_a_token_reaches_one_workspace_even_of_a_person_with_two(as_bob, bob, mallory):
    from workspaces.models import Membership

    elsewhere = mallory.workspaces.get()
    Membership.objects.create(workspace=elsewhere, user=bob, role=Role.OWNER)
    version = factories.dataset_version(elsewhere.projects.get())
    assert as_bob.get(f"/datasets/{version.dataset_id}").status_code == 404


def test_rewards_are_registered_by_version(as_bob, project):
    body = {"project": str(project.pk), "name": "Exact", "spec": {"components": [{"kind": "exact"}]}}
    first = as_bob.post("/rewards", body)
    assert first.status_code == 201
    reward_id = first.json()["reward"]["id"]
    assert first.json()["source"] == f"reward:{reward_id}@1"
    assert as_bob.post("/rewards", body).json()["number"] == 1, "the same again is the same version"
    body["spec"]["components"][0]["ignore_case"] = True
    assert as_bob.post("/rewards", body).json()["number"] == 2
    shown = as_bob.get(f"/rewards/{reward_id}").json()
    assert [version["number"] for version in shown["versions"]] == [2, 1]
    assert as_bob.get("/rewards").json()["items"] == [shown]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"components": []}, "spec"),
        ({"components": [{"kind": "magic"}]}, "spec.components.0"),
        ({"components": [{"kind": "pattern", "pattern": "("}]}, "spec.components.0.pattern"),
        ({"components": [{"kind": "python", "code": "def reward(:"}]}, "spec.components.0.code"),
        ({"components": [{"kind": "exact"}, {"kind": "exact"}]}, "spec"),
        ({}, "spec.components"),
    ],
)
def test_a_reward_that_cannot_be_used_is_refused_with_the_path(as_bob, project, spec, path):
    answer = as_bob.post("/rewards", {"project": str(project.pk), "name": "R", "spec": spec})
    assert answer.status_code == 422
    assert [item["path"] for item in problem(answer)["fields"]] == [path]
    assert RewardVersion.objects.count() == 0


def test_base_models_are_those_that_may_be_used(as_carol):
    factories.base_model("open")
    BaseModel.objects.filter(pk=factories.base_model("closed").pk).update(enabled=False)
    assert [item["name"] for item in as_carol.get("/base-models").json()["items"]] == ["open"]


def test_an_upload_that_breaks_off_makes_no_dataset(server, as_bob, project):
    import http.client

    host = server.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    body = io.BytesIO()
    body.write(b'--x\r\nContent-Disposition: form-data; name="project"\r\n\r\n' + str(project.pk).encode())
    body.write(b'\r\n--x\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n\r\n[{"prompt": "a"')
    connection.putrequest("POST", f"{V1}/datasets")
    connection.putheader("Authorization", f"Bearer {as_bob.key}")
    connection.putheader("Content-Type", "multipart/form-data; boundary=x")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(body.getvalue())
    connection.close()
    assert as_bob.get("/me").status_code == 200
    assert Dataset.objects.count() == 0
