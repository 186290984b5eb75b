"""What people keep of how they look at things: saved views of lists, and how they last set the charts."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from django.db import transaction
from django.db.models import Q, QuerySet

from records.models import ChartView, SavedView
from workspaces.errors import Refused
from workspaces.models import Project, User
from workspaces.text import one_line

LONGEST_NAME = 80
MOST_VIEWS = 100
CHART_FIELDS = frozenset({"x", "smooth", "log", "logx", "clip", "marks"})


def views_of(project: Project, user: User, page: str) -> QuerySet[SavedView]:
    """The views of a page that this person may use: their own and the shared ones."""
    mine_or_shared = Q(owner=user) | Q(shared=True)
    return SavedView.objects.filter(mine_or_shared, project=project, page=page).select_related("owner").order_by("name")


@transaction.atomic
def view_save(*, project: Project, owner: User, page: str, name: str, query: str, shared: bool = False) -> SavedView:
    """Keep a list's query string under a name; the same name again replaces it. Raises :class:`Refused`."""
    name = one_line(name)
    if not name:
        raise Refused("Give the view a name.", "name")
    if len(name) > LONGEST_NAME:
        raise Refused(f"A view's name has at most {LONGEST_NAME} characters; this has {len(name)}.", "name")
    # Which page of the list one was on is no part of a view.
    query = urlencode([(key, value) for key, value in parse_qsl(query) if key not in ("page", "view")])
    if len(query) > 2000:
        raise Refused("This filter is too long to be kept.", "query")
    mine = SavedView.objects.filter(project=project, page=page, owner=owner)
    if mine.count() >= MOST_VIEWS and not mine.filter(name=name).exists():
        raise Refused(f"You have {MOST_VIEWS} views here; delete one first.", "name")
    return SavedView.objects.update_or_create(
        project=project, page=page, owner=owner, name=name, defaults={"query": query, "shared": shared}
    )[0]


def view_delete(*, view: SavedView) -> None:
    view.delete()


def chart_view_of(project: Project, user: User) -> str:
    """The query string of the toolbar as this person last set it in this project; empty: never."""
    return ChartView.objects.filter(project=project, user=user).values_list("query", flat=True).first() or ""


def chart_view_keep(*, project: Project, user: User, query: str) -> None:
    """Remember how the toolbar is set; what is no field of it is left out."""
    kept = [(key, value[:60]) for key, value in parse_qsl(query[:2000]) if key in CHART_FIELDS]
    ChartView.objects.update_or_create(
        project=project, user=user, defaults={"query": urlencode(list(dict(kept).items()))}
    )
