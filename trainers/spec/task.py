"""The task spec whole, and the checks over several of its parts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from trainers.rewards.spec import RewardSpec
from trainers.spec.errors import FieldError, SpecError, describe_error
from trainers.spec.expression import ExpressionError, parse_expression
from trainers.spec.learning import Critic, Distillation, Hyperparameters, Loss, Sampling, Selection
from trainers.spec.recipes import RECIPES, RecipeName, read_by
from trainers.spec.sections import (
    ENVIRONMENT_SOURCE,
    Budget,
    Checkpointing,
    Data,
    Environment,
    Evaluation,
    Model,
    Resources,
    Section,
)


class TaskSpec(Section):
    """One training task. See docs/task-spec.md for every field, and ``task-spec.schema.json`` for programs."""

    version: Literal[1] = 1
    name: str = Field("training", min_length=1, max_length=200, description="How the job is called on every page.")
    recipe: RecipeName = Field(
        description="The algorithm's loop: sft (imitate answers), grpo and ppo_critic (learn from rewards), dpo (learn "
        "from pairs), distill (learn from a teacher), best_of_n (imitate its own best), evaluate (only measure)."
    )
    model: Model = Field(default_factory=Model)
    data: Data
    environment: Environment = Field(default_factory=Environment)
    reward: RewardSpec | None = Field(None, description="How a completion is scored; needed where nothing else scores.")
    loss: Loss = Field(default_factory=Loss)
    sampling: Sampling = Field(default_factory=Sampling)
    hyperparameters: Hyperparameters = Field(default_factory=Hyperparameters)
    critic: Critic = Field(default_factory=Critic)
    distillation: Distillation = Field(default_factory=Distillation)
    selection: Selection = Field(default_factory=Selection)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    checkpointing: Checkpointing = Field(default_factory=Checkpointing)
    resources: Resources = Field(default_factory=Resources)
    budget: Budget = Field(default_factory=Budget)
    seed: int = Field(0, ge=0, lt=2**63, description="Same seed, plan and threads: same bits.")

    @model_validator(mode="before")
    @classmethod
    def _loss_follows_recipe(cls, value: Any) -> Any:
        """A loss without a name is the recipe's own; the default of the section belongs to grpo."""
        if not isinstance(value, dict):
            return value
        recipe, loss = RECIPES.get(str(value.get("recipe"))), value.get("loss") or {}
        if recipe is None or not recipe.losses or not isinstance(loss, dict) or "name" in loss:
            return value
        return {**value, "loss": {**loss, "name": recipe.losses[0]}}

    @model_validator(mode="after")
    def _parts_fit_together(self) -> TaskSpec:
        _check_reward(self)
        _check_loss(self)
        _check_sampling(self)
        _check_steps(self)
        if self.model.adapter.kind == "full" and self.model.start_from:
            raise FieldError("model.start_from", "is an adapter to go on from; with all weights trained, leave it out")
        return self


def parse_spec(value: Any) -> TaskSpec:
    """Check a JSON-like value and return the spec.

    Raises :class:`SpecError` with the dotted path of every field that is wrong (``hyperparameters.learning_rate``).
    """
    try:
        return TaskSpec.model_validate(value)
    except ValidationError as error:
        raise SpecError([describe_error(item) for item in error.errors()]) from error


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the task spec, as exported to docs/task-spec.schema.json."""
    return TaskSpec.model_json_schema()


def _check_reward(task: TaskSpec) -> None:
    recipe, kind = RECIPES[task.recipe], task.environment.kind
    if kind != "single_turn":
        if not recipe.environments:
            raise FieldError("environment.kind", f"the {task.recipe} recipe knows single_turn only")
        if task.reward is not None:
            raise FieldError("reward", f"the environment {kind} rewards by itself; leave the reward out")
    elif task.data.source == ENVIRONMENT_SOURCE:
        raise FieldError("data.source", "only an environment that makes its own tasks needs no dataset; choose one")
    elif recipe.reward == "needed" and task.reward is None:
        verb = "measures by" if task.recipe == "evaluate" else "learns from"
        raise FieldError("reward", f"the {task.recipe} recipe {verb} a reward; choose one")


def _check_loss(task: TaskSpec) -> None:
    name, losses = task.loss.name, RECIPES[task.recipe].losses
    if losses and name not in losses:
        if name == "cross_entropy":
            message = "cross_entropy imitates answers; use the sft recipe, or a policy loss such as ppo"
            raise FieldError("loss.name", message if "ppo" in losses else f"{message.split(';')[0]}; use {losses[0]}")
        other = next((recipe for recipe, info in RECIPES.items() if name in info.losses), "grpo")
        raise FieldError(
            "loss.name", f"the {task.recipe} recipe trains with {_or(losses)}; {name} needs the {other} recipe"
        )
    if name == "custom":
        if not task.loss.expression:
            raise FieldError("loss.expression", "write the loss, such as -ratio * advantages")
        try:
            parse_expression(task.loss.expression)
        except ExpressionError as error:
            raise FieldError("loss.expression", str(error)) from error


def _or(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _check_sampling(task: TaskSpec) -> None:
    sampling = task.sampling
    if sampling.group_size < 2 and task.recipe in ("grpo", "best_of_n"):
        raise FieldError("sampling.group_size", "needs at least 2 completions per prompt: they are compared")
    shaped = task.recipe in read_by("sampling.overlong_tokens") and sampling.overlong_tokens
    if shaped and sampling.overlong_tokens >= sampling.max_new_tokens:
        raise FieldError(
            "sampling.overlong_tokens", f"must be below max_new_tokens ({sampling.max_new_tokens}): it is its last part"
        )
    if task.recipe == "grpo" and sampling.dynamic_rounds and sampling.one_step_off_policy:
        raise FieldError("sampling.dynamic_rounds", "cannot be combined with one_step_off_policy; choose one of them")
    if task.recipe == "best_of_n" and task.selection.keep >= sampling.group_size:
        raise FieldError(
            "selection.keep", f"must be below the group size ({sampling.group_size}), or nothing is chosen"
        )


def _check_steps(task: TaskSpec) -> None:
    steps, warmup = task.hyperparameters.steps, task.hyperparameters.warmup_steps
    if steps is not None and warmup >= steps and task.recipe != "evaluate":
        raise FieldError(
            "hyperparameters.warmup_steps", f"warm-up of {warmup} steps leaves nothing of {steps} steps to train"
        )
    splits = task.recipe in read_by("hyperparameters.minibatches")
    if splits and task.hyperparameters.minibatches > task.hyperparameters.batch_size:
        raise FieldError(
            "hyperparameters.minibatches",
            f"cannot exceed batch_size ({task.hyperparameters.batch_size}): each part needs a prompt",
        )
    if task.recipe == "evaluate" and task.evaluation.prompts == 0:
        raise FieldError("evaluation.prompts", "must be at least 1: the evaluate recipe does nothing but measure")
    teacher = task.distillation.teacher or task.distillation.teacher_adapter
    if task.recipe == "distill" and not teacher and not task.model.start_from:
        raise FieldError("distillation.teacher", "name a base model that teaches, or an adapter for the student's own")
    if task.recipe == "ppo_critic" and steps is not None and task.critic.warmup_steps >= steps:
        raise FieldError(
            "critic.warmup_steps",
            f"{task.critic.warmup_steps} steps for the critic alone leave nothing of {steps} steps",
        )
