"""The small datasets that examples can be tried on, put into a project when a person asks for one."""

from __future__ import annotations

import io

from catalog.models import DatasetVersion
from catalog.services import dataset_upload
from trainers.examples import BY_KEY
from trainers.presets import Preset
from workspaces.models import Project, User


def example_dataset(*, project: Project, preset: Preset, actor: User) -> DatasetVersion:
    """The example's dataset in the project; made once, however often it is asked for. Raises what an upload raises."""
    example = BY_KEY[preset.example]
    version: DatasetVersion = dataset_upload(
        project=project,
        name=example.title,
        file=io.BytesIO(example.file()),
        file_name=f"{example.key}.jsonl",
        actor=actor,
        description="Made by Tuneyard from a few lists of words, to try things on.",
    )
    return version
