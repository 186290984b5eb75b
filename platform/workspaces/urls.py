"""Addresses of sign-in and settings."""

from __future__ import annotations

from django.urls import path

from workspaces import views

urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("settings/", views.settings, name="settings"),
    path("settings/theme/", views.theme, name="theme"),
    path("settings/password/", views.password, name="password"),
    path("settings/tokens/", views.token_list, name="tokens"),
    path("settings/tokens/<uuid:token_id>/revoke/", views.token_revoke, name="token-revoke"),
    path("workspaces/<uuid:workspace_id>/projects/new/", views.project_new, name="project-new"),
]
