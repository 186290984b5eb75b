"""Pages of rewards: list, one reward, its form, and trying it."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalog import selectors, services
from catalog.models import RewardConfig, RewardVersion
from catalog.reward_forms import KINDS, RewardEditor, new_component
from catalog.trying import TryForm, try_out
from trainers.rewards.sandbox import isolation_report
from workspaces import access
from workspaces.errors import Refused
from workspaces.models import Project, Role
from workspaces.scope import ProjectRequest, in_project


@require_safe
@in_project()
def reward_list(request: ProjectRequest, project: Project) -> HttpResponse:
    rewards = selectors.rewards_visible_to(request.user).filter(project=project)
    return render(request, "catalog/rewards.html", {"rewards": [(reward, _latest(reward)) for reward in rewards]})


@require_safe
@in_project()
def reward_detail(request: ProjectRequest, project: Project, reward_id: UUID) -> HttpResponse:
    """One reward: the version asked for (the newest without a choice), and the list of all."""
    reward = _reward(request, project, reward_id)
    versions = list(reward.versions.all())
    wanted = request.GET.get("version", "")
    version = next((v for v in versions if str(v.number) == wanted), versions[0] if versions else None)
    if version is None:
        raise Http404
    components = [new_component(part["kind"], part) for part in version.spec["components"]]
    context = {"reward": reward, "version": version, "versions": versions, "components": components}
    return render(request, "catalog/reward.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def reward_new(request: ProjectRequest, project: Project) -> HttpResponse:
    editor = RewardEditor(request.POST if request.method == "POST" else None)
    return _edit(request, project, editor, None)


@require_http_methods(["GET", "HEAD", "POST"])
@in_project(Role.EDITOR)
def reward_edit(request: ProjectRequest, project: Project, reward_id: UUID) -> HttpResponse:
    """A new version of a reward; jobs that ran keep the version they used."""
    reward = _reward(request, project, reward_id)
    newest = _latest(reward)
    initial = {"name": reward.name, "description": reward.description}
    data = request.POST.copy() if request.method == "POST" else None
    if data is not None:
        data["name"] = reward.name
    editor = RewardEditor(data, initial=initial, spec=newest.spec if newest else None)
    editor.form.fields["name"].disabled = True
    return _edit(request, project, editor, reward)


def _edit(request: ProjectRequest, project: Project, editor: RewardEditor, reward: RewardConfig | None) -> HttpResponse:
    if request.method == "POST" and editor.is_valid() and editor.spec is not None:
        data = editor.form.cleaned_data
        try:
            if reward is None:
                services.reward_name_free(project=project, name=data["name"])
            version = services.reward_save(
                project=project,
                name=reward.name if reward else data["name"],
                description=data["description"],
                spec=editor.spec,
                actor=request.user,
            )
            messages.success(request, _("Saved as version %(number)s.") % {"number": version.number})
            return redirect("reward", project.pk, version.reward_id)
        except Refused as error:
            editor.form.add_error("name" if error.field == "name" else None, error.message)
    context = {
        "editor": editor,
        "form": editor.form,
        "reward": reward,
        "kinds": list(KINDS.values()),
        "try_form": TryForm(project, request.user),
        "isolation": isolation_report(),
    }
    return render(request, "catalog/reward_form.html", context)


@require_safe
@in_project(Role.EDITOR)
def reward_component(request: ProjectRequest, project: Project) -> HttpResponse:
    """One more component for the form."""
    kind = request.GET.get("kind", "")
    if kind not in KINDS:
        raise Http404
    return render(request, "catalog/component.html", {"component": new_component(kind)})


@require_POST
@in_project(Role.EDITOR)
def reward_try(request: ProjectRequest, project: Project) -> HttpResponse:
    """What the reward in the form gives for samples of a dataset or for pasted text; saves nothing."""
    editor = RewardEditor(request.POST)
    form = TryForm(project, request.user, request.POST)
    context: dict[str, object] = {"form": form, "editor": editor}
    if not editor.is_valid(named=False) or editor.spec is None:
        context["problems"] = _problems(editor)
    elif form.is_valid():
        context["outcome"] = try_out(editor.spec, form.cases(), project.workspace)
    return render(request, "catalog/try_result.html", context)


@require_POST
@in_project(Role.EDITOR)
def reward_delete(request: ProjectRequest, project: Project, reward_id: UUID) -> HttpResponse:
    reward = _reward(request, project, reward_id)
    try:
        services.reward_delete(reward=reward, actor=request.user)
    except Refused as error:
        messages.error(request, error.message)
        return redirect("reward", project.pk, reward.pk)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": reward.name})
    return redirect("rewards", project.pk)


def _reward(request: ProjectRequest, project: Project, reward_id: UUID) -> RewardConfig:
    return access.get(selectors.rewards_visible_to(request.user).filter(project=project), reward_id, request.user)


def _latest(reward: RewardConfig) -> RewardVersion | None:
    return next(iter(reward.versions.all()), None)


def _problems(editor: RewardEditor) -> list[str]:
    """What must be put right before the reward can be tried, as one sentence each."""
    found = list(editor.errors)
    for index, component in enumerate(editor.components, start=1):
        for name, errors in component.errors.items():
            label = component.fields[name].label if name in component.fields else component.title
            found += [f"{index}. {component.title}, {label}: {error}" for error in errors]
    return found
