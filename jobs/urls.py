"""Addresses of the pages of jobs."""

from __future__ import annotations

from django.urls import include, path

from jobs import chart_views, form_views, list_views, sweep_views, text_views, views

urlpatterns = [
    path("", include("jobs.life_urls")),
    path("", include("jobs.reading_urls")),
    path("jobs/<uuid:job_id>/", views.job_short, name="job"),
    path("projects/<uuid:project_id>/jobs/", views.jobs_page, name="jobs"),
    path("projects/<uuid:project_id>/jobs/new/", form_views.job_new, name="job-new"),
    path("projects/<uuid:project_id>/jobs/new/preview/", form_views.job_preview, name="job-preview"),
    path("projects/<uuid:project_id>/jobs/new/dry-run/", form_views.job_dry_run, name="job-dry-run"),
    path("projects/<uuid:project_id>/jobs/new/example/", form_views.job_example, name="job-example"),
    path("projects/<uuid:project_id>/jobs/new/text/", text_views.job_text, name="job-text"),
    path("projects/<uuid:project_id>/jobs/new/text/file/", text_views.job_text_file, name="job-text-file"),
    path("projects/<uuid:project_id>/jobs/new/text/apply/", text_views.job_text_apply, name="job-text-apply"),
    path("projects/<uuid:project_id>/sweeps/", sweep_views.sweeps_page, name="sweeps"),
    path("projects/<uuid:project_id>/sweeps/new/", sweep_views.sweep_new, name="sweep-new"),
    path("projects/<uuid:project_id>/sweeps/<uuid:sweep_id>/", sweep_views.sweep_page, name="sweep"),
    path("projects/<uuid:project_id>/sweeps/<uuid:sweep_id>/cancel/", sweep_views.sweep_cancel, name="sweep-cancel"),
    path("projects/<uuid:project_id>/jobs/<uuid:job_id>/", views.job_page, name="job"),
    path("projects/<uuid:project_id>/jobs/<uuid:job_id>/parts/", views.job_parts, name="job-parts"),
    path("projects/<uuid:project_id>/jobs/<uuid:job_id>/updates/", views.job_updates, name="job-updates"),
    path("projects/<uuid:project_id>/jobs/<uuid:job_id>/metrics.csv", chart_views.job_metrics_csv, name="job-metrics"),
    path("projects/<uuid:project_id>/jobs/bulk/", list_views.jobs_bulk_page, name="jobs-bulk"),
    path("projects/<uuid:project_id>/jobs/views/", list_views.jobs_view_save, name="jobs-view-save"),
    path(
        "projects/<uuid:project_id>/jobs/views/<uuid:view_id>/delete/",
        list_views.jobs_view_delete,
        name="jobs-view-delete",
    ),
    path("projects/<uuid:project_id>/charts/view/", chart_views.chart_view, name="chart-view"),
    path("projects/<uuid:project_id>/compare/", chart_views.compare_page, name="compare"),
    path("projects/<uuid:project_id>/compare/lines/", chart_views.compare_lines, name="compare-lines"),
    path("projects/<uuid:project_id>/compare/table.csv", chart_views.compare_table_csv, name="compare-table"),
    path("projects/<uuid:project_id>/compare/points.csv", chart_views.compare_points_csv, name="compare-points"),
    path("projects/<uuid:project_id>/jobs/<uuid:job_id>/report/", views.job_report, name="job-report"),
    path("projects/<uuid:project_id>/jobs/<uuid:job_id>/cancel/", views.job_cancel, name="job-cancel"),
]
