"""What a task names in the project: models to start from or to learn from, and tasks that an environment makes."""

from __future__ import annotations

import io
import json
import re

from catalog.models import BaseModel, Checkpoint, DatasetVersion, ModelVersion
from catalog.selectors import model_version_named
from catalog.services import dataset_upload
from jobs.ids import uuid_of
from trainers.envs import ENVIRONMENTS
from trainers.rewards.spec import Judge
from trainers.spec import ENVIRONMENT_SOURCE, SpecError, TaskSpec
from workspaces.models import Project, Secret, User

Errors = list[tuple[str, str]]

_MODEL = re.compile(r"^model:.+@[^@]+$", re.DOTALL)
_CHECKPOINT = re.compile(r"^checkpoint:(?P<id>[0-9a-fA-F-]{32,36})$")
# So many tasks an environment makes for a job; a pass over them is long, and the file is small.
TASKS = 2000


def check_references(project: Project, task: TaskSpec, base: BaseModel | None, errors: Errors) -> None:
    """Note in ``errors`` what the task names and the project does not have, or what does not fit its base model."""
    if base is not None:
        start_adapter(project, task, base, errors)
        teacher = teacher_base(task, errors) or base
        teacher_adapter(project, task, teacher, errors)
    _judges_have_keys(project, task, errors)


def _judges_have_keys(project: Project, task: TaskSpec, errors: Errors) -> None:
    for index, component in enumerate(task.reward.components if task.reward is not None else ()):
        if isinstance(component, Judge) and component.secret is not None:
            known = Secret.objects.filter(workspace_id=project.workspace_id, name__iexact=component.secret)
            if not known.exists():
                message = (
                    f"the workspace has no secret called {component.secret!r}; an admin adds it on the page Secrets"
                )
                errors.append((f"reward.components.{index}.secret", message))


def start_adapter(project: Project, task: TaskSpec, base: BaseModel, errors: Errors) -> Checkpoint | None:
    """The stored adapter that training goes on from, if the task names one."""
    return _adapter(project, task.model.start_from, base, "model.start_from", errors)


def teacher_adapter(project: Project, task: TaskSpec, base: BaseModel, errors: Errors) -> Checkpoint | None:
    """The stored adapter of the teacher, whose base model is ``base``."""
    if task.recipe != "distill":
        return None
    return _adapter(project, task.distillation.teacher_adapter, base, "distillation.teacher_adapter", errors)


def teacher_base(task: TaskSpec, errors: Errors) -> BaseModel | None:
    """The base model that teaches, where it is another than the student's."""
    name = task.distillation.teacher
    if task.recipe != "distill" or not name:
        return None
    found = BaseModel.objects.filter(name=name, enabled=True).first()
    if found is None:
        errors.append(("distillation.teacher", f"there is no base model called {name!r}"))
    return found


def with_tasks(project: Project, task: TaskSpec, actor: User) -> TaskSpec:
    """The task with a dataset in place of ``environment`` as its source; the same tasks are stored once.

    Raises what an upload raises.
    """
    if task.data.source != ENVIRONMENT_SOURCE:
        return task
    kind = ENVIRONMENTS[task.environment.kind]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kind.tasks(TASKS, task.seed))
    version: DatasetVersion = dataset_upload(
        project=project,
        name=f"Tasks of {kind.name}",
        file=io.BytesIO(lines.encode()),
        file_name=f"{kind.name}-{task.seed}.jsonl",
        actor=actor,
        description=f"Made by the environment: {kind.title}.",
    )
    return task.model_copy(update={"data": task.data.model_copy(update={"source": version.source})})


def with_versions_pinned(project: Project, task: TaskSpec) -> TaskSpec:
    """The task with ``model:<id>@<number>`` wherever it names a model version: an alias may be moved later.

    Called in the transaction that stores the task: the versions stay locked against deletion until it ends.
    """
    start, teacher = (_pinned(project, name) for name in (task.model.start_from, task.distillation.teacher_adapter))
    return task.model_copy(
        update={
            "model": task.model.model_copy(update={"start_from": start}),
            "distillation": task.distillation.model_copy(update={"teacher_adapter": teacher}),
        }
    )


def _pinned(project: Project, name: str | None) -> str | None:
    version = model_version_named(project, name) if name else None
    if version is None:
        return name
    held = ModelVersion.objects.select_for_update(of=("self",), no_key=True).filter(pk=version.pk).first()
    if held is None:
        raise SpecError([("model.start_from", f"{name} was deleted")])
    return version.source


def _adapter(project: Project, text: str | None, base: BaseModel, path: str, errors: Errors) -> Checkpoint | None:
    if not text:
        return None
    found = _named(project, text)
    if found is None:
        shape = "must name a model version (model:<name>@<number or alias>) or a checkpoint (checkpoint:<id>)"
        known = _MODEL.match(text) or _CHECKPOINT.match(text)
        errors.append((path, f"this project has no {text}" if known else shape))
        return None
    checkpoint, made_on = found
    if made_on is not None and made_on.pk != base.pk:
        errors.append((path, f"it was trained on {made_on.name}, and the base model here is {base.name}"))
        return None
    if checkpoint.format != "peft":
        errors.append((path, "it holds no adapter that training could go on from"))
        return None
    return checkpoint


def _named(project: Project, text: str) -> tuple[Checkpoint, BaseModel | None] | None:
    """A checkpoint by its name in a spec, and the base model it belongs to where that is known."""
    if _MODEL.match(text):
        version = model_version_named(project, text)
        return None if version is None else (version.checkpoint, version.base_model)
    checkpoint = checkpoint_named(project, text)
    return None if checkpoint is None else (checkpoint, None)


def checkpoint_named(project: Project, text: str) -> Checkpoint | None:
    """The project's checkpoint that ``checkpoint:<id>`` names."""
    match = _CHECKPOINT.match(text)
    known = uuid_of(match["id"]) if match else None
    return Checkpoint.objects.filter(project=project, pk=known).first() if known else None
