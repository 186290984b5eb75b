"""Real parts for the tests: embedded Postgres, Valkey and Ray, each started once a session and only when a test asks.

The addresses are fixed here, before Django's settings are read; the unit layer, which asks for none, starts nothing.
Under pytest-xdist each worker is a session with parts of its own; only the folder of prepared base models is shared.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from running import Site

from config.home import ROOT, endpoints
from config.launcher.part import start
from config.launcher.postgres import Postgres
from config.launcher.ray import Ray, free_port
from config.launcher.valkey import Valkey
from trainers.data.sums import make_sums, to_jsonl
from tuneyard import Client

PASSWORD = "four words in a row"
HOME = Path(tempfile.mkdtemp(prefix="ty-", dir="/tmp"))
LOGS = HOME / "logs"
PARALLEL = "PYTEST_XDIST_WORKER" in os.environ
POSTGRES = Postgres(HOME / "postgres", HOME / "pg", volatile=True)
VALKEY = Valkey(HOME / "valkey", HOME / "v.sock", volatile=True)
RAY = Ray(HOME / "r", free_port(), secrets.token_hex(32))

# The database's own user passes through to its socket.
HOME.chmod(0o711)
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
for name in ("RAY_ADDRESS", "STORAGE_URL", "EMAIL_URL", "PUBLIC_URL", "ALLOWED_HOSTS", "PORT"):
    os.environ.pop(name, None)
os.environ.update(
    RAY.keys,
    # Not in pyproject.toml: pytest-django would read the settings before this file is.
    DJANGO_SETTINGS_MODULE="config.settings",
    TUNEYARD_HOME=str(HOME),
    # A worker finds the folder of the process that started it.
    TUNEYARD_MODEL_CACHE=os.environ["TUNEYARD_MODEL_CACHE"] if PARALLEL else str(HOME / "models"),
    TUNEYARD_HASHED_STATIC="0",
    DATABASE_URL=POSTGRES.url,
    REDIS_URL=VALKEY.url,
)


def pytest_configure() -> None:
    from django.conf import settings

    # Hashing slowly by design, once for each user of each test, would be most of the suite's time.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """A worker that inherited this would have Django read its settings before this file has set the addresses."""
    del os.environ["DJANGO_SETTINGS_MODULE"]


# What costs most to start is started by one worker only; in this order, so that nothing long is left for the end.
SHARED = ("stack", "ray_address")


# The plugin reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests stay together on a worker: those of one file, and all that need the same heavy part."""
    if not PARALLEL:
        return
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: SHARED.index(groups[item]) if groups[item] in SHARED else len(SHARED))


def _group(item: pytest.Item) -> str:
    needs = getattr(item, "fixturenames", ())
    return next((part for part in SHARED if part in needs), item.nodeid.partition("::")[0])


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A running Postgres; its DATABASE_URL."""
    child = start(POSTGRES.part(), LOGS)
    yield POSTGRES.url
    child.stop()


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """A running Valkey; its REDIS_URL."""
    child = start(VALKEY.part(), LOGS)
    yield VALKEY.url
    child.stop()


@pytest.fixture(scope="session")
def django_db_setup(postgres: str, valkey: str, django_db_setup: None) -> None:
    """Every test with a database has a broker too: what services send on commit goes somewhere."""


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a running local Ray head with this machine's cores, shared by all tests that need one."""
    child = start(RAY.part(), LOGS)
    yield RAY.address
    if (ray := sys.modules.get("ray")) is not None and ray.is_initialized():
        ray.shutdown()
    child.stop()


@dataclass(frozen=True)
class RunningStack:
    """The whole product as `manage.py up` runs it, with data of its own."""

    url: str
    home: Path
    env: dict[str, str]
    process: subprocess.Popen[bytes]

    def manage(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py against this installation."""
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *words],
            env=self.env,
            text=True,
            capture_output=True,
            check=True,
            **options,
        )


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """The whole product, started by the real launcher once a session, on a free port."""
    home = tmp_path_factory.mktemp("stack")
    env = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
    env = {key: value for key, value in env.items() if not key.startswith("RAY_")}
    env |= {"TUNEYARD_HOME": str(home), "TUNEYARD_HASHED_STATIC": "1"}
    output = home / "up.out"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0"],
            env=env,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 180
        while not (home / "endpoints.json").exists():
            assert process.poll() is None, f"The launcher ended:\n{output.read_text()}"
            assert time.monotonic() < deadline, f"The launcher is not ready:\n{output.read_text()}"
            time.sleep(0.1)
        yield RunningStack(endpoints(home)["PUBLIC_URL"], home, env, process)
    finally:
        process.terminate()
        process.wait(30)


SETUP = """
import json
from uuid import uuid4
from workspaces.services import owner_create
from workspaces.tokens import token_create
user, workspace = owner_create(email=f"{uuid4().hex}@example.com", password="four words in a row", name="Chaos",
                               workspace_name=f"Chaos {uuid4().hex[:6]}")
print(json.dumps({"email": user.email, "token": token_create(user=user, workspace=workspace, name="tests")[1]}))
"""


@pytest.fixture(scope="session")
def site(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A team with a dataset in the running product, as a client with a token sees it."""
    printed = json.loads(stack.manage("shell", "-c", SETUP).stdout.strip().splitlines()[-1])
    client = Client(url=stack.url, token=printed["token"])
    file: Path = tmp_path_factory.mktemp("data") / "sums.jsonl"
    file.write_bytes(to_jsonl(make_sums().train))
    return Site(stack, client, client.datasets.upload(file)["source"], sign_in=(printed["email"], PASSWORD))


@pytest.fixture
def workspace(db: None) -> Any:
    from workspaces.models import Workspace

    return Workspace.objects.create(name="Acme", slug="acme")


@pytest.fixture
def alice(workspace: Any) -> Any:
    """The owner."""
    return _member("alice", workspace, "OWNER")


@pytest.fixture
def bob(workspace: Any) -> Any:
    """A member who may edit."""
    return _member("bob", workspace, "EDITOR")


@pytest.fixture
def carol(workspace: Any) -> Any:
    """A member who may only look."""
    return _member("carol", workspace, "VIEWER")


@pytest.fixture
def mallory(db: None) -> Any:
    """A stranger: owner of another workspace, with a project there."""
    from workspaces.models import Project, Workspace

    elsewhere = Workspace.objects.create(name="Elsewhere", slug="elsewhere")
    user = _member("mallory", elsewhere, "OWNER")
    Project.objects.create(workspace=elsewhere, name="Elsewhere", created_by=user)
    return user


@pytest.fixture
def project(workspace: Any, alice: Any) -> Any:
    from workspaces.models import Project

    return Project.objects.create(workspace=workspace, name="Sums", created_by=alice)


def _member(name: str, workspace: Any, role: str) -> Any:
    from workspaces.models import Membership, Role, User

    user = User.objects.create_user(f"{name}@example.com", PASSWORD, name=name.title())
    Membership.objects.create(workspace=workspace, user=user, role=Role[role])
    return user
