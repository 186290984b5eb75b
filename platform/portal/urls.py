"""Addresses of the home pages."""

from __future__ import annotations

from django.urls import path

from portal import mail_pages, merging_views, models_pages, views

VERSION = "projects/<uuid:project_id>/models/<uuid:model_id>/v<int:number>"

urlpatterns = [
    path("", views.home, name="home"),
    path("staff/mails/", mail_pages.mails, name="mails"),
    path("staff/mails/<uuid:message_id>/", mail_pages.mail, name="mail"),
    path("projects/<uuid:project_id>/", views.project_home, name="project-home"),
    path("projects/<uuid:project_id>/models/<uuid:model_id>/", models_pages.model_detail, name="model"),
    path(f"{VERSION}/merged/", merging_views.merged_state, name="merged-state"),
    path(f"{VERSION}/merged/make/", merging_views.merged_make, name="merged-make"),
    path(f"{VERSION}/merged.zip", merging_views.merged_download, name="merged-download"),
]
