"""Group-relative policy optimisation: sample groups, score them, push up what did better than its group.

Source: GRPO, arXiv:2402.03300, with the loss of your choice from ``trainers.losses``. The loss is averaged over all
completion tokens of the batch (as in DAPO, arXiv:2503.14476, eq. 8), so long answers do not count less per token.
Groups whose completions all earn the same reward teach nothing: they are counted, and not computed at all unless the
KL penalty needs them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trainers.engine.batch import Datum, StepOutput
from trainers.engine.engine import Engine
from trainers.engine.optimizer import AdamParams
from trainers.engine.sampler import SamplingParams
from trainers.errors import RunError
from trainers.losses import LOSSES, Loss, kl_estimate, with_kl
from trainers.recipes.advantages import group_advantages
from trainers.recipes.chat import stop_tokens
from trainers.recipes.checkpoints import Checkpointer
from trainers.recipes.context import Row, RunContext, Scorer
from trainers.recipes.evaluate import Evaluator, summary
from trainers.recipes.meters import Meter
from trainers.recipes.progress import Progress
from trainers.recipes.rollouts import Prompt, Rollouts, emit_rollouts, make_prompts, roll_out
from trainers.recipes.schedule import batch_rows, derived_seed, learning_rate, total_steps

_SAMPLING_SHARE = 0.35  # of a step's time, for the progress bar only


@dataclass(frozen=True)
class Update:
    """What the optimizer steps on one batch of rollouts came to."""

    outputs: list[StepOutput]
    grad_norm: float
    zero_variance_groups: int
    kl: float | None


class GrpoRun:
    """One run of the recipe on a loaded engine."""

    def __init__(
        self,
        ctx: RunContext,
        engine: Engine,
        adapter: str,
        *,
        train_rows: Sequence[Row],
        eval_rows: Sequence[Row],
        scorer: Scorer,
    ) -> None:
        self.ctx, self.engine, self.adapter, self.scorer = ctx, engine, adapter, scorer
        spec = ctx.spec
        self.prompts = self._fitting(train_rows, "training")
        held_out = self._fitting(eval_rows[: spec.evaluation.prompts], "held-out") if spec.evaluation.prompts else []
        self.steps = total_steps(spec.hyperparameters, len(self.prompts))
        every = spec.evaluation.every_steps
        between = (self.steps - 1) // every if every else 0
        evaluations = 2 + between if held_out else 0
        self.progress = Progress(ctx, self.steps, {"step": self.steps, "evaluation": evaluations, "export": 1})
        engine.pulse.listener = self.progress.pulse
        self.evaluator = Evaluator(ctx, engine, adapter, held_out, scorer, self.progress) if held_out else None
        self.checkpointer = Checkpointer(ctx, engine, adapter)
        self.meter = Meter(ctx, self.progress)
        self.loss, self.loss_config = _loss(spec.loss)

    def run(self) -> dict[str, Any]:
        """Train to the end; returns the result of the run."""
        before = self._evaluate(0, "before")
        train_s = 0.0
        for step in range(1, self.steps + 1):
            begun = time.monotonic()
            with self.progress.stage("step", "sampling", step):
                values = self._step(step)
            train_s += time.monotonic() - begun
            self.meter.emit(step, values)
            if self._evaluation_due(step):
                self._evaluate(step, "eval")
            if step < self.steps:
                self.checkpointer.after_step(step, tokens=self.meter.tokens, active_s=self.progress.active_s)
        after = self._evaluate(self.steps, "after")
        with self.progress.stage("export", "exporting", self.steps):
            self.checkpointer.final(self.steps)
        self.progress.finish()
        return {
            "before": summary(before),
            "after": summary(after),
            "steps": self.steps,
            "tokens": self.meter.tokens,
            "train_seconds": round(train_s, 3),
            "eval_prompts": len(self.evaluator.prompts) if self.evaluator else 0,
        }

    def _step(self, step: int) -> dict[str, float]:
        spec, begun = self.ctx.spec, time.monotonic()
        rows = batch_rows(
            step, spec.hyperparameters.batch_size, len(self.prompts), seed=spec.seed, shuffle=spec.data.shuffle
        )
        self.progress.phase("sampling", 0.0, _SAMPLING_SHARE)
        rollouts = roll_out(
            self.engine, self.adapter, [self.prompts[i] for i in rows], self._sampling(step), self.scorer
        )
        emit_rollouts(self.ctx, rollouts.groups, step=step, phase="train", greedy=False)
        training = time.monotonic()
        update = self._update(step, rollouts)
        now = time.monotonic()
        self.meter.tokens += rollouts.tokens + sum(output.tokens for output in update.outputs)
        values = _rollout_metrics(rollouts) | _update_metrics(update)
        values["train/learning_rate"] = self._rate(step)
        return values | {
            "system/step_s": now - begun,
            "system/sample_s": rollouts.sample_s,
            "system/reward_s": rollouts.reward_s,
            "system/train_s": now - training,
            "system/sample_tokens_per_s": rollouts.tokens / max(rollouts.sample_s, 1e-9),
            "system/train_tokens_per_s": sum(output.tokens for output in update.outputs) / max(now - training, 1e-9),
        }

    def _sampling(self, step: int) -> SamplingParams:
        sampling = self.ctx.spec.sampling
        return SamplingParams(
            max_tokens=sampling.max_new_tokens,
            n=sampling.group_size,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            stop_tokens=stop_tokens(self.engine),
            seed=derived_seed(self.ctx.spec.seed, "rollouts", step),
            logprob_temperature=sampling.temperature,
        )

    def _update(self, step: int, rollouts: Rollouts) -> Update:
        spec = self.ctx.spec
        hyper, temperature = spec.hyperparameters, spec.sampling.temperature
        penalty = spec.loss.kl_coefficient
        data, silent = _training_data(rollouts, hyper.advantage, everything=penalty > 0)
        loss, config = self.loss, dict(self.loss_config)
        if "beta" in config:
            config["beta"] /= rollouts.tokens
        parts = hyper.updates_per_batch
        self.progress.phase("training", _SAMPLING_SHARE, 1.0)
        kl = None
        if penalty > 0:
            data, kl = self._with_reference(data)
            loss = with_kl(loss, penalty / rollouts.tokens)
        elif self._evaluation_due(step) or step in (1, self.steps):
            everything, _ = _training_data(rollouts, hyper.advantage, everything=True)
            _, kl = self._with_reference(everything)
        outputs: list[StepOutput] = []
        norms = [0.0]
        for part in range(parts if data else 0):
            start = _SAMPLING_SHARE + (1 - _SAMPLING_SHARE) * part / parts
            self.progress.phase("training", start, start + (1 - _SAMPLING_SHARE) / parts)
            outputs.append(self.engine.forward_backward(self.adapter, data, loss, config, temperature=temperature))
            norms.append(self.engine.optim_step(self.adapter, self._adam(step))["grad_norm"])
        return Update(outputs, norms[-1], silent, kl)

    def _with_reference(self, data: list[Datum]) -> tuple[list[Datum], float]:
        """The data with the base model's log-probabilities, and the mean KL estimate of the policy that sampled."""
        reference = self.engine.logprobs(None, data, temperature=self.ctx.spec.sampling.temperature)
        policy = torch.tensor([value for datum in data for value in datum.arrays["logprobs"]])
        kl = float(kl_estimate(policy, torch.cat(reference).float().cpu()).mean())
        return [
            Datum(datum.tokens, datum.targets, {**datum.arrays, "reference_logprobs": values.tolist()})
            for datum, values in zip(data, reference, strict=True)
        ], kl

    def _adam(self, step: int) -> AdamParams:
        hyper = self.ctx.spec.hyperparameters
        return AdamParams(
            self._rate(step), hyper.beta1, hyper.beta2, hyper.eps, hyper.weight_decay, hyper.grad_clip_norm
        )

    def _rate(self, step: int) -> float:
        return learning_rate(self.ctx.spec.hyperparameters, step, self.steps)

    def _evaluation_due(self, step: int) -> bool:
        every = self.ctx.spec.evaluation.every_steps
        return bool(self.evaluator and every and step % every == 0 and step < self.steps)

    def _evaluate(self, step: int, phase: Any) -> dict[str, Any] | None:
        if self.evaluator is None:
            return None
        sampled_before = self.evaluator.tokens
        values = self.evaluator.run(step, phase)
        self.meter.tokens += self.evaluator.tokens - sampled_before
        self.meter.emit(step, {key: value for key, value in values.items() if key != "samples"})
        return values

    def _fitting(self, rows: Sequence[Row], what: str) -> list[Prompt]:
        spec = self.ctx.spec
        room = getattr(self.engine.config, "max_position_embeddings", 10**9) - spec.sampling.max_new_tokens
        longest = min(spec.hyperparameters.max_prompt_tokens, room)
        prompts, left_out = make_prompts(self.engine, rows, longest)
        if left_out:
            text = f"{left_out} of {len(rows)} {what} prompts are longer than {longest} tokens and were left out."
            self.ctx.emit("log", level="warning", text=text)
        if not prompts:
            raise RunError(
                "bad_data",
                f"No {what} prompt is left: all {len(rows)} are longer than {longest} tokens."
                if rows
                else f"There is no {what} prompt.",
                "Raise max_prompt_tokens, lower max_new_tokens, or use shorter prompts."
                if rows
                else "Use a dataset with more rows, or turn evaluation off.",
                "hyperparameters.max_prompt_tokens" if rows else "data.source",
            )
        return prompts


def _loss(settings: Any) -> tuple[Loss, dict[str, float]]:
    loss = LOSSES[settings.name]
    given = {"clip_low_threshold": settings.clip_low, "clip_high_threshold": settings.clip_high, "beta": settings.beta}
    return loss, {name: given[name] for name in loss.defaults}


def _training_data(rollouts: Rollouts, advantage: Any, *, everything: bool) -> tuple[list[Datum], int]:
    """Datums with advantages averaged over the batch's tokens, and the number of groups without any difference."""
    data, silent, scale = [], 0, 1 / rollouts.tokens
    for group in rollouts.groups:
        advantages = group_advantages([rollout.score.reward for rollout in group], advantage)
        silent += not any(advantages)
        if not any(advantages) and not everything:
            continue
        for rollout, value in zip(group, advantages, strict=True):
            if value == 0 and not everything:
                continue
            tokens = rollout.completion.tokens
            arrays = {"logprobs": rollout.completion.logprobs, "advantages": [value * scale] * len(tokens)}
            data.append(Datum([*rollout.prompt.tokens, *tokens[:-1]], tokens, arrays))
    return data, silent


def _rollout_metrics(rollouts: Rollouts) -> dict[str, float]:
    flat = rollouts.flat
    rewards = torch.tensor([rollout.score.reward for rollout in flat], dtype=torch.float64)
    lengths = [len(rollout.completion.tokens) for rollout in flat]
    values = {
        "train/reward": float(rewards.mean()),
        "train/reward_std": float(rewards.std(correction=0)),
        "train/accuracy": sum(rollout.score.accurate for rollout in flat) / len(flat),
        "train/completion_tokens": sum(lengths) / len(flat),
        "train/completion_tokens_max": float(max(lengths)),
        "train/truncated": sum(not rollout.completion.stopped for rollout in flat) / len(flat),
        "train/prompt_tokens": sum(len(group[0].prompt.tokens) for group in rollouts.groups) / len(rollouts.groups),
        "train/entropy": sum(sum(rollout.completion.entropies) for rollout in flat) / rollouts.tokens,
    }
    for name in flat[0].score.parts:
        values[f"reward/{name}"] = sum(rollout.score.parts.get(name, 0.0) for rollout in flat) / len(flat)
    return values


def _update_metrics(update: Update) -> dict[str, float]:
    values = {
        "train/grad_norm": update.grad_norm,
        "train/zero_variance_groups": float(update.zero_variance_groups),
        "train/loss": sum(output.loss for output in update.outputs) / max(1, len(update.outputs)),
    }
    if update.kl is not None:
        values["train/kl"] = update.kl
    tokens = sum(output.sums["policy_tokens"] for output in update.outputs)
    if tokens:
        values["train/ratio"] = sum(output.sums["ratio"] for output in update.outputs) / tokens
        values["train/clip_fraction"] = sum(output.sums["clipped"] for output in update.outputs) / tokens
        first = update.outputs[0].sums
        values["train/logprob_mismatch"] = first["mismatch"] / max(1.0, first["policy_tokens"])
    return values
