"""WebSocket addresses."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from jobs.consumers import JobConsumer

websocket_urlpatterns: list[URLPattern | URLResolver] = [
    path("ws/jobs/<uuid:job_id>/", JobConsumer.as_asgi()),
]
