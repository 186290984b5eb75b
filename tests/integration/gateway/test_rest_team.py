"""Members, invitations, tokens and the audit log for programs; and the scopes that open them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_callers import Caller, problem

from workspaces.models import ApiToken, Invitation, Membership, Role
from workspaces.tokens import token_authenticate, token_create

pytestmark = pytest.mark.django_db


def with_scopes(user, workspace, *scopes, **more):
    return Caller(token_create(user=user, workspace=workspace, name="t", role=Role.OWNER, scopes=scopes, **more)[1])


def patch(caller, path, body):
    return caller.client.patch(f"/api/v1{path}", body, content_type="application/json")


def delete(caller, path):
    return caller.client.delete(f"/api/v1{path}")


def test_each_kind_of_operation_takes_its_scope(alice, workspace, project):
    reader, writer = with_scopes(alice, workspace), with_scopes(alice, workspace, "write")
    trainer, manager = with_scopes(alice, workspace, "train"), with_scopes(alice, workspace, "manage")
    assert reader.get("/me").json()["token"]["scopes"] == ["read"]
    job = {"project": str(project.pk), "spec": {}, "idempotency_key": "k"}
    cases = {
        "write": (lambda who: who.post("/projects", {"name": "New"}), writer, 201),
        "train": (lambda who: who.post("/jobs", job), trainer, 422),
        "manage": (lambda who: who.get("/audit"), manager, 200),
    }
    for scope, (call, allowed, status) in cases.items():
        for who in (reader, writer, trainer, manager):
            answer = call(who)
            if who is allowed:
                assert answer.status_code == status, scope
            else:
                assert answer.status_code == 403
                assert f"'{scope}'" in problem(answer)["message"]
        assert reader.get("/projects").status_code == 200


def test_a_member_list_says_who_and_what(as_carol, alice, bob):
    items = as_carol.get("/members").json()["items"]
    assert [(item["user"]["email"], item["role"]) for item in items] == [
        (alice.email, "owner"),
        (bob.email, "editor"),
        ("carol@example.com", "viewer"),
    ]


def test_roles_change_and_members_go_under_the_same_rules_as_on_the_page(as_alice, as_bob, alice, bob, carol, mallory):
    answer = patch(as_alice, f"/members/{carol.pk}", {"role": "editor"})
    assert answer.json()["role"] == "editor"
    refused = patch(as_alice, f"/members/{alice.pk}", {"role": "viewer"})
    assert refused.status_code == 422
    assert "needs an owner" in problem(refused)["message"]
    assert patch(as_alice, f"/members/{mallory.pk}", {"role": "viewer"}).status_code == 404
    assert patch(as_bob, f"/members/{carol.pk}", {"role": "viewer"}).status_code == 403
    assert delete(as_alice, f"/members/{bob.pk}").status_code == 204
    assert as_bob.get("/me").status_code == 401, "the token went with the membership"
    assert delete(as_alice, f"/members/{bob.pk}").status_code == 404


def test_a_token_never_does_what_only_its_person_could(alice, bob, workspace):
    _token, key = token_create(user=alice, workspace=workspace, name="t", role=Role.ADMIN)
    admin = Caller(key)
    for answer in (
        patch(admin, f"/members/{bob.pk}", {"role": "owner"}),
        patch(admin, f"/members/{alice.pk}", {"role": "admin"}),
        admin.post("/invitations", {"email": "new@example.com", "role": "owner"}),
        admin.post("/tokens", {"name": "stronger", "role": "owner"}),
    ):
        assert answer.status_code == 403
        assert "below owner" in problem(answer)["message"]
    assert Membership.objects.get(user=bob).role == Role.EDITOR
    assert not Invitation.objects.exists()


def test_invitations_are_made_listed_sent_again_and_revoked(as_alice):
    made = as_alice.post("/invitations", {"email": "new@example.com", "role": "viewer", "days": 3})
    assert made.status_code == 201
    body = made.json()
    assert body["invited_by"] == "alice@example.com"
    assert "key" not in body
    assert [row["id"] for row in as_alice.get("/invitations").json()["items"]] == [body["id"]]
    assert as_alice.post(f"/invitations/{body['id']}/resend").status_code == 422
    Invitation.objects.update(sent_at=timezone.now() - timedelta(minutes=2))
    assert as_alice.post(f"/invitations/{body['id']}/resend").status_code == 200
    assert delete(as_alice, f"/invitations/{body['id']}").status_code == 204
    assert as_alice.get("/invitations").json()["items"] == []
    assert as_alice.post("/invitations", {"email": "no", "role": "viewer"}).status_code == 422
    assert as_alice.post("/invitations", {"email": "a@example.com", "days": 1000}).status_code == 422


def test_a_token_makes_no_token_stronger_or_longer_lived_than_itself(alice, workspace):
    soon = timezone.now() + timedelta(days=1)
    caller = with_scopes(alice, workspace, "manage", expires_at=soon)
    for body, status, words in (
        ({"name": "t", "role": "owner", "scopes": ["train"]}, 403, "lacks the scope 'train'"),
        ({"name": "t", "role": "owner"}, 403, "lacks the scope"),
        ({"name": "t", "role": "owner", "scopes": ["read"]}, 403, "must end by then"),
        ({"name": "t", "scopes": ["read"], "expires_at": (soon + timedelta(days=1)).isoformat()}, 403, "must end"),
        ({"name": "t", "scopes": ["read"], "expires_at": "2030-01-01T00:00:00"}, 422, "does not fit"),
    ):
        answer = caller.post("/tokens", body)
        assert answer.status_code == status, body
        assert words in problem(answer)["message"]
    made = caller.post("/tokens", {"name": "t", "role": "viewer", "scopes": ["read"], "expires_at": soon.isoformat()})
    assert made.status_code == 201
    assert token_authenticate(key=made.json()["key"]) == alice


def test_the_teams_tokens_are_listed_without_keys_and_revoked(as_alice, as_bob, bob, mallory):
    listed = as_alice.get("/tokens")
    assert {row["user"]["email"] for row in listed.json()["items"]} == {"alice@example.com", bob.email}
    assert as_bob.key not in listed.content.decode()
    assert as_bob.get("/tokens").status_code == 403
    token = ApiToken.objects.get(user=bob)
    assert delete(as_alice, f"/tokens/{token.pk}").status_code == 204
    assert as_bob.get("/me").status_code == 401
    foreign, _key = token_create(user=mallory, workspace=mallory.workspaces.get(), name="t")
    assert delete(as_alice, f"/tokens/{foreign.pk}").status_code == 404


def test_the_audit_log_comes_in_pages_and_filtered(as_alice, alice, bob):
    for number in range(3):
        as_alice.post("/projects", {"name": f"P{number}"})
    first = as_alice.get("/audit", action="project.create", limit=2).json()
    assert [row["object_label"] for row in first["items"]] == ["P2", "P1"]
    second = as_alice.get("/audit", action="project.create", limit=2, cursor=first["next"]).json()
    assert [row["object_label"] for row in second["items"]] == ["P0"]
    assert second["next"] is None
    assert as_alice.get("/audit", who="bob").json()["items"] == []
