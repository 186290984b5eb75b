"""submit: a task from a file, or from flags."""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path
from typing import Any, Union

from tuneyard.cli.show import as_json, client_of, say
from tuneyard.errors import TaskError
from tuneyard.fields import unknown
from tuneyard.rewards import REGISTERED, from_file, reward_spec
from tuneyard.submit import announce, submit_spec
from tuneyard.submit import submit as submit_task
from tuneyard.task import RLTask

ARGUMENTS = tuple(RLTask.__dataclass_fields__)
# Flags that are hyperparameters of the same name.
DIALS = ("lr", "steps", "epochs", "batch_size", "group_size", "max_new_tokens", "temperature", "seed")
FLAGS = ("dataset", "loss", "reward", "model", "system_prompt", "tier", "budget", *DIALS)
Task = Union[RLTask, "dict[str, Any]"]


def submit(arguments: argparse.Namespace) -> None:
    folder = None
    if arguments.file:
        given = [flag for flag in FLAGS if getattr(arguments, flag) is not None] + (["set"] if arguments.set else [])
        if given:
            raise TaskError(
                f"--{given[0].replace('_', '-')}", "describes a task, and so does the file; give one of them"
            )
        folder = Path(arguments.file).expanduser().parent
        task = from_path(Path(arguments.file).expanduser())
        if arguments.name and isinstance(task, dict):
            task["name"] = arguments.name
        elif arguments.name and isinstance(task, RLTask):
            task.name = arguments.name
    else:
        task = from_flags(arguments)
    if arguments.print_spec:
        as_json(task.to_spec() if isinstance(task, RLTask) else task)
        return
    with client_of(arguments) as client:
        if isinstance(task, RLTask):
            job = submit_task(client, task, say=say, folder=folder)
        else:
            job = submit_spec(client, task, say=say, folder=folder)
        announce(job, say)
        if arguments.watch:
            from tuneyard.watch import watch

            watch(job)


def from_flags(arguments: argparse.Namespace) -> RLTask:
    """The task that the flags describe."""
    if not arguments.dataset:
        raise TaskError("--dataset", "is missing: name a file of rows, or give a task in a file (see --help)")
    env: dict[str, Any] = {"dataset_path": arguments.dataset}
    if arguments.system_prompt is not None:
        env["system_prompt"] = arguments.system_prompt
    dials = {name: getattr(arguments, name) for name in DIALS if getattr(arguments, name) is not None}
    for pair in arguments.set:
        key, sign, value = pair.partition("=")
        if not sign:
            raise TaskError("--set", f"{pair!r} is not KEY=VALUE")
        dials[key] = _value(value)
    return RLTask(
        env_config=env,
        loss_fn=arguments.loss,
        hyperparams=dials,
        reward=_reward(arguments.reward),
        model=arguments.model,
        name=arguments.name,
        resources=arguments.tier,
        budget=arguments.budget,
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _reward(words: list[str] | None) -> Any:
    if not words:
        return None
    if len(words) == 1 and words[0].startswith(REGISTERED):
        return words[0]
    components: list[Any] = []
    for word in words:
        if word.endswith(".py"):
            components += from_file(Path(word).expanduser())["components"]
        else:
            components += reward_spec(_value(word), "--reward")["components"]
    return components


def from_path(path: Path) -> Task:
    """A task from a file: an ``RLTask`` from its arguments or from Python, or a whole task spec as a dict."""
    suffix = path.suffix.lower()
    if suffix == ".py":
        return _from_python(path)
    if suffix not in (".json", ".yaml", ".yml"):
        raise TaskError(str(path), "is neither .json, .yaml nor .py; data goes behind --dataset")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    value = _parse_json(text, path) if suffix == ".json" else _parse_yaml(text, path)
    if not isinstance(value, dict):
        raise TaskError(str(path), "does not hold an object with the task's fields")
    if "data" in value or "version" in value:
        return value
    for key in value:
        if key not in ARGUMENTS:
            raise unknown(str(path), key, ARGUMENTS)
    if "env_config" not in value:
        raise TaskError(str(path), "has neither 'env_config' (arguments of RLTask) nor 'data' (a task spec)")
    return RLTask(**value)


def _parse_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TaskError(str(path), f"is not JSON: {error}") from None


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise TaskError(
            str(path), "needs PyYAML to be read: pip install 'tuneyard[yaml]', or write it as JSON"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise TaskError(str(path), f"is not YAML: {error}") from None


def _from_python(path: Path) -> RLTask:
    if not path.is_file():
        raise TaskError(str(path), "cannot be read: there is no such file")
    # The name is not __main__, so that a script which also submits does not do so here.
    scope = runpy.run_path(str(path), run_name="tuneyard_task")
    tasks = {name: value for name, value in scope.items() if isinstance(value, RLTask)}
    if "task" in tasks:
        return tasks["task"]
    if len(tasks) != 1:
        names = (
            f": {', '.join(tasks)}; call the one to submit 'task'" if tasks else "; define one as task = RLTask(...)"
        )
        raise TaskError(str(path), f"defines {len(tasks)} tasks{names}")
    return next(iter(tasks.values()))
