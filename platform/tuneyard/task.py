"""``RLTask``: what to train on, how it is rewarded, and a few dials. It becomes a task spec."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tuneyard import fields
from tuneyard.errors import TaskError
from tuneyard.rewards import REGISTERED, reward_spec

SPEC_VERSION = 1
DATASET = "dataset:"
OWN_TASKS = "environment"
SINGLE_TURN = "single_turn"
HELD_OUT_PROMPTS = 64


@dataclass
class RLTask:
    """One training task.

    ``env_config`` names the data (``dataset_path``: a local file, uploaded when the task is submitted, or a registered
    ``dataset:<id>@<version>``) and how an episode runs; an environment (``kind``) makes its own tasks where no data is
    named. ``loss_fn="cross_entropy"`` imitates the answers of the data (recipe ``sft``); ``dpo``, ``ipo`` and ``kto``
    learn from pairs (recipe ``dpo``); any other loss learns from ``reward`` (recipe ``grpo``). Without a loss, a task
    with a reward uses ``ppo`` and one without uses ``cross_entropy``. ``recipe`` chooses another one.

    ``reward`` is a name (``"numeric"``, ``"exact"``), a component (``{"kind": "length", "maximum": 200}``), a list of
    them, a Python function of any of ``prompt, completion, answer, row``, or a registered ``reward:<id>@<version>``.

    Everything is checked when the task is made, as far as that is possible without the server: :class:`TaskError`
    names the argument.
    """

    env_config: Mapping[str, Any] | str | PathLike[str]
    loss_fn: str | Mapping[str, Any] | None = None
    hyperparams: Mapping[str, Any] = field(default_factory=dict)
    reward: Any = None
    model: str | Mapping[str, Any] | None = None
    name: str | None = None
    recipe: str | None = None
    evaluation: Mapping[str, Any] | int | bool | None = None
    resources: Mapping[str, Any] | str | None = None
    budget: Mapping[str, Any] | float | None = None
    checkpointing: Mapping[str, Any] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self._built = self._build()

    def to_spec(self, *, rows: int | None = None) -> dict[str, Any]:
        """The task spec as JSON-like values; settings that were left empty are left to the server.

        ``rows`` is the number of usable rows of the dataset, needed only to turn ``epochs`` into steps.
        """
        self._built = self._build()
        spec = copy.deepcopy(self._built)
        epochs = spec.pop("epochs", None)
        if epochs is not None and epochs != 1:
            hyperparameters = spec.setdefault("hyperparameters", {})
            hyperparameters["steps"] = self._steps(spec, epochs, rows)
        return spec

    @property
    def source(self) -> str:
        """The dataset: a local path or ``dataset:<id>@<version>``."""
        return str(self._built["data"]["source"])

    @property
    def columns(self) -> Any:
        """Which column plays which part, where the task says so."""
        return self._built["data"].get("columns")

    @property
    def registered_reward(self) -> str | None:
        """``reward:<id>@<version>`` when the reward is one that the server already has."""
        if isinstance(self.reward, str) and self.reward.startswith(REGISTERED):
            return self.reward
        return None

    def _build(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"version": SPEC_VERSION}
        env = self.env_config
        fields.merge(
            spec,
            "env_config",
            env if isinstance(env, Mapping) else {"dataset_path": fspath(env)},
            fields.ENV_CONFIG,
        )
        kind = spec.get("environment", {}).get("kind", SINGLE_TURN)
        if kind != SINGLE_TURN and "source" not in spec.get("data", {}):
            fields.put(spec, "data.source", OWN_TASKS, "env_config.kind")
        source = spec.get("data", {}).get("source")
        if not isinstance(source, str) or not source.strip():
            raise TaskError(
                "env_config.dataset_path", "is missing: name a file, or a registered dataset:<id>@<version>"
            )
        fields.merge(spec, "hyperparams", self.hyperparams, fields.HYPERPARAMS)
        self._put_loss(spec)
        self._put_model(spec)
        self._put_evaluation(spec)
        self._put_resources(spec)
        if self.checkpointing is not None:
            fields.merge(spec, "checkpointing", self.checkpointing, fields.CHECKPOINTING)
        if self.budget is not None:
            budget = self.budget if isinstance(self.budget, Mapping) else {"amount": str(self.budget)}
            fields.merge(spec, "budget", budget, fields.BUDGET)
        if self.seed is not None:
            fields.put(spec, "seed", fields.plain(self.seed, "seed"), "seed")
        self._check_epochs(spec)
        spec["name"] = self.name or self._default_name(spec)
        return spec

    def _put_loss(self, spec: dict[str, Any]) -> None:
        recipe = self.recipe
        if recipe is not None and recipe not in fields.RECIPES:
            raise fields.unknown("recipe", recipe, fields.RECIPES)
        loss = self._chosen_loss(spec)
        plays = spec.get("environment", {}).get("kind", SINGLE_TURN) != SINGLE_TURN
        if loss is None and recipe is None:
            loss = "cross_entropy" if self.reward is None and not plays else "ppo"
        if loss is not None:
            recipe = recipe or _recipe_of(loss)
        assert recipe is not None
        own = fields.RECIPES[recipe]
        loss = loss or next(iter(own), None)
        if loss is not None and loss not in own:
            words = f"{recipe} means {' or '.join(own)}" if own else f"{recipe} reads no loss"
            raise TaskError("loss_fn", f"{loss} does not belong to the recipe {recipe}: {words}")
        if loss is not None:
            fields.put(spec, "loss.name", loss, "loss_fn")
        spec["recipe"] = recipe
        if self.reward is not None and self.registered_reward is None:
            spec["reward"] = reward_spec(self.reward)
        elif self.reward is None and recipe in fields.NEEDS_REWARD and not plays:
            raise TaskError(
                "reward", f"{loss or recipe} learns from a reward; pass one, such as reward='numeric' or a function"
            )

    def _chosen_loss(self, spec: dict[str, Any]) -> str | None:
        if isinstance(self.loss_fn, Mapping):
            fields.merge(spec, "loss_fn", self.loss_fn, fields.LOSS)
            if "name" not in spec["loss"]:
                raise TaskError("loss_fn", "needs a 'name'")
            loss = spec["loss"]["name"]
        else:
            loss = self.loss_fn
        if loss is not None and loss not in fields.LOSSES:
            raise fields.unknown("loss_fn", loss, fields.LOSSES)
        return loss

    def _put_model(self, spec: dict[str, Any]) -> None:
        if self.model is not None:
            model = {"base": self.model} if isinstance(self.model, str) else self.model
            fields.merge(spec, "model", model, fields.MODEL)

    def _put_evaluation(self, spec: dict[str, Any]) -> None:
        value = self.evaluation
        if value is None or value is True:
            return
        if value is False:
            value = {"prompts": 0}
        elif isinstance(value, int):
            value = {"prompts": value}
        fields.merge(spec, "evaluation", value, fields.EVALUATION)

    def _put_resources(self, spec: dict[str, Any]) -> None:
        value = self.resources
        if value is None:
            return
        fields.merge(spec, "resources", {"tier": value} if isinstance(value, str) else value, fields.RESOURCES)
        for word, device in (("gpus", "gpu"), ("cpus", "cpu")):
            count = spec.pop(word, None)
            if count is not None:
                fields.put(spec, "resources.device", device, f"resources.{word}")
                fields.put(spec, "resources.devices", count, f"resources.{word}")

    def _check_epochs(self, spec: dict[str, Any]) -> None:
        epochs = spec.get("epochs")
        if epochs is None:
            return
        if isinstance(epochs, bool) or not isinstance(epochs, (int, float)) or epochs <= 0:
            raise TaskError("hyperparams.epochs", f"must be a number above 0, not {epochs!r}")
        if spec.get("hyperparameters", {}).get("steps") is not None:
            raise TaskError("hyperparams.epochs", "give either epochs or steps; both say how long to train")

    def _steps(self, spec: dict[str, Any], epochs: float, rows: int | None) -> int:
        if rows is None:
            raise TaskError(
                "hyperparams.epochs", "becomes a number of steps once the rows are counted: pass rows, or give steps"
            )
        return steps_of_epochs(spec, epochs, rows)

    def _default_name(self, spec: dict[str, Any]) -> str:
        source = str(spec["data"]["source"])
        what = "dataset" if source.startswith(DATASET) else Path(source).stem
        return f"{what or 'training'} {spec['recipe']}"[:200]


def _recipe_of(loss: str) -> str:
    """The recipe that a loss alone means: the first that it belongs to."""
    return next(recipe for recipe, losses in fields.RECIPES.items() if loss in losses)


def steps_of_epochs(spec: Mapping[str, Any], epochs: float, rows: int) -> int:
    """Optimizer steps of ``epochs`` passes over the rows that are not held out for evaluation."""
    evaluation = spec.get("evaluation", {})
    limit = spec.get("data", {}).get("limit")
    usable = min(rows, int(limit)) if limit else rows
    # The server holds out this many rows, and never more than half.
    wanted = 0 if evaluation.get("source") else int(evaluation.get("prompts", HELD_OUT_PROMPTS))
    training = max(usable - min(wanted, usable // 2), 1)
    batch = int(spec.get("hyperparameters", {}).get("batch_size", 8))
    return max(1, math.ceil(epochs * training / batch))
