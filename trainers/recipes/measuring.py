"""Only measuring: the model answers the held-out prompts, the reward scores them, and nothing is trained."""

from __future__ import annotations

from typing import Any

from trainers.recipes.evaluate import Evaluator
from trainers.recipes.meters import Meter
from trainers.recipes.policy_loop import fitting_prompts, make_actor
from trainers.recipes.progress import Progress
from trainers.recipes.setup import Setup


class EvaluateRun:
    """One run of the ``evaluate`` recipe. Its result has no ``before``, and no checkpoint is published."""

    def __init__(self, setup: Setup) -> None:
        self.ctx = setup.ctx
        wanted = setup.eval_rows[: self.ctx.spec.evaluation.prompts]
        prompts = fitting_prompts(setup, wanted, "held-out")
        self.progress = Progress(self.ctx, 0, {"evaluation": 1})
        setup.engine.pulse.listener = self.progress.pulse
        self.evaluator = Evaluator(self.ctx, setup.engine, prompts, make_actor(setup), self.progress)
        self.meter = Meter(self.ctx, setup.engine, setup.adapter, self.progress)

    def run(self) -> dict[str, Any]:
        with self.progress.nothing_to_lose():
            values, tokens = self.evaluator.run(0, "after")
        self.meter.tokens += tokens
        summary = values.pop("summary")
        self.meter.emit(0, values)
        self.progress.finish()
        return {
            "before": None,
            "after": summary,
            "steps": 0,
            "tokens": self.meter.tokens,
            "train_seconds": 0.0,
            "eval_prompts": len(self.evaluator.prompts),
        }
