"""How people may sign in, from the environment: what is left open, and what is refused with a sentence."""

from __future__ import annotations

import environ
import pytest

from config.launcher.problems import Problem
from config.sign_in import SignUp, providers, sign_up, single_sign_on

FULL = {
    "OIDC_ISSUER": "https://id.example.org/",
    "OIDC_CLIENT_ID": "tuneyard",
    "OIDC_CLIENT_SECRET": "secret",
}


def env_of(**values: str) -> environ.Env:
    env = environ.Env()
    env.ENVIRON = values  # type: ignore[assignment]
    return env


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", SignUp()),
        ("closed", SignUp()),
        (" Open ", SignUp(open=True)),
        ("example.org, @Sub.Example.com", SignUp(domains=("example.org", "sub.example.com"))),
    ],
)
def test_sign_up_is_closed_open_or_for_domains(text: str, wanted: SignUp):
    assert sign_up(env_of(SIGN_UP=text)) == wanted


@pytest.mark.parametrize("text", ["yes", "example", "example.org;example.com", "*.example.org", "a@example.org"])
def test_what_is_no_domain_is_refused_by_name(text: str):
    with pytest.raises(Problem, match="SIGN_UP"):
        sign_up(env_of(SIGN_UP=text))


@pytest.mark.parametrize(
    ("email", "allowed"),
    [("a@example.org", True), ("a@EXAMPLE.ORG", True), ("a@evil-example.org", False), ("a@b.example.org", False)],
)
def test_a_domain_means_itself_alone(email: str, allowed: bool):
    assert SignUp(domains=("example.org",)).allows(email) is allowed


def test_without_an_issuer_there_is_no_single_sign_on():
    assert single_sign_on(env_of(OIDC_CLIENT_ID="left over")) is None
    assert providers(None) == {}


def test_single_sign_on_takes_what_it_is_told():
    sso = single_sign_on(
        env_of(**FULL, OIDC_NAME="Example", OIDC_DOMAINS="example.org", OIDC_WORKSPACE="team", OIDC_ROLE="Editor")
    )
    assert sso is not None
    assert (sso.issuer, sso.name, sso.domains) == ("https://id.example.org", "Example", ("example.org",))
    assert (sso.workspace, sso.role, sso.new_people) == ("team", "editor", True)
    (app,) = providers(sso)["openid_connect"]["APPS"]
    assert app["settings"]["server_url"] == sso.issuer


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"OIDC_ISSUER": "http://id.example.org"}, "OIDC_ISSUER"),
        ({"OIDC_ISSUER": "http://localhost.example.org"}, "OIDC_ISSUER"),
        ({"OIDC_CLIENT_ID": ""}, "OIDC_CLIENT_ID"),
        ({"OIDC_CLIENT_SECRET": " "}, "OIDC_CLIENT_SECRET"),
        ({"OIDC_ROLE": "owner"}, "OIDC_ROLE"),
        ({"OIDC_DOMAINS": "nonsense"}, "OIDC_DOMAINS"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_variable(changes: dict[str, str], named: str):
    with pytest.raises(Problem, match=named):
        single_sign_on(env_of(**(FULL | changes)))
