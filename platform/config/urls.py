"""Every URL of the product; each app names its own."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

APPS = ("portal", "workspaces", "catalog", "jobs", "gateway")

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include(f"{app}.urls")) for app in APPS if find_spec(f"{app}.urls")
]
