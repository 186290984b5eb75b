from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import stat
from collections import namedtuple
from pathlib import Path

import pytest

from config.launcher import preflight
from config.launcher.postgres import Postgres, major_version
from config.launcher.problems import Problem


@pytest.fixture
def busy_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_busy_port_is_refused_naming_the_program_that_has_it(busy_port):
    with pytest.raises(Problem, match=rf"Port {busy_port} is in use by \S+ \(process {os.getpid()}\)\. .*PORT="):
        preflight.listen("127.0.0.1", busy_port)


def test_without_a_port_the_first_free_one_is_taken(monkeypatch, busy_port):
    monkeypatch.setattr(preflight, "FIRST_PORT", busy_port)
    with preflight.listen("127.0.0.1", None) as listener:
        assert busy_port < listener.getsockname()[1] < busy_port + preflight.PORTS_TRIED


def test_when_no_port_is_free_it_says_how_to_name_one(monkeypatch, busy_port):
    monkeypatch.setattr(preflight, "FIRST_PORT", busy_port)
    monkeypatch.setattr(preflight, "PORTS_TRIED", 1)
    with pytest.raises(Problem, match="PORT=9000"):
        preflight.listen("127.0.0.1", None)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(Problem, match=r"cannot listen on 203\.0\.113\.1, port 0"):
        preflight.listen("203.0.113.1", 0)


def test_the_data_folder_is_made_and_closed_to_others(tmp_path):
    home = tmp_path / "deep" / "home"
    preflight.prepare_home(home)
    assert not stat.S_IMODE(home.stat().st_mode) & 0o066
    assert all(stat.S_IMODE((home / name).stat().st_mode) == 0o700 for name in preflight.SUBFOLDERS)
    preflight.prepare_home(home)


def test_a_file_where_a_folder_should_be_is_named(tmp_path):
    (tmp_path / "logs").write_text("")
    with pytest.raises(Problem, match=rf"{re.escape(str(tmp_path / 'logs'))}: File exists"):
        preflight.prepare_home(tmp_path)


def test_a_full_disk_is_refused_with_both_sizes(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12 - 1_400_000_000, 1_400_000_000))
    with pytest.raises(Problem, match=r"Only 1\.4 GB are free .* at least 2 GB"):
        preflight.require_space(tmp_path)


def test_one_data_folder_serves_one_launcher(tmp_path):
    preflight.prepare_home(tmp_path)
    assert not preflight.is_locked(tmp_path)
    with preflight.lock(tmp_path):
        assert preflight.is_locked(tmp_path)
        with pytest.raises(Problem, match=rf"in use by a running launcher \(process {os.getpid()}\)"):
            preflight.lock(tmp_path)
    assert not preflight.is_locked(tmp_path)
    with preflight.lock(tmp_path) as stream:
        fcntl.flock(stream, fcntl.LOCK_UN)


def test_missing_packages_are_named():
    with pytest.raises(Problem, match=r"no_such_a and no_such_b are not installed .*make setup"):
        preflight.require_packages(["django", "no_such_a", "no_such_b"])


def test_data_of_another_postgres_is_refused_before_anything_starts(tmp_path):
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("15\n")
    shutil.chown(data, os.geteuid())
    with pytest.raises(Problem, match=rf"made by Postgres 15; this installation brings Postgres {major_version()}"):
        Postgres(data, tmp_path / "sockets").check()


def test_data_of_another_user_is_refused_naming_both(tmp_path, monkeypatch):
    (tmp_path / "postgres").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(Problem, match=rf"belongs to the user \S+, .*chown -R 12345 {re.escape(str(tmp_path))}"):
        Postgres(tmp_path / "postgres", tmp_path / "sockets").check()


def test_new_data_and_data_of_this_postgres_are_accepted(tmp_path):
    postgres = Postgres(tmp_path / "postgres", tmp_path / "sockets")
    postgres.check()
    Path(tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text(f"{major_version()}\n")
    postgres.check()
