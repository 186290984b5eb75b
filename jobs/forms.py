"""The form that makes a job: every field of the task spec, checked by the spec itself."""

from __future__ import annotations

import hashlib
import json
import uuid
from functools import cached_property
from typing import Any

from django import forms

from catalog.models import BaseModel, DatasetVersion, ModelVersion, RewardVersion
from jobs.data_report import chosen_column, column_options, data_errors, dataset_label
from jobs.form_values import default_values, raw_spec
from jobs.ids import uuid_of
from jobs.models import Job
from jobs.sizes import BY_KEY, GOVERNED, SIZES
from jobs.spec_fields import SpecField, spec_field, spec_fields
from trainers.spec import DEFAULT_MODEL, ENVIRONMENT_SOURCE, RECIPES, SpecError, TaskSpec, parse_spec
from workspaces.formats import parameters
from workspaces.models import Project

TIERS = {
    "reserved": "Reserved: never interrupted",
    "spot": "Spot: cheaper, may be interrupted",
    "on_demand": "On demand: started when needed",
}
# A reward of a copied job that was never saved under a name travels with the form.
UNSAVED = "unsaved"
OWN_TASKS = (ENVIRONMENT_SOURCE, "Tasks that the environment makes")

# Which of the form's sections shows a part of the spec; a part that is new to the spec appears under "How".
SECTION_OF = {
    "name": "what",
    "recipe": "what",
    "model": "what",
    "seed": "what",
    "data": "data",
    "environment": "data",
    "evaluation": "data",
    "loss": "reward",
    "critic": "reward",
    "distillation": "reward",
    "selection": "reward",
}
SECTIONS = ("what", "data", "reward", "how")
# Shown in the open; everything else of a section is folded under Advanced.
BASIC = frozenset(
    {
        "name", "recipe", "model.base",
        "data.source", "data.system_prompt",
        "data.columns.prompt", "data.columns.answer", "data.columns.messages", "data.columns.system",
        "data.columns.chosen", "data.columns.rejected", "data.columns.text",
        "data.max_bad_rows",
        "resources.tier", "budget.amount", "budget.minutes",
    }
)  # fmt: skip


def section_of(field: SpecField) -> str:
    return SECTION_OF.get(field.section, "how")


class JobForm(forms.Form):
    """Fields are named by their dotted path in the task spec; errors land beside the field the spec names.

    After ``is_valid()``, ``task`` is the checked spec and ``reward_version`` the saved reward it uses, if any.
    """

    task: TaskSpec | None = None

    def __init__(self, *args: Any, project: Project, **kwargs: Any) -> None:
        self.project = project
        kwargs["initial"] = {
            **default_values(),
            "model.base": self._first_base_model(),
            "recipe": "grpo",
            "name": "",
            "size": "small",
            "key": uuid.uuid4().hex,
            **(kwargs.get("initial") or {}),
        }
        super().__init__(*args, **{"auto_id": "f-%s", **kwargs})
        self.fields["key"] = forms.CharField(widget=forms.HiddenInput, max_length=64)
        self.fields["copied_from"] = forms.CharField(required=False, widget=forms.HiddenInput, max_length=64)
        self.fields["size"] = forms.CharField(required=False)
        self.fields["reward"] = forms.CharField(required=False)
        self.fields["reward_spec"] = forms.CharField(required=False, widget=forms.HiddenInput)
        for field in spec_fields():
            kind = forms.BooleanField if field.control == "switch" else forms.CharField
            self.fields[field.path] = kind(required=False, label=field.label)

    def _first_base_model(self) -> str:
        """The spec's default model where it is registered, else the smallest that is."""
        names = [model.name for model in self.base_models]
        return DEFAULT_MODEL if DEFAULT_MODEL in names else next(iter(names), "")

    # What there is to choose from.

    @cached_property
    def base_models(self) -> list[BaseModel]:
        return list(BaseModel.objects.filter(enabled=True))

    @cached_property
    def datasets(self) -> list[DatasetVersion]:
        """All versions of the project's datasets, the newest of each first."""
        rows = DatasetVersion.objects.filter(dataset__project=self.project).select_related("dataset")
        return list(rows.order_by("-dataset__created_at", "dataset_id", "-number"))

    @cached_property
    def rewards(self) -> list[RewardVersion]:
        """The latest version of each reward of the project, and an older one if a copied job used it."""
        rows = RewardVersion.objects.filter(reward__project=self.project).select_related("reward")
        chosen = self.value("reward")
        latest: dict[uuid.UUID, RewardVersion] = {}
        older = []
        for row in rows.order_by("-reward__created_at", "reward_id", "-number"):
            if latest.setdefault(row.reward_id, row) is not row and str(row.pk) == chosen:
                older.append(row)
        return [*latest.values(), *older]

    @cached_property
    def dataset(self) -> DatasetVersion | None:
        """The chosen dataset version, if it is one of the project's."""
        source = self.value("data.source")
        return next((version for version in self.datasets if version.source == source), None)

    @cached_property
    def reward_version(self) -> RewardVersion | None:
        chosen = self.value("reward")
        return next((version for version in self.rewards if str(version.pk) == chosen), None)

    @cached_property
    def base_model(self) -> BaseModel | None:
        name = self.value("model.base")
        return next((model for model in self.base_models if model.name == name), None)

    @cached_property
    def original(self) -> Job | None:
        """The project's job whose task this form began with."""
        chosen = uuid_of(self.value("copied_from"))
        return Job.objects.filter(project=self.project, pk=chosen).first() if chosen else None

    def value(self, path: str) -> Any:
        """What a field holds now: what the size dial sets, else as sent, else as first shown."""
        if path in GOVERNED and (size := BY_KEY.get(self.value("size"))):
            return str(size.values[path])
        value = self._held(path)
        if path.startswith("data.columns."):
            changed = "columns_of" in self.data and self.data["columns_of"] != self._held("data.source")
            return chosen_column(self.dataset, path.rpartition(".")[2], value, dataset_changed=changed)
        return value

    def _held(self, path: str) -> Any:
        if not self.is_bound:
            value = self.initial.get(path, "")
            return value if isinstance(value, bool) else str(value)
        if isinstance(self.fields.get(path), forms.BooleanField):
            return bool(self.data.get(path))
        return str(self.data.get(path, "")).strip()

    # The check.

    def clean(self) -> dict[str, Any]:
        values = {field.path: self.value(field.path) for field in spec_fields()}
        values["name"] = values["name"] or self._name_of(values)
        try:
            reward = self.reward_json()
        except ValueError as error:
            self.add_error("reward", str(error))
            reward = None
        if values["data.source"] not in ("", ENVIRONMENT_SOURCE) and self.dataset is None:
            self.add_error("data.source", "This project has no such dataset; choose one from the list.")
        if values["recipe"] == "distill" and self._is_its_own_teacher(values):
            message = "Teacher and student are the same model; choose another teacher, or an adapter that it learned."
            self.add_error("distillation.teacher", message)
        for path, message in data_errors(self.dataset, values.__getitem__) if self.dataset else ():
            self.add_error(path, message)
        try:
            self.task = parse_spec(raw_spec(values, reward))
        except SpecError as error:
            self.add_spec_errors(error)
        return self.cleaned_data

    def _is_its_own_teacher(self, values: dict[str, Any]) -> bool:
        """Whether a teacher is named, and is the student as it begins."""
        teacher, adapters = values["distillation.teacher"], ("distillation.teacher_adapter", "model.start_from")
        return bool(teacher) and teacher == values["model.base"] and not any(values[path] for path in adapters)

    def add_spec_errors(self, error: SpecError) -> None:
        """Put each error of the spec beside its field; what has no field goes to the top of the form."""
        for path, message in error.errors:
            name = self._field_for(path)
            if name in ("reward", "data.source", "distillation.teacher") and name in self.errors:
                continue  # the form has already said which choice is wrong
            self.add_error(name, plain(path, name, message))

    def _field_for(self, path: str) -> str | None:
        """The form's field for a path of the spec: itself, the nearest above it, or the first inside it."""
        above = path
        while above:
            if above in self.fields:
                return above
            above = above.rpartition(".")[0]
        return next((name for name in self.fields if path and name.startswith(f"{path}.")), None)

    def reward_json(self) -> Any:
        """The chosen reward, None where the recipe needs none. Raises ``ValueError`` with what is wrong."""
        chosen = self.value("reward")
        recipe = RECIPES.get(self.value("recipe"))
        by_itself = recipe and recipe.environments and self.value("environment.kind") not in ("", "single_turn")
        if recipe is None or recipe.reward == "unread" or by_itself or (recipe.reward == "optional" and not chosen):
            return None
        if not chosen:
            # Said here and not left to the spec, which looks at how its parts fit only once each part is right.
            raise ValueError("Choose a reward: this recipe learns from one.")
        if chosen == UNSAVED:
            try:
                return json.loads(self.value("reward_spec"))
            except ValueError:
                raise ValueError("The copied reward is gone; choose a saved one.") from None
        if self.reward_version is None:
            raise ValueError("This project has no such reward; choose one from the list.")
        return self.reward_version.spec

    def _name_of(self, values: dict[str, Any]) -> str:
        """A name for those who gave none: what it learns from, and how."""
        recipe = values.get("recipe") or "job"
        return f"{self.dataset.dataset.name[:180]}-{recipe}" if self.dataset else recipe

    @property
    def idempotency_key(self) -> str:
        """The same click twice is one job; the same page with other values is another."""
        assert self.task is not None
        content = f"{self.value('key')}:{self.task.model_dump_json()}:{self.value('reward')}"
        return f"form-{hashlib.sha256(content.encode()).hexdigest()}"

    # How it is shown.

    def shown(self, path: str) -> dict[str, Any]:
        """One field for a template: what it is (``field``), its value, what to choose from, and its errors."""
        field = spec_field(path)
        assert field is not None
        return {
            "field": field,
            "id": f"f-{path}",
            "value": self.value(path),
            "options": self._options(field),
            "errors": self.errors.get(path, []) if self.is_bound else [],
        }

    def _options(self, field: SpecField) -> list[tuple[str, str]]:
        """``(value, label)`` of a field that is chosen from a list; empty for one that is typed."""
        if field.path == "model.base":
            return [(model.name, f"{model.title} · {parameters(model.parameters)}") for model in self.base_models]
        if field.path in ("data.source", "evaluation.source"):
            first = "Choose a dataset" if field.path == "data.source" else "Rows held out of the training data"
            options = [("", first), *((row.source, dataset_label(row)) for row in self.datasets)]
            return options if field.path == "evaluation.source" else [*options, OWN_TASKS]
        if field.path in ("model.start_from", "distillation.teacher_adapter"):
            first = "The base model as it is" if field.path == "model.start_from" else "None"
            return [("", first), *self._adapters(self.value(field.path))]
        if field.path == "distillation.teacher":
            return [("", "The student's own base model"), *((model.name, model.title) for model in self.base_models)]
        if field.path.startswith("data.columns."):
            return column_options(self.dataset, field.path.rpartition(".")[2], self.value(field.path))
        if field.path == "resources.tier":
            return [(tier, TIERS.get(tier, tier)) for tier in field.choices]
        return [(choice, choice) for choice in field.choices]

    def _adapters(self, chosen: str) -> list[tuple[str, str]]:
        """The project's model versions, the newest first; a checkpoint that a copied job began with stays a choice."""
        rows = ModelVersion.objects.filter(model__project=self.project).select_related("model", "base_model")
        found = [(f"model:{row.model_id}@{row.number}", f"{row} · {row.base_model.title}") for row in rows[:100]]
        known = {value for value, _ in found}
        return [*found, *([(chosen, chosen)] if chosen and chosen not in known else [])]

    @property
    def basic(self) -> dict[str, dict[str, Any]]:
        """The open fields by path, dots as underscores so that a template can name them."""
        return {path.replace(".", "_"): self.shown(path) for path in BASIC}

    @cached_property
    def advanced(self) -> dict[str, list[dict[str, Any]]]:
        """The folded fields by section, each a list of groups: ``{"title", "fields"}``."""
        found: dict[str, list[dict[str, Any]]] = {section: [] for section in SECTIONS}
        for field in spec_fields():
            if field.path in BASIC:
                continue
            groups, title = found[section_of(field)], group_title(field)
            group = next((group for group in groups if group["title"] == title), None)
            if group is None:
                group = {"title": title, "fields": [], "errors": 0}
                groups.append(group)
            shown = self.shown(field.path)
            group["fields"].append(shown)
            group["errors"] += bool(shown["errors"])
        return found

    @property
    def recipes(self) -> list[tuple[str, str, str]]:
        """``(value, title, explanation)``"""
        return [(name, recipe.title, recipe.text) for name, recipe in RECIPES.items()]

    @property
    def rewarded(self) -> str:
        """The recipes that read a reward."""
        return " ".join(name for name, recipe in RECIPES.items() if recipe.reward != "unread")

    @property
    def losses(self) -> str:
        """JSON: the losses of each recipe, its own first."""
        return json.dumps({name: recipe.losses for name, recipe in RECIPES.items()})

    @property
    def suggested_name(self) -> str:
        return self._name_of({"recipe": self.value("recipe")})

    @property
    def reward_value(self) -> str:
        return str(self.value("reward"))

    @property
    def reward_options(self) -> list[tuple[str, str]]:
        unsaved = [(UNSAVED, "The reward that this task came with")] if self.value("reward_spec") else []
        return [("", "Choose a reward"), *unsaved, *((str(row.pk), str(row)) for row in self.rewards)]

    @property
    def sizes(self) -> list[dict[str, Any]]:
        return [{"size": size, "json": json.dumps(size.values), "on": size.key == self.value("size")} for size in SIZES]

    @property
    def size_is_custom(self) -> bool:
        return self.value("size") not in BY_KEY


def plain(path: str, name: str | None, message: str) -> str:
    """The spec's message as a sentence for a person who looks at the field ``name``."""
    field = spec_field(name) if name else None
    if field is not None and path == name:
        if message.startswith("field required"):
            return f"Choose a {field.label.lower()}."
        if message.startswith("input should be"):
            kind = {"integer": "a whole number", "number": "a number", "choice": "one of"}.get(field.control, "text")
            limits = ", ".join(field.choices) if field.choices else field.range_text
            return f"Must be {kind}{f' {limits}' if field.choices else f', {limits}' if limits else ''}."
    text = f"{message[:1].upper()}{message[1:]}"
    if name is None or not path.startswith(name):
        return f"{path}: {message}" if path and name is None else text
    rest = path.removeprefix(name).lstrip(".")
    return f"{rest}: {message}" if rest else text


def group_title(field: SpecField) -> str:
    """The heading of a group of folded fields: the part of the spec they stand in."""
    parents = field.path.split(".")[:-1]
    if not parents:
        return "Reproducing"
    titles = {
        "model": "Weights",
        "model.adapter": "Adapter (LoRA)",
        "data": "Rows",
        "environment": "Episodes",
        "loss": "Loss",
        "critic": "Value network",
        "distillation": "Teacher",
        "selection": "What is imitated",
        "sampling": "Sampling",
        "hyperparameters": "Optimizer",
        "evaluation": "Evaluation on held-out prompts",
        "checkpointing": "Checkpoints",
        "resources": "Devices",
    }
    path = ".".join(parents)
    return titles.get(path) or path.replace(".", " · ").replace("_", " ").capitalize()
