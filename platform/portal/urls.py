"""Addresses of the home pages."""

from __future__ import annotations

from django.urls import path

from portal import models_pages, views

urlpatterns = [
    path("", views.home, name="home"),
    path("projects/<uuid:project_id>/", views.project_home, name="project-home"),
    path("projects/<uuid:project_id>/models/<uuid:model_id>/", models_pages.model_detail, name="model"),
]
