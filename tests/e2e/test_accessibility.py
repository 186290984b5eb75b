"""axe finds nothing serious or critical on the pages of frame, catalog and home, in either theme."""

from __future__ import annotations

from typing import Any

import pytest
import scenes
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse

from workspaces.models import User
from workspaces.tokens import token_create

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("theme", ["dark", pytest.param("light", marks=pytest.mark.full)])
def test_axe_finds_nothing_serious(visit: Any, alice: Any, bob: Any, project: Any, workspace: Any, theme: str):
    User.objects.update(theme=theme)
    scenes.fill_rewards(project, alice)
    version = scenes.upload(project, alice, "Sums", scenes.nasty_rows())
    done = next(job for job in scenes.fill_jobs(project, alice) if job.model_version)
    scenes.fill_registry(done.model_version, alice)
    scenes.fill_team(workspace, alice)
    token_create(user=alice, workspace=workspace, name="laptop")
    reward = project.rewards.get(name="Format and answer")
    names = ("project-home", "datasets", "dataset-upload", "rewards", "reward-new", "models")
    paths = [
        *(reverse(name, args=[project.pk]) for name in names),
        reverse("dataset", args=[project.pk, version.dataset_id]),
        reverse("reward", args=[project.pk, reward.pk]),
        reverse("reward-edit", args=[project.pk, reward.pk]),
        reverse("model", args=[project.pk, done.model_version.model_id]),
        reverse("model-compare", args=[project.pk, done.model_version.model_id]),
        *(reverse(name) for name in ("settings", "tokens")),
        reverse("project-new", args=[workspace.pk]),
        reverse("workspace-new"),
        reverse("account"),
        *scenes.team_pages(workspace).values(),
    ]
    found = []
    paths += scenes.ways_to_sign_in(alice)
    invitation = reverse("invitation", args=[scenes.INVITATION_KEY])
    paths.append(invitation)
    signed_out = [*(reverse(name) for name in scenes.SIGNED_OUT), invitation]
    for person, pages in ((alice, paths), (bob, [reverse("mfa_activate_totp")]), (None, signed_out)):
        window = visit(person, theme=theme, proven=person is not None)
        for path in pages:
            result = Axe().run(window.open(path))
            found += [
                f"{path}: {v['id']} ({v['impact']}): {[node['target'] for node in v['nodes']][:3]}"
                for v in result.response["violations"]
                if v["impact"] in ("serious", "critical")
            ]
    assert found == []
