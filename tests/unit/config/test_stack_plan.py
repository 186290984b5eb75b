from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from config.launcher import stack as stacks


@pytest.fixture
def listener():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def plan(listener: socket.socket, home: Path, host: str = "127.0.0.1", **environment: str) -> stacks.Stack:
    return stacks.plan(home=home, runtime=home / "rt", listener=listener, host=host, environment=environment)


def test_without_addresses_every_part_is_our_own(listener, tmp_path):
    (tmp_path / "run").mkdir()
    stack = plan(listener, tmp_path)
    names = [part.name for part in stack.parts]
    assert names == [
        *("valkey", "ray", "postgres", "database", "static files"),
        *("worker", "beat", "supervisor", "web"),
    ]
    assert {"DATABASE_URL", "REDIS_URL", "RAY_ADDRESS", "RAY_AUTH_TOKEN", "PUBLIC_URL"} <= stack.env.keys()


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("DATABASE_URL", "postgres://db.example.com/tuneyard", "postgres"),
        ("REDIS_URL", "redis://cache.example.com:6379/0", "valkey"),
        ("RAY_ADDRESS", "ray.example.com:6379", "ray"),
    ],
)
def test_an_address_replaces_one_part_and_no_other(listener, tmp_path, name, value, part):
    stack = plan(listener, tmp_path, **{name: value})
    assert {"valkey", "ray", "postgres"} - {each.name for each in stack.parts} == {part}
    assert name not in stack.env
    assert not any(part in each.needs or part in each.follows for each in stack.parts)


def test_files_collected_once_are_not_collected_again(listener, tmp_path):
    (tmp_path / "run").mkdir()
    first = plan(listener, tmp_path)
    first.site.remember_static()
    assert "static files" not in [part.name for part in plan(listener, tmp_path).parts]


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", "127.0.0.1"),
        ("https://tuneyard.example.com", "127.0.0.1", "tuneyard.example.com"),
        ("http://box:8000", "0.0.0.0", "box"),
        ("http://box:8000", "10.0.0.7", "10.0.0.7"),
        ("http://[fe80::1]:8000", "fe80::1", "[fe80::1]"),
    ],
)
def test_the_site_answers_to_the_name_it_is_announced_by(url, host, name):
    assert name in stacks.host_names(url, host)
    assert "*" not in stacks.host_names(url, host)


def test_sockets_get_a_short_private_folder_that_the_next_start_finds(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("long" * 20)))
    runtime, descriptor = stacks.make_runtime(tmp_path)
    assert len(str(runtime)) <= stacks.LONGEST_RUNTIME_PATH
    assert not runtime.stat().st_mode & 0o066
    stacks.forget_runtime(tmp_path)
    assert not runtime.exists()
    os.close(descriptor)


def test_a_note_that_names_a_strange_folder_removes_nothing(tmp_path):
    (tmp_path / "run").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "run" / "runtime").write_text(str(precious))
    stacks.forget_runtime(tmp_path)
    assert precious.exists()
