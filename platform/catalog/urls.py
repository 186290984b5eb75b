"""Addresses of datasets, rewards and models. The page of one model is the portal's: it shows jobs too."""

from __future__ import annotations

from django.urls import URLPattern, path

from catalog.views import datasets, models, rewards

PROJECT = "projects/<uuid:project_id>"

urlpatterns: list[URLPattern] = [
    path(f"{PROJECT}/datasets/", datasets.dataset_list, name="datasets"),
    path(f"{PROJECT}/datasets/upload/", datasets.dataset_upload, name="dataset-upload"),
    path(f"{PROJECT}/datasets/<uuid:dataset_id>/", datasets.dataset_detail, name="dataset"),
    path(f"{PROJECT}/datasets/<uuid:dataset_id>/v<int:number>/file/", datasets.dataset_file, name="dataset-file"),
    path(
        f"{PROJECT}/datasets/<uuid:dataset_id>/v<int:number>/compare/",
        datasets.dataset_compare,
        name="dataset-compare",
    ),
    path(f"{PROJECT}/datasets/<uuid:dataset_id>/delete/", datasets.dataset_delete, name="dataset-delete"),
    path(f"{PROJECT}/rewards/", rewards.reward_list, name="rewards"),
    path(f"{PROJECT}/rewards/new/", rewards.reward_new, name="reward-new"),
    path(f"{PROJECT}/rewards/component/", rewards.reward_component, name="reward-component"),
    path(f"{PROJECT}/rewards/try/", rewards.reward_try, name="reward-try"),
    path(f"{PROJECT}/rewards/<uuid:reward_id>/", rewards.reward_detail, name="reward"),
    path(f"{PROJECT}/rewards/<uuid:reward_id>/edit/", rewards.reward_edit, name="reward-edit"),
    path(f"{PROJECT}/rewards/<uuid:reward_id>/delete/", rewards.reward_delete, name="reward-delete"),
    path(f"{PROJECT}/models/", models.model_list, name="models"),
    path(
        f"{PROJECT}/models/<uuid:model_id>/v<int:number>/adapter.zip",
        models.adapter_download,
        name="adapter-download",
    ),
]
