from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from config import home
from config.launcher.problems import Problem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNEYARD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_key_is_made_once_and_only_its_owner_can_read_it(folder):
    key = home.secret_key()
    assert len(key) >= 48
    assert home.secret_key() == key
    assert stat.S_IMODE((folder / "secret_key").stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_used_is_named_with_what_to_do(folder):
    folder.write_text("a file where the folder should be")
    with pytest.raises(Problem, match=r"data folder .* cannot be used: .*TUNEYARD_HOME"):
        home.secret_key()


@pytest.mark.parametrize("content", ["", "not json", "[]", "3", '{"DATABASE_URL": 3}'])
def test_an_address_file_that_makes_no_sense_gives_no_address(folder, content):
    folder.mkdir()
    (folder / "endpoints.json").write_text(content)
    assert home.endpoints() == {}


def test_programs_beside_the_launcher_get_what_ray_reads_from_the_environment(folder, monkeypatch):
    folder.mkdir()
    values = {"RAY_ADDRESS": "127.0.0.1:1", "RAY_TEST_TOKEN": "t", "DATABASE_URL": "d"}
    (folder / "endpoints.json").write_text(json.dumps(values))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TEST_TOKEN", "")
    monkeypatch.delenv("RAY_TEST_TOKEN")
    home.adopt_ray()
    assert os.environ["RAY_TEST_TOKEN"] == "t"
    assert "RAY_ADDRESS" not in os.environ


def test_the_token_of_our_ray_is_not_given_to_another_cluster(folder, monkeypatch):
    folder.mkdir()
    (folder / "endpoints.json").write_text(json.dumps({"RAY_TEST_TOKEN": "t"}))
    monkeypatch.setenv("RAY_ADDRESS", "ray.example.com:6379")
    home.adopt_ray()
    assert "RAY_TEST_TOKEN" not in os.environ


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://:secret@example.com:6379/2", "redis://:secret@example.com:6379/2"),
        ("unix:///tmp/ty-1/v.sock?db=0", "redis+socket:///tmp/ty-1/v.sock?virtual_host=0"),
        ("unix:///tmp/v.sock", "redis+socket:///tmp/v.sock?virtual_host=0"),
        ("unix:///tmp/v.sock?db=3", "redis+socket:///tmp/v.sock?virtual_host=3"),
    ],
)
def test_celery_gets_the_broker_in_its_own_spelling(url, expected):
    assert home.celery_broker(url) == expected
