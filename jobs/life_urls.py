"""Addresses for pausing and resuming a job and looking after its checkpoints."""

from __future__ import annotations

from django.urls import path

from jobs import life_views

JOB = "projects/<uuid:project_id>/jobs/<uuid:job_id>"

urlpatterns = [
    path(f"{JOB}/pause/", life_views.job_pause, name="job-pause"),
    path(f"{JOB}/resume/", life_views.job_resume, name="job-resume"),
    path(f"{JOB}/checkpoints/", life_views.job_checkpoints, name="job-checkpoints"),
    path(f"{JOB}/checkpoints/<uuid:checkpoint_id>/keep/", life_views.checkpoint_keep, name="checkpoint-keep"),
    path(f"{JOB}/checkpoints/<uuid:checkpoint_id>/download/", life_views.checkpoint_zip, name="checkpoint-download"),
]
