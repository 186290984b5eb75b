"""The command ``tuneyard``. What a command needs is loaded when it runs, so that help comes at once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Optional

from tuneyard import __version__
from tuneyard.errors import TuneyardError

Command = Callable[[argparse.Namespace], Optional[int]]
EXTRA_COMMANDS = "tuneyard.commands"
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, 1 for an error that was told, 2 for a wrong call, 130 for Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            extra = _extra_commands().get(arguments[0])
            if extra is not None:
                return int(extra.load()(arguments[1:]) or 0)
        namespace = build_parser().parse_args(arguments)
        module, _, function = namespace.run.partition(":")
        run: Command = getattr(import_module(module), function)
        return run(namespace) or 0
    except TuneyardError as error:
        print(f"tuneyard: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except TimeoutError as error:
        print(f"tuneyard: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has left (`tuneyard jobs | head`): no reason to complain, also not at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _extra_commands() -> dict[str, Any]:
    """Commands of other packages: entry points of the group, each a function of the argument list."""
    from importlib.metadata import entry_points

    found: Any = entry_points()
    group = found.select(group=EXTRA_COMMANDS) if hasattr(found, "select") else found.get(EXTRA_COMMANDS, ())
    return {item.name: item for item in group if item.name not in COMMANDS}


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        text = super().format_help()
        names = sorted(_extra_commands()) if self.prog == "tuneyard" else []
        return f"{text}\nMore commands, of other packages: {', '.join(names)}\n" if names else text


def build_parser() -> argparse.ArgumentParser:
    """The whole grammar. Sub-commands name the function that runs them as ``module:function``."""
    parser = _Parser(prog="tuneyard", description="Describe a training task, submit it, watch it, fetch the model.")
    parser.add_argument("--version", action="version", version=f"tuneyard {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    for name, (add, text) in COMMANDS.items():
        add(commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + "."))
    return parser


def _common(
    parser: argparse.ArgumentParser, run: str, *, project: bool = True, json: bool = True, nested: bool = False
) -> None:
    """The options of almost every command; a nested one leaves alone what was said before its name."""
    parser.set_defaults(run=f"tuneyard.cli.{run}")
    left_out: Any = argparse.SUPPRESS if nested else None
    parser.add_argument("--url", default=left_out, help="address of the server (else TUNEYARD_URL, else the saved one)")
    if project:
        parser.add_argument(
            "--project",
            default=left_out,
            help="name or id of the project (else TUNEYARD_PROJECT, else the saved one)",
        )
    if json:
        parser.add_argument(
            "--json", action="store_true", default=left_out if nested else False, help="print JSON for programs"
        )


def _login(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run="tuneyard.cli.account:login")
    parser.add_argument("url", nargs="?", help="address of the server; asked for when left out")
    parser.add_argument("--token-stdin", action="store_true", help="read the token from standard input")
    parser.add_argument("--project", default="", help="project to work in from now on")


def _logout(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run="tuneyard.cli.account:logout")


def _whoami(parser: argparse.ArgumentParser) -> None:
    _common(parser, "account:whoami", project=False)


def _projects(parser: argparse.ArgumentParser) -> None:
    _common(parser, "account:projects", project=False)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    create = actions.add_parser("create", help="make a project")
    create.add_argument("name")
    create.add_argument("--description", default="")
    _common(create, "account:create_project", project=False, nested=True)


def _part(text: str) -> tuple[str, str]:
    part, equals, name = text.partition("=")
    if not (part and equals and name):
        raise argparse.ArgumentTypeError(f"write PART=NAME, such as prompt=Question, not {text!r}")
    return part, name


def _datasets(parser: argparse.ArgumentParser) -> None:
    _common(parser, "catalog:datasets")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    upload = actions.add_parser("upload", help="register a file of rows (JSON, JSONL, CSV, Parquet, text)")
    upload.add_argument("file")
    upload.add_argument("--name", help="name of the dataset (else the file's)")
    upload.add_argument(
        "--column",
        action="append",
        default=[],
        type=_part,
        metavar="PART=NAME",
        help="which column plays a part, where its name does not tell: --column prompt=Question --column answer=Key",
    )
    _common(upload, "catalog:upload", nested=True)


def _rewards(parser: argparse.ArgumentParser) -> None:
    _common(parser, "catalog:rewards")


def _models(parser: argparse.ArgumentParser) -> None:
    _common(parser, "catalog:models")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    download = actions.add_parser("download", help="fetch a trained model into a new folder")
    download.add_argument("model", help="NAME, NAME@NUMBER, NAME@ALIAS, or the id of a version")
    download.add_argument("--format", choices=["adapter", "merged"], default="adapter", help="adapter (PEFT) or merged")
    download.add_argument("--to", metavar="FOLDER", help="folder to make (else named after the model)")
    _common(download, "catalog:download", nested=True)
    alias = actions.add_parser("alias", help="point an alias of a model to a version, such as: alias Sums production 3")
    alias.add_argument("model", help="name or id of the model")
    alias.add_argument("alias", help="such as production or candidate; made when it is new")
    alias.add_argument("version", type=int, help="number of the version")
    alias.add_argument(
        "--expected", type=int, metavar="NUMBER", help="move it only from this version (0: if it is new)"
    )
    _common(alias, "catalog:alias", nested=True)
    unalias = actions.add_parser("unalias", help="take an alias away")
    unalias.add_argument("model", help="name or id of the model")
    unalias.add_argument("alias")
    _common(unalias, "catalog:unalias", nested=True)
    delete = actions.add_parser("delete", help="delete a version and its files")
    delete.add_argument("model", help="NAME@NUMBER, or the id of a version")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    _common(delete, "catalog:delete_version", json=False, nested=True)


def _submit(parser: argparse.ArgumentParser) -> None:
    _common(parser, "submit:submit", json=False)
    parser.add_argument(
        "file", nargs="?", help="a task in a file: .json or .yaml (a task spec, or RLTask's arguments), or .py"
    )
    parser.add_argument("--name", help="how the job is called")
    parser.add_argument("--watch", action="store_true", help="show the progress until the end")
    parser.add_argument("--print-spec", action="store_true", help="print the task spec and submit nothing")
    task = parser.add_argument_group("instead of a file")
    task.add_argument("--dataset", metavar="FILE", help="file of rows, or dataset:<id>@<version>")
    task.add_argument("--loss", help="cross_entropy, ppo, ...")
    task.add_argument(
        "--reward", action="append", help="numeric, exact, a .py file, or reward:<id>@<version>; may repeat"
    )
    task.add_argument("--model", help="base model")
    task.add_argument("--system-prompt", help="text put before every row")
    task.add_argument("--lr", type=float, help="learning rate")
    task.add_argument("--steps", type=int)
    task.add_argument("--epochs", type=float, help="passes over the data, instead of steps")
    task.add_argument("--batch-size", type=int, help="prompts (or rows) per step")
    task.add_argument("--group-size", type=int, help="completions per prompt")
    task.add_argument("--max-new-tokens", type=int)
    task.add_argument("--temperature", type=float)
    task.add_argument("--tier", choices=["reserved", "spot", "on_demand"])
    task.add_argument("--budget", type=float, metavar="AMOUNT", help="pause at this cost")
    task.add_argument("--seed", type=int)
    task.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="another hyperparameter; may repeat"
    )


def _jobs(parser: argparse.ArgumentParser) -> None:
    _common(parser, "jobs:jobs")
    parser.add_argument("--state", help="only jobs in this state")
    parser.add_argument("--limit", type=int, default=20, help="how many of the newest (default 20)")


def _one_job(parser: argparse.ArgumentParser, run: str, *, json: bool = False) -> None:
    _common(parser, run, json=json)
    parser.add_argument("job", nargs="?", help="id, or its first characters; left out: the newest job")


def _watch(parser: argparse.ArgumentParser) -> None:
    _one_job(parser, "jobs:watch")


def _cancel(parser: argparse.ArgumentParser) -> None:
    _common(parser, "jobs:cancel", json=False)
    parser.add_argument("job", help="id, or its first characters")
    parser.add_argument("--reason", default="", help="shown on the job's page")


def _pause(parser: argparse.ArgumentParser) -> None:
    _common(parser, "jobs:pause", json=False)
    parser.add_argument("job", help="id, or its first characters")
    parser.add_argument("--reason", default="", help="shown on the job's page")


def _resume(parser: argparse.ArgumentParser) -> None:
    _common(parser, "jobs:resume", json=False)
    parser.add_argument("job", help="id, or its first characters")
    parser.add_argument("--amount", help="its new budget in money")
    parser.add_argument("--minutes", type=float, help="its new budget in minutes of running")
    parser.add_argument("--reason", default="", help="shown on the job's page")


def _logs(parser: argparse.ArgumentParser) -> None:
    _one_job(parser, "jobs:logs", json=True)
    parser.add_argument("--lines", type=int, default=200, help="how many of the newest (default 200)")


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "login": (_login, "remember a server and a token for it"),
    "logout": (_logout, "forget the saved server and token"),
    "whoami": (_whoami, "show whose token is in use, and on which server"),
    "projects": (_projects, "list the projects, or create one"),
    "submit": (_submit, "submit a training task"),
    "jobs": (_jobs, "list the newest jobs"),
    "watch": (_watch, "show the progress of a job until its end"),
    "logs": (_logs, "print the log of a job"),
    "pause": (_pause, "have a job write a checkpoint and give its devices back"),
    "resume": (_resume, "queue a paused job again"),
    "cancel": (_cancel, "stop a job"),
    "datasets": (_datasets, "list the datasets, or upload one"),
    "rewards": (_rewards, "list the registered rewards"),
    "models": (_models, "list the trained models, fetch one, move its aliases"),
}
