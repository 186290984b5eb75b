"""The client and its command line against a server that really runs."""

from __future__ import annotations

import json
import threading
import time
from decimal import Decimal
from pathlib import Path

import factories
import httpx
import pytest
from django.conf import settings as django_settings
from rest_callers import key_of
from running import until

import tuneyard
from catalog.models import Checkpoint, DatasetVersion, ModelVersion
from catalog.registry import model_version_create
from jobs.attempts import attempt_begin, attempt_started
from jobs.models import Job
from jobs.services import job_cancel, job_transition
from jobs.states import State
from jobs.supervision import attempts_claim, journal_take
from trainers.spec import DEFAULT_MODEL
from trainers.storage import Storage
from tuneyard import Client, RLTask, cli, submit_to_platform
from tuneyard.errors import (
    AuthenticationError,
    ConfigurationError,
    InvalidRequest,
    JobFailed,
    NotFound,
    PermissionDenied,
)
from workspaces.models import Role

pytestmark = pytest.mark.django_db(transaction=True)
PROBLEMS = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(200)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with the mission's data file in it, and a person who has not logged in."""
    (tmp_path / "math_problems.json").write_text(json.dumps(PROBLEMS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TUNEYARD_URL", "TUNEYARD_TOKEN", "TUNEYARD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def logged_in(server, home, bob, project, monkeypatch, capsys):
    """Bob, logged in by the command; the address of the server."""

    class Typed:
        def readline(self):
            return key_of(bob) + "\n"

    factories.base_model(DEFAULT_MODEL)
    factories.node(devices=2)
    monkeypatch.setattr("sys.stdin", Typed())
    assert cli.main(["login", server, "--token-stdin"]) == 0
    assert "as bob@example.com, editor of" in capsys.readouterr().out
    return server


def test_the_mission_s_code_runs_as_written(logged_in, capsys, bob):
    code = """
from tuneyard import RLTask, submit_to_platform

task = RLTask(
    env_config={"dataset_path": "math_problems.json"},
    loss_fn="cross_entropy",
    hyperparams={"lr": 0.001, "batch_size": 64},
)
submit_to_platform(task)
"""
    exec(code, {})
    job = Job.objects.get()
    assert (job.state, job.submitted_by, job.name) == ("queued", bob, "math_problems sft")
    assert job.spec["recipe"] == "sft"
    assert job.spec["hyperparameters"]["learning_rate"] == 0.001
    assert job.spec["hyperparameters"]["batch_size"] == 64
    assert job.dataset_version.usable_rows == 200
    shown = capsys.readouterr().out
    assert "200 of 200 rows can be used" in shown
    assert f"{logged_in}/jobs/{job.pk}/" in shown
    assert f"tuneyard watch {str(job.pk)[:8]}" in shown
    assert f"tuneyard cancel {str(job.pk)[:8]}" in shown


def test_the_same_with_a_reward_and_ppo(logged_in):
    handle = submit_to_platform(
        RLTask(
            env_config={"dataset_path": "math_problems.json"},
            loss_fn="ppo",
            hyperparams={"lr": 0.001, "batch_size": 64},
            reward="numeric",
        )
    )
    job = Job.objects.get(pk=handle.id)
    assert (job.spec["recipe"], job.spec["loss"]["name"]) == ("grpo", "ppo")
    assert job.spec["reward"]["components"][0]["kind"] == "numeric"


def reward(completion, answer):
    return float(answer in completion)


def test_a_python_function_is_a_reward(logged_in):
    handle = submit_to_platform(RLTask({"dataset_path": "math_problems.json"}, reward=reward), quiet=True)
    (component,) = Job.objects.get(pk=handle.id).spec["reward"]["components"]
    assert component["kind"] == "python"
    assert "def reward(completion, answer)" in component["code"]


def test_the_same_data_is_sent_once(logged_in, capsys):
    task = RLTask({"dataset_path": "math_problems.json"})
    first, second = submit_to_platform(task), submit_to_platform(task)
    assert first.id != second.id, "two calls are two jobs"
    assert DatasetVersion.objects.count() == 1
    assert "already on the server" in capsys.readouterr().out
    other = RLTask(
        {"dataset_path": Job.objects.first().dataset_version.source}, hyperparams={"epochs": 2, "batch_size": 4}
    )
    third = submit_to_platform(other, quiet=True)
    assert third.data["total_steps"] == 2 * (200 - 64) // 4


def test_a_broken_connection_makes_no_second_job(logged_in, monkeypatch):
    """The server takes the submission, the answer is lost, the client asks again."""

    class Lossy(httpx.HTTPTransport):
        lost = 0

        def handle_request(self, request):
            response = super().handle_request(request)
            if request.url.path == "/api/v1/jobs" and self.lost < 2:
                self.lost += 1
                response.read()
                raise httpx.ReadError("connection reset")
            return response

    transport = Lossy()
    with Client(transport=transport) as client:
        client.http._sleep = lambda seconds: None
        handle = submit_to_platform(RLTask({"dataset_path": "math_problems.json"}), client=client, quiet=True)
    assert transport.lost == 2
    assert [str(job.pk) for job in Job.objects.all()] == [handle.id]


def test_columns_that_no_name_tells_are_taken_from_the_task(logged_in, home, capsys):
    Path("题库.jsonl").write_text('{"题目": "1+1=", "答案": "2"}\n' * 3, encoding="utf-8")
    named = {"prompt_column": "题目", "answer_column": "答案"}
    job = submit_to_platform(RLTask({"dataset_path": "题库.jsonl", **named}, reward="numeric"))
    assert "3 of 3 rows can be used" in capsys.readouterr().out
    again = Client().datasets.upload("题库.jsonl", columns={"prompt": "题目"})
    assert not again["uploaded"] and again["columns"] == {"prompt": "题目", "answer": "答案"}
    assert job.data["spec"]["data"]["columns"]["prompt"] == "题目"
    with pytest.raises(InvalidRequest, match="no such field"):
        Client().datasets.upload("题库.jsonl", columns={"question": "题目"})
    assert cli.main(["datasets", "upload", "题库.jsonl", "--column", "prompt=答案", "--name", "Turned"]) == 0
    with pytest.raises(SystemExit):
        cli.main(["datasets", "upload", "题库.jsonl", "--column", "prompt"])
    assert "write PART=NAME" in capsys.readouterr().err


def test_a_wrong_dial_is_told_with_its_path(logged_in):
    task = RLTask({"dataset_path": "math_problems.json"}, hyperparams={"lr": 7, "batch_size": 0})
    with pytest.raises(InvalidRequest) as caught:
        submit_to_platform(task)
    assert "hyperparameters.learning_rate: input should be less than or equal to 1" in str(caught.value)
    assert "hyperparameters.batch_size: " in str(caught.value)
    assert Job.objects.count() == 0


def test_data_without_a_usable_row_is_told_line_by_line(logged_in, home):
    (home / "odd.jsonl").write_text('{"question": 1\n{"question": 2\n')
    with pytest.raises(InvalidRequest, match="file: line 1"):
        submit_to_platform(RLTask({"dataset_path": "odd.jsonl"}))


def test_a_token_without_the_role_a_wrong_one_and_an_unknown_project_are_explained(logged_in, carol, bob):
    task = RLTask({"dataset_path": "math_problems.json"})
    with pytest.raises(PermissionDenied, match="needs the role editor"):
        submit_to_platform(task, client=Client(token=key_of(carol)))
    with pytest.raises(AuthenticationError, match="wrong, expired or revoked"):
        submit_to_platform(task, client=Client(token="tml-wrong"))
    with pytest.raises(ConfigurationError, match="There are: Sums"):
        submit_to_platform(task, client=Client(token=key_of(bob, Role.EDITOR), project="Nope"))
    with pytest.raises(NotFound):
        Client().jobs.get("00000000-0000-0000-0000-000000000000")
    assert Job.objects.count() == 0


def run(job: Job, *, steps: int) -> None:
    """Let a job run a few steps, as supervision would see it."""
    from compute.services import tick

    (grant,) = tick()
    attempt = attempt_begin(grant_id=grant)
    assert attempt is not None and attempt_started(attempt=attempt, pid=1)
    attempts_claim(watcher="me")
    events = [{"seq": 1, "t": 1.0, "kind": "state", "state": "started", "result": None, "error": None}]
    for step in range(1, steps + 1):
        values = {"train/reward": step / 10, "train/accuracy": step / 20}
        events += [
            {"seq": 3 * step - 1, "t": 1.0, "kind": "metric", "step": step, "values": values, "tokens": 1,
             "active_s": 1.0},
            {"seq": 3 * step, "t": 1.0, "kind": "log", "level": "info", "text": f"step {step} \x1b[31m"},
            {"seq": 3 * step + 1, "t": 1.0, "kind": "progress", "step": step, "total_steps": 4, "phase": "training",
             "fraction": step / 4, "eta_s": 8.0},
        ]  # fmt: skip
    journal_take(attempt_id=attempt.pk, watcher="me", events=events)


def succeed(job: Job, folder) -> ModelVersion:
    """End a job with a model, as finishing does."""
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(bytes(range(256)) * 10_000)
    (folder / "adapter_config.json").write_bytes(b"{}")
    uri = f"checkpoints/{job.pk}/1/final"
    files = Storage(django_settings.STORAGE_URL).put_folder(folder, uri)
    checkpoint = Checkpoint.objects.create(
        project=job.project, made_by_kind="job", made_by_id=job.pk, epoch=1, step=4, name="final", uri=uri,
        format="peft", files=files, final=True,
    )  # fmt: skip
    version = model_version_create(
        project=job.project, name=job.name, checkpoint=checkpoint, base_model=job.base_model, made_by_kind="job",
        made_by_id=job.pk, evaluation={},
    )  # fmt: skip
    result = {"before": {"accuracy": 0.25}, "after": {"accuracy": 0.9}}
    assert job_transition(job_id=job.pk, to=State.FINISHING, reason="Trained.")
    assert job_transition(
        job_id=job.pk, to=State.SUCCEEDED, reason="Accuracy 25 % → 90 %.", model_version=version, result=result
    )
    return version


def in_thread(function) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def seen(handle, deadline_s: float, condition) -> None:
    """Wait for the server to show something."""
    deadline = time.monotonic() + deadline_s
    while not condition(handle.refresh()):
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def test_a_job_is_watched_to_its_end_and_its_model_fetched(logged_in, home, capsys):
    task = RLTask({"dataset_path": "math_problems.json"}, reward="numeric", hyperparams={"steps": 4}, name="Sums")
    handle = submit_to_platform(task)
    changes = []
    failures = []

    def watch() -> None:
        try:
            handle.wait(60, on_change=lambda job: changes.append((job.state, job.data["step"])))
        except Exception as error:
            failures.append(error)

    watcher = in_thread(watch)
    job = Job.objects.get(pk=handle.id)
    until("the first look", lambda: changes or failures)
    run(job, steps=2)
    other = Client().jobs.get(handle.short_id)
    seen(other, 20, lambda shown: shown.data["step"] == 2)
    assert other.state == "running"
    assert other.data["latest"]["train/reward"]["value"] == 0.2
    assert Decimal(other.data["cost"]["total"]) >= 0
    succeed(job, home / "model")
    watcher.join(40)
    assert not watcher.is_alive() and not failures, failures
    assert changes[0][0] == "queued" and changes[-1] == ("succeeded", 2)
    assert handle.result["after"]["accuracy"] == 0.9
    assert handle.metrics("train/reward") == {"train/reward": [[1, 0.1, 1.0, 1], [2, 0.2, 1.0, 1]]}
    capsys.readouterr()

    assert cli.main(["watch", handle.short_id]) == 0
    shown = capsys.readouterr().out
    assert "Succeeded" in shown and "25.0 % → 90.0 %" in shown
    assert cli.main(["logs", handle.short_id]) == 0
    assert "step 2 \N{REPLACEMENT CHARACTER}[31m" in capsys.readouterr().out
    assert cli.main(["models", "download", "Sums@1", "--to", "fetched"]) == 0
    assert "every file verified" in capsys.readouterr().out
    assert (home / "fetched" / "adapter_model.safetensors").read_bytes() == bytes(range(256)) * 10_000
    assert handle.download_model().name == "Sums-v1-adapter"
    assert cli.main(["models", "alias", "sums", "Production", "1"]) == 0
    assert "Sums@production is v1 now" in capsys.readouterr().out
    assert cli.main(["models", "download", "Sums@production", "--to", "by-alias"]) == 0
    assert cli.main(["models", "delete", "Sums@1", "--yes"]) == 1
    assert "An alias points to it" in capsys.readouterr().err
    assert cli.main(["models", "unalias", "Sums", "production"]) == 0
    assert [move["to_number"] for move in Client().models.alias_moves(Client().models.named("Sums")["id"])] == [None, 1]
    assert cli.main(["models", "download", "Sums", "--to", "fetched"]) == 1
    assert "not an empty folder" in capsys.readouterr().err


def test_waiting_for_a_job_that_is_stopped_says_why(logged_in, bob):
    handle = submit_to_platform(RLTask({"dataset_path": "math_problems.json"}), quiet=True)
    with pytest.raises(TimeoutError, match="still queued"):
        handle.wait(0.5)
    caught = []

    def wait() -> None:
        try:
            handle.wait(60)
        except JobFailed as error:
            caught.append(error)

    waiter = in_thread(wait)
    job_cancel(job=Job.objects.get(pk=handle.id), actor=bob, reason="Wrong data.")
    waiter.join(30)
    assert [error.state for error in caught] == ["cancelled"]
    assert "Wrong data." in str(caught[0])


def test_the_commands_show_what_is_there(logged_in, home, capsys):
    (home / "task.json").write_text(
        json.dumps({"env_config": {"dataset_path": "math_problems.json"}, "name": "By file"})
    )
    for words in (
        ["whoami"],
        ["projects", "create", "Second"],
        ["projects"],
        ["datasets", "upload", "math_problems.json", "--project", "Sums"],
        ["datasets", "--project", "Sums"],
        ["rewards", "--project", "Sums"],
        ["models", "--project", "Sums"],
        ["submit", "task.json", "--project", "sums"],
        ["jobs"],
        ["jobs", "--state", "queued", "--json"],
    ):
        assert cli.main(words) == 0, (words, capsys.readouterr().err)
    shown = capsys.readouterr().out
    for text in ("bob@example.com, editor", "Second", "200", "By file", "No reward is registered", "No model yet"):
        assert text in shown
    (job,) = Job.objects.all()
    assert cli.main(["cancel", str(job.pk)[:8], "--reason", "Enough."]) == 0
    assert "is cancelled" in capsys.readouterr().out
    assert cli.main(["cancel", str(job.pk)[:8]]) == 0
    assert "has ended already" in capsys.readouterr().out
    assert cli.main(["watch"]) == 1
    assert "was cancelled: Enough." in capsys.readouterr().err
    assert cli.main(["datasets"]) == 1
    assert "Say which project" in capsys.readouterr().err
    assert cli.main(["logout"]) == 0
    assert cli.main(["jobs"]) == 1


def test_a_large_file_is_sent_in_pieces_with_progress(logged_in, home):
    rows = ({"question": f"What is {n}?", "answer": "x" * 500} for n in range(4000))
    path = home / "large.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = []
    version = Client().datasets.upload(path, progress=lambda done, total: told.append((done, total)))
    assert version["usable_rows"] == 4000
    size = path.stat().st_size
    assert told[-1] == (size, size)
    assert len(told) > 20
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_the_names_of_the_package_are_all_there():
    for name in tuneyard.__all__:
        assert getattr(tuneyard, name).__name__ == name
