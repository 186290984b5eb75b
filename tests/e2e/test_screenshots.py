"""Every page in both colours, wide and on a phone, with much, little and nothing to show.

Nothing may overflow or complain in the console. With SCREENSHOTS=folder the pictures are kept there to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import scenes
from django.urls import reverse

from config.sign_in import SignUp, SingleSignOn
from workspaces.models import User, Workspace

pytestmark = [pytest.mark.browser, pytest.mark.full, pytest.mark.django_db(transaction=True)]

FOLDER = os.environ.get("SCREENSHOTS", "")
LISTS = ("project-home", "datasets", "rewards", "models")
LOOKS = [(theme, size) for theme in ("light", "dark") for size in (scenes.WIDE, scenes.PHONE)]


@pytest.fixture(params=LOOKS, ids=lambda look: f"{look[0]}-{look[1][0]}")
def look(request: pytest.FixtureRequest, visit: Any) -> Any:
    theme, size = request.param

    def shoot(user: User | None, pages: dict[str, str], expect: int = 200, proven: bool = False) -> None:
        if user is not None:
            User.objects.filter(pk=user.pk).update(theme=theme)
        window = visit(user, theme=theme, size=size, proven=proven)
        wide = []
        for name, path in pages.items():
            page = window.open(path)
            if FOLDER:
                Path(FOLDER).mkdir(parents=True, exist_ok=True)
                page.screenshot(path=f"{FOLDER}/{name}-{theme}-{size[0]}.png", full_page=True)
            if window.overflow() > 0:
                wide.append(f"{name} is {window.overflow()} px wider than the window")
        assert wide == []
        # A page that is an error on purpose is reported as one.
        assert [problem for problem in window.problems if f"status of {expect}" not in problem] == []

    return shoot


def pages_of(project: Any, *names: str) -> dict[str, str]:
    return {name: reverse(name, args=[project.pk]) for name in names}


def test_signed_out(look: Any, db: None, settings: Any):
    settings.SIGN_UP = SignUp(open=True)
    settings.OIDC = SingleSignOn("Example", "https://id.example.org", "id", "secret")
    look(None, {name: reverse(name) for name in scenes.SIGNED_OUT})


def test_changing_how_one_signs_in(look: Any, alice: Any, bob: Any):
    paths = {"none-security": reverse("security"), "none-app": reverse("mfa_activate_totp")}
    look(bob, paths, proven=True)
    look(bob, {"confirm": reverse("account_reauthenticate")})
    paths = scenes.ways_to_sign_in(alice, ("Laptop", *scenes.NASTY_NAMES))
    look(alice, {path.strip("/").replace("/", "-"): path for path in paths}, proven=True)
    look(
        alice,
        {"confirm-code": reverse("mfa_reauthenticate"), "confirm-passkey": reverse("mfa_reauthenticate_webauthn")},
    )


def test_nothing_found(look: Any, alice: Any):
    look(alice, {"not-found": "/nowhere/"}, expect=404)


def test_nothing_yet(look: Any, alice: Any, project: Any):
    names = ("project-home", "datasets", "dataset-upload", "rewards", "reward-new", "models")
    look(alice, {f"nothing-{name}": path for name, path in pages_of(project, *names).items()})


def test_settings(look: Any, alice: Any, workspace: Any):
    from workspaces.tokens import token_create

    for name in ("laptop", *scenes.NASTY_NAMES):
        token_create(user=alice, workspace=workspace, name=name[:100])
    look(
        alice,
        {name: reverse(name) for name in ("settings", "password", "tokens")}
        | {"project-new": reverse("project-new", args=[workspace.pk])}
        | {"workspace-new": reverse("workspace-new"), "account": reverse("account")},
    )


def test_a_team_of_one(look: Any, alice: Any, workspace: Any):
    look(alice, {f"nothing-{name}": path for name, path in scenes.team_pages(workspace).items()})


def test_a_team_with_nasty_names(look: Any, alice: Any, workspace: Any):
    scenes.fill_team(workspace, alice, scenes.NASTY_NAMES)
    Workspace.objects.update(name=scenes.NASTY_NAMES[2])
    look(alice, {f"much-{name}": path for name, path in scenes.team_pages(workspace).items()})
    look(None, {"invitation": reverse("invitation", args=[scenes.INVITATION_KEY])})


def test_an_invitation_that_is_gone(look: Any, db: None):
    look(None, {"invitation-gone": reverse("invitation", args=["gone"])}, expect=410)


def test_little(look: Any, alice: Any, project: Any):
    scenes.fill_rewards(project, alice)
    version = scenes.upload(project, alice, "Sums", scenes.sums_rows(60))
    jobs = scenes.fill_jobs(project, alice)
    done = next(job for job in jobs if job.model_version)
    scenes.fill_registry(done.model_version, alice)
    reward = project.rewards.get(name="Format and answer")
    look(
        alice,
        {f"little-{name}": path for name, path in pages_of(project, *LISTS).items()}
        | {
            "little-dataset": reverse("dataset", args=[project.pk, version.dataset_id]),
            "little-reward": reverse("reward", args=[project.pk, reward.pk]),
            "little-reward-edit": reverse("reward-edit", args=[project.pk, reward.pk]),
            "little-model": reverse("model", args=[project.pk, done.model_version.model_id]),
        },
    )


def test_much_and_nasty_names(look: Any, alice: Any, workspace: Any):
    project = scenes.project_in(workspace, scenes.NASTY_NAMES[1], alice, scenes.NASTY_NAMES[0] * 4)
    for name in scenes.NASTY_NAMES[2:]:
        scenes.project_in(workspace, name, alice)
    scenes.fill_rewards(project, alice, scenes.NASTY_NAMES)
    jobs = scenes.fill_jobs(project, alice, scenes.NASTY_NAMES)
    done = [job for job in jobs if job.model_version]
    scenes.fill_registry(done[0].model_version, alice, scenes.NASTY_NAMES[0])
    versions = [scenes.upload(project, alice, name, scenes.nasty_rows(), name) for name in scenes.NASTY_NAMES]
    rewards = list(project.rewards.filter(description__startswith="a" * 20))
    look(
        alice,
        {f"much-{name}": path for name, path in pages_of(project, *LISTS).items()}
        | {
            "much-dataset": reverse("dataset", args=[project.pk, versions[0].dataset_id]),
            "much-reward": reverse("reward", args=[project.pk, rewards[0].pk]),
            "much-model": reverse("model", args=[project.pk, done[0].model_version.model_id]),
            "much-compare": reverse("model-compare", args=[project.pk, done[0].model_version.model_id]),
        },
    )
