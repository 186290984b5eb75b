"""The frame around every page: rail, bottom bar, breadcrumb. A link whose page does not exist is not shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from django import template
from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from workspaces import selectors, services
from workspaces.models import Project, Role
from workspaces.scope import PROJECT_COOKIE

register = template.Library()

SECTIONS = (
    ("project-home", "home", _("Home")),
    ("jobs", "job", _("Jobs")),
    ("datasets", "dataset", _("Datasets")),
    ("rewards", "reward", _("Rewards")),
    ("models", "model", _("Models")),
)


@dataclass(frozen=True)
class Link:
    url: str
    icon: str
    label: Any
    current: str = ""


@register.simple_tag(takes_context=True)
def rail_links(context: Context) -> list[Link]:
    """The pages of the project that the request is in, or only home outside of one."""
    request = context["request"]
    project = frame_project(context)
    if project is None:
        return _links(request.path, [("home", (), "home", _("Home"))])
    return _links(request.path, [(name, (project.pk,), icon, label) for name, icon, label in SECTIONS])


@register.simple_tag(takes_context=True)
def frame_project(context: Context) -> Project | None:
    """The project that the request is in; outside of any, the one of last time, so that the way back is there."""
    request = context["request"]
    if hasattr(request, "project"):
        return cast("Project", request.project)
    last = request.COOKIES.get(PROJECT_COOKIE)
    projects = (project for team in my_workspaces(context) for project in team.projects.all())
    return next((project for project in projects if str(project.pk) == last), None)


@register.simple_tag(takes_context=True)
def rail_end_links(context: Context) -> list[Link]:
    request = context["request"]
    wanted: list[tuple[str, tuple[Any, ...], str, Any]] = [("settings", (), "settings", _("Settings"))]
    project = frame_project(context)
    team = getattr(request, "workspace", None) or (project.workspace if project else None)
    if team is None and len(teams := my_workspaces(context)) == 1:
        team = teams[0]
    if team is not None:
        wanted.insert(0, ("members", (team.pk,), "people", _("Team")))
    links = _links(request.path, wanted)
    if hasattr(request, "workspace"):
        links[0] = replace(links[0], current=links[0].current or "true")
    return links


@register.simple_tag(takes_context=True)
def team_links(context: Context) -> list[Link]:
    """The pages of the team that the request is in, as far as the person may open them."""
    request = context["request"]
    pages = [
        (Role.VIEWER, "workspace", _("General")),
        (Role.VIEWER, "members", _("Members")),
        (Role.EDITOR, "secrets", _("Secrets")),
        (Role.ADMIN, "team-tokens", _("API tokens")),
        (Role.ADMIN, "audit", _("Audit log")),
    ]
    urls = [(reverse(name, args=[request.workspace.pk]), label) for need, name, label in pages if request.role >= need]
    return [Link(url, "", label, "page" if request.path == url else "") for url, label in urls]


def _links(path: str, wanted: list[tuple[str, tuple[Any, ...], str, Any]]) -> list[Link]:
    links = []
    for name, args, icon, label in wanted:
        try:
            url = reverse(name, args=args)
        except NoReverseMatch:
            continue
        exact_only = name in ("home", "project-home")
        inside = path == url or (not exact_only and path.startswith(url))
        links.append(Link(url, icon, label, ("page" if path == url else "true") if inside else ""))
    return links


@register.simple_tag(takes_context=True)
def my_workspaces(context: Context) -> list[Any]:
    """The teams in the switcher, each with its projects."""
    request = context["request"]
    if not hasattr(request, "frame_workspaces"):
        request.frame_workspaces = list(selectors.workspaces_of(request.user)) if request.user.is_authenticated else []
    return cast("list[Any]", request.frame_workspaces)


@register.simple_tag(takes_context=True)
def may_make_workspaces(context: Context) -> bool:
    return services.may_make_workspaces(context["request"].user)


@register.simple_tag
def crumb(label: str, url_name: str = "", *args: Any) -> SafeString:
    """``{% crumb "Datasets" "datasets" project.id %}``; without an address it is the page itself."""
    if not url_name:
        return format_html('<li aria-current="page"><bdi>{}</bdi></li>', label)
    return format_html('<li><a href="{}"><bdi>{}</bdi></a></li>', reverse(url_name, args=args), label)


@register.simple_tag
def server_now() -> str:
    """The server's clock, by which pages tell how long ago something was."""
    return timezone.now().isoformat()
