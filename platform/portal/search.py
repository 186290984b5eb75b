"""Search across everything a person may see: jobs, datasets, rewards, models, sweeps, projects, and the pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog import selectors as catalog
from jobs.models import Job
from jobs.selectors import jobs_visible_to
from jobs.states import TABLE, State
from jobs.sweeps import sweeps_visible_to
from workspaces.models import Project, User
from workspaces.selectors import projects_of

LONGEST = 100
PER_KIND = 6
# So many of the newest rows of a kind are looked through; a search is for what one works on.
LOOKED_THROUGH = 5000


@dataclass(frozen=True)
class Hit:
    """One line of the answer: ``kind`` is an icon's name, ``where`` tells things of one name apart."""

    kind: str
    title: str
    where: str
    url: str


def search(user: User, text: str, project: Project | None = None) -> list[Hit]:
    """At most a few of each kind, those first whose name begins so, and those of ``project`` before others.

    Every word must be in the name. A fixed number of queries, each bounded.
    """
    words = text[:LONGEST].split()[:6]
    if not words:
        return list(_pages(words, project))
    return [
        *_pages(words, project),
        *_projects(user, words),
        *(_job(job) for job in _best(jobs_visible_to(user), words, project)),
        *_named(catalog.datasets_visible_to(user), words, project, "dataset", "dataset"),
        *_named(catalog.rewards_visible_to(user), words, project, "reward", "reward"),
        *_named(catalog.models_visible_to(user), words, project, "model", "model"),
        *_named(sweeps_visible_to(user), words, project, "lineage", "sweep"),
    ]


def _best(rows: QuerySet[Any], words: list[str], project: Project | None) -> list[Any]:
    newest = rows.order_by("-created_at").values("pk")[:LOOKED_THROUGH]
    found = rows.filter(pk__in=newest).select_related("project")
    for word in words:
        found = found.filter(name__icontains=word)
    here = Case(When(project_id=project.pk if project else None, then=0), default=1, output_field=IntegerField())
    first = Case(When(name__istartswith=words[0], then=Value(0)), default=Value(1), output_field=IntegerField())
    return list(found.annotate(here=here, first=first).order_by("here", "first", "-created_at")[:PER_KIND])


def _named(rows: QuerySet[Any], words: list[str], project: Project | None, icon: str, route: str) -> Iterator[Hit]:
    for row in _best(rows, words, project):
        yield Hit(icon, row.name, row.project.name, reverse(route, args=[row.project_id, row.pk]))


def _job(job: Job) -> Hit:
    where = f"{TABLE[State(job.state)].label} · {job.project.name}"
    return Hit("job", job.name, where, reverse("job", args=[job.project_id, job.pk]))


def _projects(user: User, words: list[str]) -> Iterator[Hit]:
    found = [row for row in projects_of(user) if all(word.casefold() in row.name.casefold() for word in words)]
    for row in found[:PER_KIND]:
        yield Hit("project", row.name, row.workspace.name, reverse("project-home", args=[row.pk]))


def _pages(words: list[str], project: Project | None) -> Iterator[Hit]:
    pages = (
        ("project-home", True, "home", _("Home")),
        ("job-new", True, "plus", _("New job")),
        ("jobs", True, "job", _("Jobs")),
        ("sweeps", True, "lineage", _("Sweeps")),
        ("datasets", True, "dataset", _("Datasets")),
        ("dataset-upload", True, "upload", _("Upload data")),
        ("rewards", True, "reward", _("Rewards")),
        ("reward-new", True, "reward", _("Define a reward")),
        ("models", True, "model", _("Models")),
        ("settings", False, "settings", _("Settings")),
        ("tokens", False, "key", _("API tokens")),
        ("workspace-new", False, "people", _("New workspace")),
    )
    for route, of_project, icon, title in pages:
        if (of_project and project is None) or not all(word.casefold() in title.casefold() for word in words):
            continue
        yield Hit(icon, title, "", reverse(route, args=[project.pk] if of_project and project else []))
