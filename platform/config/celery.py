"""The Celery app: short, idempotent things only (dispatch, mail, reports); training never runs in a task."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("tuneyard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
