"""Where the client finds its server and token."""

from __future__ import annotations

import json
import stat

import pytest

from tuneyard import settings
from tuneyard.errors import ConfigurationError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("TUNEYARD_URL", "TUNEYARD_TOKEN", "TUNEYARD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_it_says_how_to_name_a_server_when_none_is_known():
    with pytest.raises(ConfigurationError, match="tuneyard login"):
        settings.resolve()


def test_an_argument_wins_over_the_environment_and_that_over_the_file(monkeypatch):
    settings.save(settings.Connection("http://saved", "tml-saved", "Saved"))
    assert settings.resolve() == settings.Connection("http://saved", "tml-saved", "Saved")
    monkeypatch.setenv("TUNEYARD_TOKEN", "tml-env")
    monkeypatch.setenv("TUNEYARD_PROJECT", "Env")
    assert settings.resolve() == settings.Connection("http://saved", "tml-env", "Env")
    assert settings.resolve(token="tml-arg", project="Arg") == settings.Connection("http://saved", "tml-arg", "Arg")


def test_the_saved_token_never_goes_to_another_server(monkeypatch):
    settings.save(settings.Connection("http://saved", "tml-saved"))
    with pytest.raises(ConfigurationError, match="No token is known for http://other"):
        settings.resolve(url="http://other")
    monkeypatch.setenv("TUNEYARD_URL", "http://other")
    with pytest.raises(ConfigurationError, match="No token"):
        settings.resolve()


def test_the_file_is_readable_by_its_owner_alone(home):
    path = settings.save(settings.Connection("http://saved", "tml-saved"))
    assert path == home / "tuneyard" / "config.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["token"] == "tml-saved"
    assert [item.name for item in path.parent.iterdir()] == ["config.json"]


def test_a_damaged_file_is_named(home):
    path = settings.save(settings.Connection("http://saved", "tml-saved"))
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=r"config\.json cannot be read"):
        settings.resolve()


def test_forgetting_removes_the_file_once(home):
    settings.save(settings.Connection("http://saved", "tml-saved"))
    assert settings.forget()
    assert not settings.forget()


@pytest.mark.parametrize(
    ("text", "address"),
    [("host:8000/", "http://host:8000"), (" https://a.example/ ", "https://a.example"), ("", "")],
)
def test_addresses_are_brought_into_one_form(text, address):
    assert settings.normalize_url(text) == address


@pytest.mark.parametrize("text", ["ftp://host", "http://", "http://host:99999999", "http://[", "://"])
def test_it_refuses_what_is_no_web_address(text):
    with pytest.raises(ConfigurationError, match="is not a web address"):
        settings.normalize_url(text)


@pytest.mark.parametrize("token", ["tml-a b", "tml-ü", "tml-a\nb"])
def test_it_refuses_a_token_that_cannot_be_a_header(token):
    with pytest.raises(ConfigurationError, match="characters that no token has"):
        settings.resolve(url="http://host", token=token)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [("http://127.0.0.1:1", True), ("http://localhost", True), ("http://[::1]:8", True), ("http://example.org", False)],
)
def test_it_knows_this_machine(url, loopback):
    assert settings.is_loopback(url) is loopback
