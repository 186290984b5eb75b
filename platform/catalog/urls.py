"""Addresses of datasets, rewards and models."""

from __future__ import annotations

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
