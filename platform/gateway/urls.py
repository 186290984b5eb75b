"""Addresses for programs. Each door of the gateway has its own prefix below /api/."""

from __future__ import annotations

from django.urls import include, path, re_path

from gateway.rest.api import api
from gateway.rest.door import no_such_address, patterns

urlpatterns = [
    path("api/", include((patterns(api), "ninja"), namespace=api.urls_namespace)),
    re_path(r"^api(?:/(?P<path>.*))?$", no_such_address, name="api-no-such-address"),
]
