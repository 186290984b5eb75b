"""Who is in the team: the list, roles, removal, and the invitations that are open."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workspaces import access, invitations, membership, selectors
from workspaces.errors import Refused
from workspaces.models import Invitation, Role, Workspace
from workspaces.pages.refusals import put_on
from workspaces.scope import WorkspaceRequest, in_workspace
from workspaces.team_forms import InvitationForm, RoleForm, roles_up_to


@require_http_methods(["GET", "HEAD", "POST"])
@in_workspace()
def member_list(request: WorkspaceRequest, workspace: Workspace) -> HttpResponseBase:
    """The members; for admins with what they may change, the open invitations, and the form to invite."""
    form = InvitationForm(request.role, request.POST or None) if request.may_manage else None
    if request.method == "POST":
        if form is None:
            raise access.lacking(Role.ADMIN)
        if form.is_valid() and _invite(request, workspace, form):
            return redirect("members", workspace.pk)
    context: dict[str, Any] = {
        "form": form,
        "lines": [_line(line, request) for line in selectors.members_of(workspace)],
        "invitations": selectors.open_invitations(workspace) if request.may_manage else [],
        "now": timezone.now(),
        "meaning": ROLE_MEANING,
    }
    return render(request, "workspaces/members.html", context)


ROLE_MEANING = (
    ("viewer", gettext_lazy("looks at everything")),
    ("editor", gettext_lazy("also uploads, edits, starts and stops jobs")),
    ("admin", gettext_lazy("also manages members, secrets and tokens, and reads the audit log")),
    ("owner", gettext_lazy("also makes owners, hands over and deletes the workspace")),
)


def _line(line: selectors.MemberLine, request: WorkspaceRequest) -> dict[str, Any]:
    """A member with what the person who looks may do to them; the service has the last word."""
    is_me = line.user.pk == request.user.pk
    below = line.role < Role.OWNER or request.role == Role.OWNER
    return {
        "user": line.user,
        "role": line.role,
        "joined_at": line.joined_at,
        "last_active": line.last_active,
        "is_me": is_me,
        "roles": roles_up_to(request.role) if request.may_manage and below else [],
        "may_remove": request.may_manage and below and not is_me,
    }


def _invite(request: WorkspaceRequest, workspace: Workspace, form: InvitationForm) -> bool:
    data = form.cleaned_data
    try:
        invitations.invitation_create(
            workspace=workspace, email=data["email"], role=Role(data["role"]), days=data["days"], actor=request.user
        )
    except Refused as error:
        put_on(form, error)
        return False
    messages.success(request, _("The invitation to %(email)s is on its way.") % {"email": data["email"]})
    return True


@require_POST
@in_workspace()
def member_role(request: WorkspaceRequest, workspace: Workspace, user_id: UUID) -> HttpResponseBase:
    form = RoleForm(request.POST)
    if not request.may_manage:
        raise access.lacking(Role.ADMIN)
    if not form.is_valid():
        messages.error(request, _("Choose one of the roles."))
        return redirect("members", workspace.pk)
    try:
        role = Role(form.cleaned_data["role"])
        changed = membership.member_role_set(workspace=workspace, user_id=user_id, role=role, actor=request.user)
        messages.success(request, _("%(name)s is %(role)s now.") % {"name": changed.user, "role": role.label})
    except Refused as error:
        messages.error(request, error.message)
    return redirect("members", workspace.pk)


@require_POST
@in_workspace(Role.ADMIN)
def member_remove(request: WorkspaceRequest, workspace: Workspace, user_id: UUID) -> HttpResponseBase:
    try:
        membership.member_remove(workspace=workspace, user_id=user_id, actor=request.user)
        messages.success(request, _("Removed. Their sessions and tokens no longer reach this workspace."))
    except Refused as error:
        messages.error(request, error.message)
    return redirect("members", workspace.pk)


@require_POST
@in_workspace(Role.ADMIN)
def invitation_revoke(request: WorkspaceRequest, workspace: Workspace, invitation_id: UUID) -> HttpResponseBase:
    invitation = _invitation(request, workspace, invitation_id)
    invitations.invitation_revoke(invitation=invitation, actor=request.user)
    messages.success(request, _("The invitation of %(email)s no longer works.") % {"email": invitation.email})
    return redirect("members", workspace.pk)


@require_POST
@in_workspace(Role.ADMIN)
def invitation_resend(request: WorkspaceRequest, workspace: Workspace, invitation_id: UUID) -> HttpResponseBase:
    invitation = _invitation(request, workspace, invitation_id)
    try:
        invitations.invitation_resend(invitation=invitation, actor=request.user)
        messages.success(request, _("Sent again. The link of the mail before no longer works."))
    except Refused as error:
        messages.error(request, error.message)
    return redirect("members", workspace.pk)


@require_safe
@in_workspace()
def who_can_see(request: WorkspaceRequest, workspace: Workspace) -> HttpResponse:
    """The inside of the panel "Who can see this"."""
    return render(request, "workspaces/who_can_see_list.html", {"lines": selectors.members_of(workspace)})


def _invitation(request: WorkspaceRequest, workspace: Workspace, invitation_id: UUID) -> Invitation:
    rows = Invitation.objects.filter(workspace=workspace).select_related("workspace")
    return access.get(rows, invitation_id, request.user, Role.ADMIN)
