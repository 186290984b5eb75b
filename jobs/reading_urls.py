"""Addresses of what one reads of a job: rollouts, log, and the report by link."""

from __future__ import annotations

from django.urls import path

from jobs import log_views, rollout_views, share_views

JOB = "projects/<uuid:project_id>/jobs/<uuid:job_id>"

urlpatterns = [
    path(f"{JOB}/rollouts/", rollout_views.job_rollouts, name="job-rollouts"),
    path(f"{JOB}/rollouts/<int:rollout_id>/text/", rollout_views.job_rollout_text, name="job-rollout-text"),
    path(f"{JOB}/rollouts/diff/", rollout_views.job_rollout_diff, name="job-rollout-diff"),
    path(f"{JOB}/log/", log_views.job_log, name="job-log"),
    path(f"{JOB}/log/lines/", log_views.job_log_lines, name="job-log-lines"),
    path(f"{JOB}/shares/", share_views.job_shares, name="job-shares"),
    path(f"{JOB}/shares/new/", share_views.job_share, name="job-share"),
    path(f"{JOB}/shares/<uuid:link_id>/revoke/", share_views.job_unshare, name="job-unshare"),
    path("shared/<str:key>/", share_views.report_shared, name="report-shared"),
]
