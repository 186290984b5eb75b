"""The embedded parts as they really run."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.launcher import given
from config.launcher.part import Child, start
from config.launcher.postgres import Postgres
from config.launcher.problems import Problem
from config.launcher.ray import Ray, free_port
from config.launcher.valkey import Valkey


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a name short enough for unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ty-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def listening(child: Child) -> list[tuple[str, int]]:
    """Addresses on which a part and its descendants listen."""
    found = []
    for process in [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]:
        # The backend of a connection that was just closed may be gone by now.
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [each.laddr for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    return [(address.ip, address.port) for address in found]


def test_postgres_serves_unicode_to_nobody_else(short):
    postgres = Postgres(short / "data", short / "pg", volatile=True)
    child = start(postgres.part(), short / "logs")
    try:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            assert connection.execute("SELECT lower('ÄRGER'), '数学'").fetchone() == ("ärger", "数学")
            connection.execute("CREATE EXTENSION btree_gist")
        assert listening(child) == []
        assert stat.S_IMODE((short / "pg").stat().st_mode) == 0o700
        assert pwd.getpwuid(psutil.Process(child.pid).uids().effective).pw_name != "root"
        assert given.database(postgres.url).startswith("PostgreSQL 18")
    finally:
        child.stop()
    assert not child.id.alive()


def test_an_interrupted_first_start_of_postgres_leaves_nothing_in_the_way(short):
    (short / "data.new").mkdir()
    (short / "data.new" / "PG_VERSION").write_text("18\n")
    postgres = Postgres(short / "data", short / "pg", volatile=True)
    start(postgres.part(), short / "logs").stop()
    assert (short / "data" / "base").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_under_root_the_folders_above_the_data_become_passable_and_not_listable(short):
    private = short / "private"
    private.mkdir(mode=0o700)
    postgres = Postgres(private / "data", short / "pg", volatile=True)
    start(postgres.part(), short / "logs").stop()
    assert stat.S_IMODE(private.stat().st_mode) == 0o701


def test_what_waits_in_the_queue_survives_a_restart_of_valkey(short):
    valkey = Valkey(short / "data", short / "v.sock")
    child = start(valkey.part(), short / "logs")
    with redis.Redis.from_url(valkey.url) as client:
        client.rpush("celery", "a task")
    assert listening(child) == []
    assert stat.S_IMODE(valkey.socket.stat().st_mode) == 0o700
    child.stop()
    child = start(valkey.part(), short / "logs")
    try:
        with redis.Redis.from_url(valkey.url) as client:
            assert client.lrange("celery", 0, -1) == [b"a task"]
    finally:
        child.stop()


ASK = """
import sys
from config.launcher.ray import alive_nodes
print("nodes:", alive_nodes(sys.argv[1]))
"""


def ask(ray: Ray, home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Ask Ray for its nodes in a process of its own, since Ray reads its environment once."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-c", ASK, ray.address],
        env=kept | ray.env | {"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)} | env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_ray_serves_only_this_machine_and_only_who_has_the_token(short):
    # A process keeps the first token it uses, and this one may talk to the session's Ray later: one token for both.
    ray = Ray(short / "r", free_port(), os.environ["RAY_AUTH_TOKEN"], cpus=1)
    child = start(ray.part(), short / "logs")
    try:
        assert ask(ray, short).stdout == "nodes: 1\n"
        refused = ask(ray, short, RAY_AUTH_TOKEN=secrets.token_hex(32))
        assert refused.stdout == "" and "Unauthenticated" in refused.stderr
        found = listening(child)
        assert found and {address.removeprefix("::ffff:") for address, _ in found} == {"127.0.0.1"}
    finally:
        child.stop()
    assert not any(each.alive() for each in child.kin)


def test_a_ray_that_is_not_there_is_named_in_a_sentence():
    with pytest.raises(Problem, match=r"RAY_ADDRESS \(127\.0\.0\.1:\d+\) cannot be reached"):
        given.ray(f"127.0.0.1:{free_port()}")
