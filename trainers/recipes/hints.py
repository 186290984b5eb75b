"""Signs that a run goes wrong, told while it still runs: ``hint`` events with a code, a sentence and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainers.recipes.context import RunContext

WINDOW = 5  # steps that a sign must last
AGAIN = 25  # steps before the same hint is given again
TRUNCATED = 0.5
SILENT_GROUPS = 0.8
CLIPPED = 0.4
ENTROPY_LEFT = 0.1
MISMATCH = 0.1
ACCURACY_LOST = 0.05
REWARD_GAINED = 0.05
LENGTH_DRIFT = 2.0


class Watch:
    """Looks at the figures of each step and each evaluation. Deterministic, and part of a checkpoint."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._recent: dict[str, list[float]] = {}
        self._first: dict[str, float] = {}
        self._best: dict[str, float] | None = None
        self._given: dict[str, int] = {}

    def memory(self) -> dict[str, Any]:
        return {"recent": self._recent, "first": self._first, "best": self._best, "given": self._given}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self._recent, self._first = dict(memory["recent"]), dict(memory["first"])
        self._best, self._given = memory["best"], dict(memory["given"])

    def stepped(self, step: int, values: Mapping[str, float]) -> None:
        """The figures of a training step."""
        for name, value in values.items():
            if name.startswith("train/"):
                self._recent.setdefault(name, []).append(float(value))
                del self._recent[name][:-WINDOW]
                self._first.setdefault(name, float(value))
        self._about_sampling(step)
        self._about_update(step)

    def measured(self, step: int, values: Mapping[str, float]) -> None:
        """The figures of an evaluation: does what is rewarded still serve what is measured?"""
        accuracy, reward = values.get("eval/accuracy"), self._mean("train/reward")
        if accuracy is None:
            return
        length = values.get("eval/completion_tokens", 0.0)
        now = {"accuracy": float(accuracy), "reward": reward or 0.0, "length": float(length)}
        best = self._best
        if best is None or now["accuracy"] > best["accuracy"]:
            # Of the evaluation before training no rewards are known yet; the first step's stand in for them.
            self._best = now if reward is not None else now | {"reward": float("nan")}
            if best is None:
                return
        self._about_hacking(step, now, best or now)

    def _about_sampling(self, step: int) -> None:
        limit, group = self._ctx.spec.sampling.max_new_tokens, self._ctx.spec.sampling.group_size
        if (share := self._lasting("train/truncated")) is not None and share > TRUNCATED:
            self._give(
                step,
                "truncation",
                f"{share:.0%} of the completions were cut at {limit} tokens over the last {WINDOW} steps.",
                "Raise max_new_tokens, or turn on the overlong penalty so that the model learns to be brief.",
                "sampling.max_new_tokens",
            )
        groups = self._ctx.spec.hyperparameters.batch_size
        if (silent := self._lasting("train/zero_variance_groups")) is not None and silent > SILENT_GROUPS * groups:
            accuracy = self._mean("train/accuracy") or 0.0
            why = "nearly all completions are right" if accuracy > 0.5 else "nearly none is right"
            self._give(
                step,
                "zero_variance_groups",
                f"In {silent:.1f} of {groups} groups all completions earn the same, so they teach nothing: {why}.",
                "Use harder prompts, or stop here."
                if accuracy > 0.5
                else f"Use easier prompts, a reward with finer steps, or more than {group} completions per prompt.",
                "sampling.group_size",
            )

    def _about_update(self, step: int) -> None:
        if (clipped := self._lasting("train/clip_fraction")) is not None and clipped > CLIPPED:
            self._give(
                step,
                "clipping",
                f"{clipped:.0%} of the tokens were clipped over the last {WINDOW} steps: the policy moves too far.",
                "Lower the learning rate or the passes over each batch.",
                "hyperparameters.learning_rate",
            )
        entropy, first = self._lasting("train/entropy"), self._first.get("train/entropy", 0.0)
        if entropy is not None and first > 0 and entropy < ENTROPY_LEFT * first:
            self._give(
                step,
                "entropy",
                f"The model's choices have narrowed: entropy fell from {first:.2g} to {entropy:.2g} nats per token.",
                "If it still learns, leave it; else lower the learning rate, raise clip_high, or add a KL penalty.",
                "loss.clip_high",
            )
        mismatch, expected = self._lasting("train/logprob_mismatch"), self._ctx.spec.sampling.one_step_off_policy
        if mismatch is not None and mismatch > MISMATCH and not expected:
            self._give(
                step,
                "mismatch",
                f"Sampler and trainer disagree by {mismatch:.2g} nats per token on average.",
                "Train in float32, or set an importance cap.",
                "loss.importance_cap",
            )

    def _about_hacking(self, step: int, now: Mapping[str, float], best: Mapping[str, float]) -> None:
        start = self._first.get("train/reward", 0.0) if best["reward"] != best["reward"] else best["reward"]
        gained = now["reward"] > start + REWARD_GAINED * max(1.0, abs(start))
        if gained and now["accuracy"] < best["accuracy"] - ACCURACY_LOST:
            self._give(
                step,
                "reward_hacking",
                f"The reward rose from {start:.3g} to {now['reward']:.3g}, while held-out accuracy fell from "
                f"{best['accuracy']:.0%} to {now['accuracy']:.0%}.",
                "The model may have found a way to be rewarded without being right: read its latest completions.",
                "reward",
            )
        longer = now["length"] / best["length"] if best["length"] else 1.0
        drifted = longer > LENGTH_DRIFT or longer < 1 / LENGTH_DRIFT
        if gained and drifted and now["accuracy"] <= best["accuracy"]:
            self._give(
                step,
                "length_drift",
                f"Answers went from {best['length']:.0f} to {now['length']:.0f} tokens as the reward rose, "
                "without becoming more accurate.",
                "The reward may favor length itself: read completions, and add a length component or penalty.",
                "reward",
            )

    def _lasting(self, name: str) -> float | None:
        """The mean over the window once it is full."""
        values = self._recent.get(name, [])
        return sum(values) / WINDOW if len(values) == WINDOW else None

    def _mean(self, name: str) -> float | None:
        values = self._recent.get(name)
        return sum(values) / len(values) if values else None

    def _give(self, step: int, code: str, text: str, advice: str, field: str) -> None:
        if step - self._given.get(code, -AGAIN) < AGAIN:
            return
        self._given[code] = step
        self._ctx.emit("hint", step=step, code=code, text=text, advice=advice, field=field)
        self._ctx.emit("log", step=step, level="warning", text=f"{text} {advice}")
