"""Who is let in, and what everybody else is told."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone
from rest_callers import Caller, key_of, problem

from gateway.rest.api import api
from gateway.rest.auth import FAILURES_ALLOWED
from workspaces.models import ApiToken, Membership, Role
from workspaces.tokens import token_revoke

pytestmark = pytest.mark.django_db


def test_it_says_whose_token_it_is(as_bob, bob, workspace):
    answer = as_bob.get("/me")
    assert answer.status_code == 200
    body = answer.json()
    assert body["user"]["email"] == bob.email
    assert body["workspace"] == {"id": str(workspace.pk), "name": workspace.name, "slug": workspace.slug}
    assert body["role"] == "editor"
    assert as_bob.key.startswith(body["token"]["prefix"])
    assert as_bob.key not in answer.content.decode()


def test_the_other_header_is_as_good(bob):
    answer = DjangoClient(headers={"X-API-Key": key_of(bob)}).get("/api/v1/me")
    assert answer.json()["user"]["email"] == bob.email


def test_a_token_may_be_less_than_its_person(alice):
    assert Caller(key_of(alice, Role.VIEWER)).get("/me").json()["role"] == "viewer"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer tml-wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "tml-wrong"},
        {"X-API-Key": ""},
        {"X-API-Key": "x" * 5000},
        {"X-API-Key": "tml-\x00\xff"},
    ],
)
def test_without_a_good_token_there_is_one_sentence(headers):
    answer = DjangoClient(headers=headers).get("/api/v1/me")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert "needs a token" in problem(answer)["message"]


def test_every_operation_asks_for_a_token():
    for path, operations in api.get_openapi_schema()["paths"].items():
        for method in operations:
            address = re.sub(r"\{\w+_id\}", "00000000-0000-0000-0000-000000000000", path)
            address = address.replace("{", "").replace("}", "")
            address = address.replace("number", "1").replace("/format/", "/adapter/")
            answer = getattr(DjangoClient(), method)(address)
            assert answer.status_code == 401, (method, address)
            problem(answer)


def test_a_session_is_no_token(alice, client):
    client.force_login(alice)
    assert client.get("/api/v1/me").status_code == 401


def test_a_revoked_token_an_expired_one_and_a_former_member_are_strangers(alice, bob, carol):
    callers = [Caller(key_of(person)) for person in (alice, bob, carol)]
    assert [caller.get("/me").status_code for caller in callers] == [200, 200, 200]
    token_revoke(token=ApiToken.objects.get(user=alice), actor=alice)
    ApiToken.objects.filter(user=bob).update(expires_at=timezone.now() - timedelta(seconds=1))
    Membership.objects.filter(user=carol).delete()
    assert [caller.get("/me").status_code for caller in callers] == [401, 401, 401]


def test_many_wrong_tokens_are_slowed_down_and_known_ones_go_on(as_bob, as_carol):
    assert as_bob.get("/me").status_code == 200
    wrong = DjangoClient(headers={"Authorization": "Bearer tml-wrong"})
    answers = [wrong.get("/api/v1/me").status_code for _ in range(FAILURES_ALLOWED)]
    assert set(answers) == {401}
    slowed = wrong.get("/api/v1/me")
    assert slowed.status_code == 429
    assert int(slowed["Retry-After"]) > 0
    assert problem(slowed)["code"] == "rate_limited"
    assert as_bob.get("/me").status_code == 200, "a token that worked lately is not held up"
    assert as_carol.get("/me").status_code == 429


def test_an_address_that_is_not_there_is_told_in_json(as_bob):
    for path in ("/api", "/api/", "/api/v2/jobs", "/api/v1/nope", "/api/v1/jobs/nope"):
        for client in (as_bob.client, DjangoClient()):
            answer = client.get(path)
            assert answer.status_code == 404, path
            problem(answer)


def test_a_method_that_is_not_possible_is_told_with_those_that_are(as_bob):
    answer = as_bob.client.delete("/api/v1/jobs")
    assert answer.status_code == 405
    assert set(answer["Allow"].split(", ")) == {"GET", "POST"}
    assert problem(answer)["code"] == "method_not_allowed"


def test_a_post_from_a_foreign_page_gains_nothing(alice, project):
    browser = DjangoClient(enforce_csrf_checks=True)
    browser.force_login(alice)
    answer = browser.post("/api/v1/projects", '{"name": "Stolen"}', content_type="application/json")
    assert answer.status_code == 401


def test_the_interactive_docs_come_from_this_server_alone(client):
    page = client.get("/api/docs")
    assert page.status_code == 200
    html = page.content.decode()
    assert "http://" not in html and "https://" not in html
    assert "/api/v1/openapi.json" in html
    assert client.get("/api/v1/openapi.json").json()["info"]["title"] == "Tuneyard"


def test_a_failure_of_the_server_shows_nothing_of_it(as_bob, monkeypatch, settings, caplog):
    def fail(user):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("gateway.rest.account.token_of", fail)
    for debug in (False, True):
        settings.DEBUG = debug
        answer = as_bob.get("/me")
        assert answer.status_code == 500
        error = problem(answer)
        assert "secret detail" not in answer.content.decode()
        assert error["request_id"] in caplog.text
