"""Measuring a policy on held-out prompts: at the training temperature, and greedily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainers.engine.engine import Engine
from trainers.engine.sampler import SamplingParams
from trainers.recipes.acting import Actor
from trainers.recipes.chat import stop_tokens
from trainers.recipes.context import RunContext
from trainers.recipes.figures import mean, outcome_figures
from trainers.recipes.loop import Phase
from trainers.recipes.progress import Progress
from trainers.recipes.rollouts import Prompt, Rollout, Rollouts, emit_rollouts
from trainers.recipes.schedule import derived_seed

SHOWN = 256  # rollouts put into the journal per evaluation and temperature


class Evaluator:
    """Evaluates one actor again and again on the same prompts, with the same random numbers each time."""

    def __init__(
        self,
        ctx: RunContext,
        engine: Engine,
        prompts: Sequence[Prompt],
        actor: Actor,
        progress: Progress,
    ) -> None:
        self.ctx, self.engine = ctx, engine
        self.prompts, self.actor, self.progress = prompts, actor, progress

    def run(self, step: int, phase: Phase) -> tuple[dict[str, Any], int]:
        """Metrics by the journal's keys (``eval/…``), to be put into the journal by the caller, and tokens sampled.

        The metrics also hold ``summary``: what the run's result says of them.
        """
        settings, sampling = self.ctx.spec.evaluation, self.ctx.spec.sampling
        count = settings.samples_per_prompt
        if phase != "eval" and settings.final_samples_per_prompt:
            count = settings.final_samples_per_prompt
        with self.progress.stage("evaluation", "evaluating", step):
            share = count / (count + settings.greedy)
            self.progress.phase("evaluating", 0.0, share)
            sampled = self._roll_out(
                step,
                phase,
                SamplingParams(
                    max_tokens=sampling.max_new_tokens,
                    n=count,
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    stop_tokens=stop_tokens(self.engine),
                    seed=derived_seed(self.ctx.spec.seed, "evaluation", 0),
                ),
            )
            values, tokens = outcome_figures(sampled, "eval"), sampled.tokens
            if settings.greedy:
                self.progress.phase("evaluating", share, 1.0)
                greedy = self._roll_out(
                    step,
                    phase,
                    SamplingParams(
                        max_tokens=sampling.max_new_tokens,
                        temperature=0.0,
                        stop_tokens=stop_tokens(self.engine),
                        seed=0,
                    ),
                )
                values["eval/accuracy_greedy"] = mean([rollout.score.accurate for rollout in greedy.flat])
                values["eval/reward_greedy"] = mean([rollout.score.reward for rollout in greedy.flat])
                tokens += greedy.tokens
        return {**values, "summary": _summary(values, len(sampled.flat))}, tokens

    def _roll_out(self, step: int, phase: Phase, params: SamplingParams) -> Rollouts:
        rollouts = self.actor.roll_out(self.prompts, params)
        shown, greedy = _some(rollouts.groups), params.temperature == 0
        emit_rollouts(self.ctx, shown, step=step, phase=phase, greedy=greedy)
        count, whole = sum(len(group) for group in shown), len(rollouts.flat)
        if count < whole:
            text = f"Evaluation: {count} of {whole} completions are listed; all of them count in the figures."
            self.ctx.emit("log", step=step, level="info", text=text)
        return rollouts


def _some(groups: Sequence[Sequence[Rollout]]) -> list[list[Rollout]]:
    """At most ``SHOWN`` rollouts: as many prompts as possible, then as many completions of each as fit."""
    prompts = list(groups)[:SHOWN]
    each = max(1, SHOWN // max(1, len(prompts)))
    return [list(group[:each]) for group in prompts]


def _summary(values: dict[str, Any], samples: int) -> dict[str, Any]:
    """``before`` or ``after`` of a run's result; ``samples`` counts completions at the training temperature."""
    return {
        "accuracy": values["eval/accuracy"],
        "reward": values["eval/reward"],
        "accuracy_greedy": values.get("eval/accuracy_greedy"),
        "samples": samples,
    }
