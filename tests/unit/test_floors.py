"""The floors of the house: an import goes down, never up, whether it is written as an import or as a string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GROUND = ("trainers", "tuneyard")
FLOORS = (
    *GROUND, "delivery", "workspaces", "records", "alerts", "catalog", "compute", "billing", "engines", "jobs",
    "gateway", "portal", "config",
)  # fmt: skip
# Everything below may be started by config's Celery app, and tasks of any app are Celery's.
FRAMEWORK = frozenset({"django", "channels", "celery", "ninja"})
STRING_REFERENCE = re.compile(rf"^({'|'.join(FLOORS)})\.[A-Za-z_][\w.]*$")


def folder_of(app: str) -> Path:
    return ROOT / app if app in {"trainers", "jobs"} else ROOT / "platform" / app


def sources(app: str) -> list[Path]:
    return [path for path in sorted(folder_of(app).rglob("*.py")) if "migrations" not in path.parts]


def references(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call):
            # Foreign keys, apps.get_model, send_task and the like name their target in a string.
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                text = argument.value if isinstance(argument, ast.Constant) else None
                if isinstance(text, str) and STRING_REFERENCE.match(text):
                    yield node.lineno, text


def allowed(app: str, target: str) -> bool:
    if app in GROUND or target in GROUND:
        return target == app or (target == "trainers" and app not in GROUND)
    return FLOORS.index(target) <= FLOORS.index(app)


def violations(app: str, code: str, name: str) -> list[str]:
    found = []
    for line, reference in references(ast.parse(code)):
        target = reference.split(".")[0]
        if target in FLOORS and not allowed(app, target):
            found.append(f"{name}:{line}: {app} reaches up to {reference}")
        if app in GROUND and target in FRAMEWORK:
            found.append(f"{name}:{line}: {app} knows {target}")
    return found


@pytest.mark.parametrize("app", [app for app in FLOORS if folder_of(app).is_dir()])
def test_every_import_goes_down(app):
    assert sources(app), f"{app} has no source files; is the folder in the right place?"
    found = [line for path in sources(app) for line in violations(app, path.read_text(), str(path.relative_to(ROOT)))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("app", "code"),
    [
        ("trainers", "import django"),
        ("trainers", "from jobs import models"),
        ("trainers", "import tuneyard"),
        ("tuneyard", "from trainers.spec import TaskSpec"),
        ("compute", "from jobs.models import Job"),
        ("compute", "def late():\n    import billing.services"),
        ("records", "models.ForeignKey('jobs.Job', on_delete=None)"),
        ("catalog", "apps.get_model('billing.Price')"),
        ("workspaces", "app.send_task('jobs.tasks.sweep')"),
    ],
)
def test_it_sees_what_reaches_up(app, code):
    assert violations(app, code, "x.py")


@pytest.mark.parametrize(
    ("app", "code"),
    [
        ("jobs", "from compute import services\nfrom trainers.spec import TaskSpec"),
        ("config", "import portal"),
        ("billing", "models.ForeignKey('workspaces.Project', on_delete=None)"),
    ],
)
def test_it_lets_pass_what_goes_down(app, code):
    assert not violations(app, code, "x.py")


def test_the_folder_platform_is_no_package():
    assert not (ROOT / "platform" / "__init__.py").exists(), "platform/__init__.py would hide Python's own `platform`"
    import platform

    assert platform.python_version_tuple()[0] == "3"
