"""What the search of every page asks for."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.ids import uuid_of
from portal.search import LONGEST, search
from workspaces.models import Project
from workspaces.scope import SignedInRequest
from workspaces.selectors import projects_of


@require_safe
def search_results(request: SignedInRequest) -> HttpResponse:
    """A list of links for ``?q=TEXT``; ``in`` is the project that the person is in, whose things come first."""
    text = request.GET.get("q", "")[:LONGEST]
    hits = search(request.user, text, _project(request))
    return render(request, "portal/search_results.html", {"hits": hits, "text": text})


def _project(request: SignedInRequest) -> Project | None:
    wanted = uuid_of(request.GET.get("in", ""))
    return next((project for project in projects_of(request.user) if project.pk == wanted), None)
