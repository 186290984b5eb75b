"""The task spec: the standard, versioned description of one training task.

It is the only thing that crosses from the algorithm side (form, REST, ``RLTask``) to the compute side. It names data
and a reward, never a node; everything in it is checked here, once, for every door. Unknown fields and impossible
values are refused with the path of the field (:class:`SpecError`).
"""

from __future__ import annotations

from trainers.rewards.spec import RewardSpec
from trainers.spec.errors import FieldError, SpecError, describe_error, field_path
from trainers.spec.learning import Critic, Distillation, Hyperparameters, Loss, LossName, Sampling, Selection
from trainers.spec.recipes import RECIPES, Recipe, RecipeName, read_by
from trainers.spec.sections import (
    DEFAULT_MODEL,
    ENVIRONMENT_SOURCE,
    Budget,
    Checkpointing,
    Columns,
    Data,
    Environment,
    EnvironmentName,
    Evaluation,
    Lora,
    Model,
    Resources,
    Section,
    Tier,
)
from trainers.spec.task import TaskSpec, json_schema, parse_spec

__all__ = [
    "DEFAULT_MODEL",
    "ENVIRONMENT_SOURCE",
    "RECIPES",
    "Budget",
    "Checkpointing",
    "Columns",
    "Critic",
    "Data",
    "Distillation",
    "Environment",
    "EnvironmentName",
    "Evaluation",
    "FieldError",
    "Hyperparameters",
    "Lora",
    "Loss",
    "LossName",
    "Model",
    "Recipe",
    "RecipeName",
    "Resources",
    "RewardSpec",
    "Sampling",
    "Section",
    "Selection",
    "SpecError",
    "TaskSpec",
    "Tier",
    "describe_error",
    "field_path",
    "json_schema",
    "parse_spec",
    "read_by",
]
