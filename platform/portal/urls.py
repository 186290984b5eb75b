"""Addresses of the home pages."""

from __future__ import annotations

from django.urls import path

from portal import views

urlpatterns = [
    path("", views.home, name="home"),
    path("projects/<uuid:project_id>/", views.project_home, name="project-home"),
]
