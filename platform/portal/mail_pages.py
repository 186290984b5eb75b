"""The mails of the installation, for the person who keeps it running."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from delivery import mail_folder
from delivery.models import Message
from workspaces.scope import SignedInRequest

PAGE = 50


def for_staff(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Only the installation's staff; for everyone else the page does not exist."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not cast("SignedInRequest", request).user.is_staff:
            raise Http404
        return view(request, *args, **kwargs)

    return inner


@require_safe
@for_staff
def mails(request: SignedInRequest) -> HttpResponse:
    """What has left, waits or was given up, the newest first."""
    state = request.GET.get("state", "")
    found = Message.objects.filter(channel="email")
    if state in Message.State.values:
        found = found.filter(state=state)
    context = {
        "page": Paginator(found.defer("text", "html"), PAGE).get_page(request.GET.get("page")),
        "state": state,
        "states": Message.State.choices,
        "folder": str(settings.EMAIL_FILE_PATH) if mail_folder.in_folder() else "",
    }
    return render(request, "portal/mails.html", context)


@require_safe
@for_staff
def mail(request: SignedInRequest, message_id: UUID) -> HttpResponse:
    """One mail with its text, as far as it is still known."""
    message = get_object_or_404(Message, pk=message_id, channel="email")
    # A private one is sealed while it waits and erased when it has left; a file in the folder keeps what it said.
    text = mail_folder.text_of(message) if message.private else message.text
    return render(request, "portal/mail.html", {"mail": message, "text": text})
