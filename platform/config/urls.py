"""Every URL of the product; each app names its own."""

from __future__ import annotations

from django.urls import include, path

APPS = ("portal", "workspaces", "catalog", "jobs", "gateway")

PARTS = ("jobs.life_urls", "jobs.reading_urls")

urlpatterns = [path("", include(urls)) for urls in (*(f"{app}.urls" for app in APPS), *PARTS)]
