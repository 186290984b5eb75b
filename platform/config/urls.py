"""Every URL of the product; each app names its own."""

from __future__ import annotations

from django.urls import include, path

APPS = ("portal", "workspaces", "catalog", "jobs", "gateway")

urlpatterns = [path("", include(f"{app}.urls")) for app in APPS]
