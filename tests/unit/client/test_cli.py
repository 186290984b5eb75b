"""The command line: what it understands, what it says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tuneyard import cli, settings
from tuneyard.cli.submit import from_flags, from_path
from tuneyard.errors import TaskError
from tuneyard.watch import duration, facts, outcome


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TUNEYARD_URL", "TUNEYARD_TOKEN", "TUNEYARD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def flags(*arguments):
    return from_flags(cli.build_parser().parse_args(["submit", *arguments]))


def test_help_lists_the_commands_without_loading_http_or_tables():
    code = "import sys; from tuneyard.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('httpx', 'rich', 'yaml') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
    for command in ("login", "submit", "watch", "cancel", "models"):
        assert command in shown


def test_flags_describe_a_task():
    task = flags(
        "--dataset", "rows.jsonl", "--loss", "ppo", "--reward", "numeric",
        "--reward", '{"kind": "length", "maximum": 9}', "--lr", "1e-4", "--steps", "20", "--group-size", "4",
        "--tier", "spot", "--budget", "2.5",
        "--set", "kl_coef=0.1", "--set", "schedule=cosine", "--name", "Sums", "--seed", "3",
    )  # fmt: skip
    spec = task.to_spec()
    assert spec["hyperparameters"] == {"learning_rate": 1e-4, "steps": 20, "schedule": "cosine"}
    assert [item["kind"] for item in spec["reward"]["components"]] == ["numeric", "length"]
    assert (spec["loss"], spec["seed"]) == ({"name": "ppo", "kl_coefficient": 0.1}, 3)
    assert (spec["resources"], spec["budget"]) == ({"tier": "spot"}, {"amount": "2.5"})
    assert (spec["name"], spec["recipe"]) == ("Sums", "grpo")


def test_a_reward_may_be_a_python_file(tmp_path):
    (tmp_path / "score.py").write_text("def reward(completion):\n    return 1.0\n")
    components = flags("--dataset", "a.json", "--reward", "score.py").to_spec()["reward"]["components"]
    assert components == [{"kind": "python", "code": "def reward(completion):\n    return 1.0\n"}]


def test_a_file_may_hold_the_arguments_of_a_task_or_a_whole_spec(tmp_path):
    arguments = {"env_config": {"dataset_path": "a.json"}, "hyperparams": {"lr": 0.1}}
    (tmp_path / "task.json").write_text(json.dumps(arguments))
    (tmp_path / "task.yaml").write_text("env_config: {dataset_path: a.json}\nhyperparams: {lr: 0.1}\n")
    (tmp_path / "task.py").write_text(
        "from tuneyard import RLTask\n"
        "task = RLTask({'dataset_path': 'a.json'}, hyperparams={'lr': 0.1})\n"
        "if __name__ == '__main__':\n    raise SystemExit('submitted')\n"
    )
    specs = [from_path(tmp_path / name).to_spec() for name in ("task.json", "task.yaml", "task.py")]
    assert specs[0] == specs[1] == specs[2]
    spec = {"version": 1, "recipe": "sft", "data": {"source": "a.json"}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert from_path(tmp_path / "spec.json") == spec


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("task.json", "{", "is not JSON"),
        ("task.json", "[]", "does not hold an object"),
        ("task.json", '{"env_confg": {}}', "did you mean 'env_config'?"),
        ("task.json", '{"loss_fn": "ppo"}', "has neither 'env_config'"),
        ("task.yaml", "a: [", "is not YAML"),
        ("task.yaml", "!!python/object/apply:os.system ['true']", "is not YAML"),
        ("task.py", "x = 1", "defines 0 tasks"),
        ("rows.csv", "a,b", "data goes behind --dataset"),
    ],
)
def test_a_file_that_holds_no_task_is_explained(tmp_path, name, text, hint):
    (tmp_path / name).write_text(text)
    with pytest.raises(TaskError, match=hint.replace("?", r"\?")):
        from_path(tmp_path / name)


def test_a_task_is_described_by_a_file_or_by_flags_not_both(tmp_path, capsys):
    (tmp_path / "task.json").write_text('{"env_config": {"dataset_path": "a.json"}}')
    assert cli.main(["submit", "task.json", "--lr", "0.1"]) == 1
    assert "--lr: describes a task, and so does the file" in capsys.readouterr().err


def test_the_spec_can_be_looked_at_without_a_server(capsys):
    assert cli.main(["submit", "--dataset", "a.json", "--lr", "0.1", "--print-spec"]) == 0
    assert json.loads(capsys.readouterr().out)["hyperparameters"] == {"learning_rate": 0.1}


def test_a_command_without_a_server_says_how_to_name_one(capsys):
    assert cli.main(["jobs"]) == 1
    assert capsys.readouterr().err == (
        "tuneyard: No server is known: run `tuneyard login`, set TUNEYARD_URL, or pass Client(url=...).\n"
    )


def test_login_needs_a_terminal_or_a_token_on_standard_input(capsys, monkeypatch):
    class NoTerminal:
        def isatty(self):
            return False

        def readline(self):
            return "\n"

    monkeypatch.setattr(sys, "stdin", NoTerminal())
    assert cli.main(["login", "http://127.0.0.1:1"]) == 1
    assert "--token-stdin" in capsys.readouterr().err
    assert cli.main(["login", "http://127.0.0.1:1", "--token-stdin"]) == 1
    assert "nothing was saved" in capsys.readouterr().err
    assert settings.load() == {}


def test_ctrl_c_ends_a_command_without_a_traceback(monkeypatch):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("tuneyard.cli.jobs.jobs", interrupted)
    assert cli.main(["jobs"]) == cli.INTERRUPTED


def test_a_command_of_another_package_gets_the_rest_of_the_line(monkeypatch, capsys):
    class Entry:
        name = "doctor"

        def load(self):
            return lambda arguments: sys.stdout.write(f"{arguments}\n") and 3

    monkeypatch.setattr(cli, "_extra_commands", lambda: {"doctor": Entry()})
    assert cli.main(["doctor", "--fast"]) == 3
    assert capsys.readouterr().out == "['--fast']\n"
    assert "doctor" in cli.build_parser().format_help()


@pytest.mark.parametrize(
    "words",
    [
        ["datasets", "--project", "Sums", "--json", "upload", "a.json"],
        ["datasets", "upload", "a.json", "--project", "Sums", "--json"],
    ],
)
def test_common_options_may_stand_before_or_behind_an_action(words):
    arguments = cli.build_parser().parse_args(words)
    assert (arguments.project, arguments.json, arguments.file) == ("Sums", True, "a.json")
    assert (arguments.run, arguments.url) == ("tuneyard.cli.catalog:upload", None)


def test_unknown_commands_are_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["sumbit"])
    assert caught.value.code == 2
    assert "submit" in capsys.readouterr().err


JOB = {
    "id": "22222222-2222-2222-2222-222222222222",
    "state": "running",
    "phase": "training",
    "step": 3,
    "total_steps": 20,
    "eta_s": 100.0,
    "ended": False,
    "latest": {"train/reward": {"step": 3, "value": 0.5}, "train/accuracy": {"step": 3, "value": 0.25}},
}


def test_the_line_beside_the_bar_says_step_reward_accuracy_and_time_left():
    assert facts(JOB) == ["training", "step 3/20", "reward 0.5", "accuracy 25.0 %", "2 min left"]


def test_a_reward_that_is_no_number_is_shown_as_such():
    job = {**JOB, "latest": {"train/reward": {"step": 3, "value": "NaN"}}}
    assert "reward NaN" in facts(job)


def test_the_outcome_says_what_changed_and_where_the_model_is():
    job = {
        **JOB,
        "state": "succeeded",
        "result": {"before": {"accuracy": 0.25}, "after": {"accuracy": 0.9}},
        "cost": {"total": "0.012", "currency": "USD"},
        "model_version": {"name": "Sums to 9", "number": 2},
        "url": "http://server/jobs/2",
    }
    shown = "\n".join(outcome(job))
    assert "25.0 % → 90.0 %" in shown
    assert "0.012 USD" in shown
    assert "tuneyard models download 'Sums to 9@2'" in shown


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0 s"), (89, "89 s"), (600, "10 min"), (11_100, "3 h 5 min")])
def test_durations_are_said_as_people_say_them(seconds, text):
    assert duration(seconds) == text
