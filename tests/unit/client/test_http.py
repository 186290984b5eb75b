"""Repeats, refusals and downloads, against a server that misbehaves on purpose."""

from __future__ import annotations

import hashlib
import json

import httpx
import pytest

from tuneyard import Client, RLTask, submit_to_platform
from tuneyard.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailed,
    DownloadError,
    InvalidRequest,
    RateLimited,
    ServerError,
)
from tuneyard.http import LONGEST_PAUSE_S, TRIES, pause

PROJECT = {"id": "11111111-1111-1111-1111-111111111111", "name": "Sums", "description": ""}
JOB = {
    "id": "22222222-2222-2222-2222-222222222222",
    "name": "job",
    "state": "queued",
    "ended": False,
    "url": "http://server/jobs/2",
}


class Server:
    """Answers by path from a list of answers each; an exception in the list is raised."""

    def __init__(self, answers):
        self.answers = answers
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        queue = self.answers[request.url.path.removeprefix("/api/v1")]
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


def client_of(server, monkeypatch, project="Sums"):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    client = Client("http://server", "tml-test", project, transport=httpx.MockTransport(server))
    naps = []
    client.http._sleep = naps.append
    client.models._sleep = naps.append
    client.naps = naps
    return client


def error(status, code="invalid", message="Refused.", fields=(), **headers):
    body = {"error": {"code": code, "message": message, "fields": list(fields), "request_id": "abc"}}
    return httpx.Response(status, json=body, headers=headers)


def page(*items):
    return httpx.Response(200, json={"items": list(items), "next": None})


def test_a_submission_is_repeated_with_the_same_key_until_it_arrives(monkeypatch):
    server = Server(
        {
            "/projects": [page(PROJECT)],
            "/jobs": [
                httpx.ConnectError("refused"),
                httpx.ReadError("reset"),
                httpx.Response(503, text="proxy"),
                error(429, "rate_limited", **{"Retry-After": "3"}),
                httpx.Response(201, json=JOB),
            ],
        }
    )
    client = client_of(server, monkeypatch)
    job = client.jobs.submit({"recipe": "sft"})
    sent = [json.loads(request.content) for request in server.requests if request.method == "POST"]
    assert job.id == JOB["id"]
    assert len(sent) == 5
    assert len({body["idempotency_key"] for body in sent}) == 1
    assert client.naps[3] == 3.0


def test_two_submissions_have_different_keys(monkeypatch):
    server = Server({"/projects": [page(PROJECT)], "/jobs": [httpx.Response(201, json=JOB)]})
    client = client_of(server, monkeypatch)
    client.jobs.submit({})
    client.jobs.submit({})
    first, second = (json.loads(request.content) for request in server.requests if request.method == "POST")
    assert first["idempotency_key"] != second["idempotency_key"]


def test_it_gives_up_after_some_tries_and_names_the_address(monkeypatch):
    server = Server({"/me": [httpx.ConnectError("refused")]})
    client = client_of(server, monkeypatch)
    with pytest.raises(ConnectionFailed, match="http://server cannot be reached"):
        client.me()
    assert len(server.requests) == TRIES
    assert len(client.naps) == TRIES - 1


def test_a_write_that_cannot_be_recognized_is_not_sent_twice(monkeypatch):
    server = Server({"/projects": [httpx.ReadError("reset")]})
    client = client_of(server, monkeypatch)
    with pytest.raises(ConnectionFailed):
        client.projects.create("New")
    assert len(server.requests) == 1


@pytest.mark.parametrize("attempt", range(12))
def test_pauses_grow_but_stay_bounded(attempt):
    assert 0.25 * min(2**attempt, 40) <= pause(attempt) * 2 <= 2 * LONGEST_PAUSE_S
    assert pause(attempt, "7") == 7
    assert pause(attempt, "9999") == LONGEST_PAUSE_S


def test_errors_are_shown_field_by_field(monkeypatch):
    problem = {"path": "hyperparameters.learning_rate", "message": "input should be less than or equal to 1"}
    server = Server({"/me": [error(422, message="The task cannot be run.", fields=[problem])]})
    with pytest.raises(InvalidRequest) as caught:
        client_of(server, monkeypatch).me()
    assert str(caught.value) == (
        "The task cannot be run.\n  hyperparameters.learning_rate: input should be less than or equal to 1"
    )
    assert caught.value.request_id == "abc"


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (error(401, "unauthorized"), AuthenticationError, "Refused."),
        (error(429, "rate_limited"), RateLimited, "Refused."),
        (error(500, "internal"), ServerError, "Refused."),
        (httpx.Response(200, html="<p>hello"), ServerError, "Is that a Tuneyard server"),
        (httpx.Response(404, html="<p>hello"), Exception, "Is that a Tuneyard server"),
        (httpx.Response(302, headers={"Location": "https://server/"}), ServerError, "redirects to https://server/"),
        (httpx.Response(422, json=["odd"]), InvalidRequest, "instead of the API's JSON"),
    ],
)
def test_every_answer_that_is_none_becomes_an_error_that_says_so(answer, kind, text, monkeypatch):
    with pytest.raises(kind, match=text):
        client_of(Server({"/me": [answer]}), monkeypatch).me()


def test_it_asks_for_a_project_only_where_there_are_several(monkeypatch):
    other = {"id": "33333333-3333-3333-3333-333333333333", "name": "Other", "description": ""}
    assert client_of(Server({"/projects": [page(PROJECT)]}), monkeypatch, "").project_id() == PROJECT["id"]
    with pytest.raises(ConfigurationError, match="There are: Sums, Other"):
        client_of(Server({"/projects": [page(PROJECT, other)]}), monkeypatch, "").project_id()
    with pytest.raises(ConfigurationError, match="no project 'Nope'"):
        client_of(Server({"/projects": [page(PROJECT)]}), monkeypatch, "Nope").project_id()


def test_a_missing_data_file_is_named_before_anything_is_sent(monkeypatch, tmp_path):
    server = Server({})
    with pytest.raises(ValueError, match=r"nowhere\.json cannot be read"):
        submit_to_platform(
            RLTask({"dataset_path": str(tmp_path / "nowhere.json")}), client=client_of(server, monkeypatch)
        )
    assert server.requests == []


CONTENT = bytes(range(256)) * 5000
FILE = {"name": "adapter_model.safetensors", "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}


def version_with(file):
    return {
        "id": "44444444-4444-4444-4444-444444444444",
        "name": "Sums",
        "number": 1,
        "formats": {"adapter": {"size": file["size"], "files": [file]}, "merged": None},
    }


class Breaks(httpx.SyncByteStream):
    def __init__(self, data, after):
        self.data, self.after = data, after

    def __iter__(self):
        yield self.data[: self.after]
        raise httpx.ReadError("reset")


def whole(status, data):
    """An answer whose body is sent in pieces, as a server sends it."""
    return httpx.Response(status, stream=Pieces([data[at : at + 50_000] for at in range(0, len(data), 50_000)]))


class Pieces(httpx.SyncByteStream):
    def __init__(self, pieces):
        self.pieces = pieces

    def __iter__(self):
        yield from self.pieces


def files_server(file, *answers):
    address = f"/model-versions/{version_with(file)['id']}"
    return Server(
        {
            address: [httpx.Response(200, json=version_with(file))],
            f"{address}/files/adapter/{file['name']}": list(answers),
        }
    )


def test_a_broken_download_goes_on_where_it_broke(monkeypatch, tmp_path):
    server = files_server(
        FILE,
        httpx.Response(200, stream=Breaks(CONTENT, 700_000)),
        httpx.ConnectError("refused"),
        whole(206, CONTENT[700_000:]),
    )
    seen = []
    client = client_of(server, monkeypatch)
    folder = client.models.download(version_with(FILE)["id"], tmp_path / "out", progress=lambda *at: seen.append(at))
    assert (folder / FILE["name"]).read_bytes() == CONTENT
    assert server.requests[-1].headers["Range"] == "bytes=700000-"
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_a_server_that_cannot_continue_is_asked_from_the_beginning(monkeypatch, tmp_path):
    server = files_server(FILE, httpx.Response(200, stream=Breaks(CONTENT, 700_000)), whole(200, CONTENT))
    folder = client_of(server, monkeypatch).models.download(version_with(FILE)["id"], tmp_path / "out")
    assert (folder / FILE["name"]).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"x" + CONTENT[1:], "SHA-256 differs"),
        (CONTENT + b"x", "longer than"),
        (CONTENT[:-1], "broke off after"),
    ],
)
def test_a_damaged_file_leaves_nothing_behind(content, text, monkeypatch, tmp_path):
    server = files_server(FILE, lambda: whole(200, content))
    with pytest.raises(DownloadError, match=text):
        client_of(server, monkeypatch).models.download(version_with(FILE)["id"], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:x", "a\\x", ""])
def test_a_file_name_that_leaves_the_folder_is_refused(name, monkeypatch, tmp_path):
    server = files_server({**FILE, "name": name}, whole(200, CONTENT))
    with pytest.raises(DownloadError, match="outside of the folder"):
        client_of(server, monkeypatch).models.download(version_with(FILE)["id"], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_it_never_writes_into_a_folder_with_something_in_it(monkeypatch, tmp_path):
    (tmp_path / "mine").write_text("x")
    server = files_server(FILE, whole(200, CONTENT))
    with pytest.raises(DownloadError, match="not an empty folder"):
        client_of(server, monkeypatch).models.download(version_with(FILE)["id"], tmp_path)
    assert (tmp_path / "mine").read_text() == "x"


def test_merged_weights_are_asked_for_waited_for_and_fetched(monkeypatch, tmp_path):
    address = f"/model-versions/{version_with(FILE)['id']}"
    ready = {**version_with(FILE), "merged": "ready"}
    ready["formats"] = {**ready["formats"], "merged": {"size": FILE["size"], "files": [FILE]}}
    making = {**version_with(FILE), "merged": "making"}
    server = Server(
        {
            address: [httpx.Response(200, json=value) for value in (version_with(FILE), making, ready)],
            f"{address}/merge": [httpx.Response(202, json=making)],
            f"{address}/files/merged/{FILE['name']}": [whole(200, CONTENT)],
        }
    )
    client = client_of(server, monkeypatch)
    folder = client.models.download(version_with(FILE)["id"], tmp_path / "out", format="merged")
    assert (folder / FILE["name"]).read_bytes() == CONTENT
    assert len(client.naps) == 2


def test_merged_weights_that_cannot_be_made_are_explained(monkeypatch, tmp_path):
    address = f"/model-versions/{version_with(FILE)['id']}"
    failed = {**version_with(FILE), "merged": "failed", "merged_error": "The cluster is away."}
    server = Server(
        {
            address: [httpx.Response(200, json=version_with(FILE))],
            f"{address}/merge": [httpx.Response(202, json=failed)],
        }
    )
    with pytest.raises(DownloadError, match="The cluster is away"):
        client_of(server, monkeypatch).models.download(version_with(FILE)["id"], tmp_path / "out", format="merged")
    assert list(tmp_path.iterdir()) == []
