"""Addresses of sign-in, settings and teams."""

from __future__ import annotations

from django.urls import include, path

from workspaces import views
from workspaces.pages import account, answers, audit, general, keys, members

WORKSPACE = "workspaces/<uuid:workspace_id>"

urlpatterns = [
    path("", include("workspaces.sign_in.urls")),
    path("settings/", views.settings, name="settings"),
    path("settings/theme/", views.theme, name="theme"),
    path("settings/tokens/", views.token_list, name="tokens"),
    path("settings/tokens/<uuid:token_id>/revoke/", views.token_revoke, name="token-revoke"),
    path("settings/account/", account.account, name="account"),
    path("settings/account/export/", account.account_export, name="account-export"),
    path("invitations/<str:key>/", answers.invitation, name="invitation"),
    path("workspaces/new/", general.workspace_new, name="workspace-new"),
    path(f"{WORKSPACE}/", general.general, name="workspace"),
    path(f"{WORKSPACE}/transfer/", general.transfer, name="workspace-transfer"),
    path(f"{WORKSPACE}/leave/", general.leave, name="workspace-leave"),
    path(f"{WORKSPACE}/export/", general.export_zip, name="workspace-export"),
    path(f"{WORKSPACE}/delete/", general.delete, name="workspace-delete"),
    path(f"{WORKSPACE}/members/", members.member_list, name="members"),
    path(f"{WORKSPACE}/members/who/", members.who_can_see, name="who-can-see"),
    path(f"{WORKSPACE}/members/<uuid:user_id>/role/", members.member_role, name="member-role"),
    path(f"{WORKSPACE}/members/<uuid:user_id>/remove/", members.member_remove, name="member-remove"),
    path(f"{WORKSPACE}/invitations/<uuid:invitation_id>/revoke/", members.invitation_revoke, name="invitation-revoke"),
    path(f"{WORKSPACE}/invitations/<uuid:invitation_id>/resend/", members.invitation_resend, name="invitation-resend"),
    path(f"{WORKSPACE}/tokens/", keys.token_list, name="team-tokens"),
    path(f"{WORKSPACE}/tokens/<uuid:token_id>/revoke/", keys.token_revoke, name="team-token-revoke"),
    path(f"{WORKSPACE}/secrets/", keys.secret_list, name="secrets"),
    path(f"{WORKSPACE}/secrets/<uuid:secret_id>/delete/", keys.secret_delete, name="secret-delete"),
    path(f"{WORKSPACE}/audit/", audit.log_page, name="audit"),
    path(f"{WORKSPACE}/audit.csv", audit.log_csv, name="audit-csv"),
    path(f"{WORKSPACE}/projects/new/", views.project_new, name="project-new"),
]
