"""Addresses of the home pages."""

from __future__ import annotations

from django.urls import path

from portal import (
    lineage,
    mail_pages,
    merging_views,
    models_pages,
    registry_pages,
    search_views,
    version_compare,
    views,
)

PROJECT = "projects/<uuid:project_id>"
MODEL = "projects/<uuid:project_id>/models/<uuid:model_id>"
VERSION = "projects/<uuid:project_id>/models/<uuid:model_id>/v<int:number>"

urlpatterns = [
    path("", views.home, name="home"),
    path("search/", search_views.search_results, name="search"),
    path("staff/mails/", mail_pages.mails, name="mails"),
    path("staff/mails/<uuid:message_id>/", mail_pages.mail, name="mail"),
    path("projects/<uuid:project_id>/", views.project_home, name="project-home"),
    path("projects/<uuid:project_id>/models/<uuid:model_id>/", models_pages.model_detail, name="model"),
    path(f"{MODEL}/aliases/", registry_pages.model_alias, name="model-alias"),
    path(f"{MODEL}/aliases/remove/", registry_pages.model_unalias, name="model-unalias"),
    path(f"{MODEL}/describe/", registry_pages.model_describe, name="model-describe"),
    path(f"{MODEL}/delete/", registry_pages.model_delete, name="model-delete"),
    path(f"{MODEL}/compare/", version_compare.model_compare, name="model-compare"),
    path(f"{VERSION}/note/", registry_pages.model_note, name="model-note"),
    path(f"{VERSION}/delete/", registry_pages.model_version_delete, name="model-version-delete"),
    path(f"{PROJECT}/datasets/<uuid:dataset_id>/usage/", lineage.dataset_usage, name="dataset-usage"),
    path(f"{PROJECT}/rewards/<uuid:reward_id>/usage/", lineage.reward_usage, name="reward-usage"),
    path(f"{VERSION}/merged/", merging_views.merged_state, name="merged-state"),
    path(f"{VERSION}/merged/make/", merging_views.merged_make, name="merged-make"),
    path(f"{VERSION}/merged.zip", merging_views.merged_download, name="merged-download"),
]
