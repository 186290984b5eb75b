"""Group-relative policy optimisation: sample groups, score them, push up what did better than its group.

Source: GRPO, arXiv:2402.03300, with the loss of your choice from ``trainers.losses`` and the field's later switches,
each named where it is made: the advantage (RLOO, Dr. GRPO), the average (DAPO, Dr. GRPO), dynamic sampling and overlong
shaping (DAPO), minibatches and several passes (PPO), and batches that are one step old. Groups whose completions all
earn the same reward teach nothing: they are counted, and not computed at all unless a KL penalty needs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainers.recipes.advantages import group_advantages
from trainers.recipes.figures import update_figures
from trainers.recipes.policy_data import Sample
from trainers.recipes.policy_loop import PolicyLoop, Update, policy_loss
from trainers.recipes.rollouts import Rollout, Rollouts, rollouts_from_json, rollouts_to_json
from trainers.recipes.setup import Setup
from trainers.recipes.shaping import shaped_rewards, summed_log_ratio


class GrpoRun(PolicyLoop):
    """One run of the recipe on a loaded engine."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.loss, self.loss_config = policy_loss(self.ctx.spec.loss)
        self._waiting: Rollouts | None = None

    def learn(self, step: int, rollouts: Rollouts) -> tuple[dict[str, float], Update]:
        samples, values = self._samples(step, rollouts)
        spec = self.ctx.spec
        self.add_proximal(samples)
        everything = spec.loss.kl_coefficient > 0 and spec.loss.kl_in == "loss"
        update = self.optimize(step, samples, self.loss, self.loss_config, everything=everything)
        values |= update_figures(update.outputs, update.grad_norm) | self._off_policy_figures(samples)
        return values, update

    def memory(self) -> dict[str, Any]:
        return {"waiting": None if self._waiting is None else rollouts_to_json(self._waiting)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        waiting = memory["waiting"]
        self._waiting = None if waiting is None else rollouts_from_json(waiting, self.prompts)

    def batch(self, step: int) -> tuple[Rollouts, dict[str, float]]:
        spec = self.ctx.spec
        if spec.sampling.one_step_off_policy:
            # What this step trains on was sampled before the last update; the next step's is sampled before this one.
            ready = self._waiting or self.sample(step, self.next_rows(spec.hyperparameters.batch_size))
            following = step < self.steps
            self._waiting = (
                self.sample(step + 1, self.next_rows(spec.hyperparameters.batch_size)) if following else None
            )
            return ready, {}
        if spec.sampling.dynamic_rounds:
            return self._mixed(step)
        return super().batch(step)

    def _mixed(self, step: int) -> tuple[Rollouts, dict[str, float]]:
        """DAPO's dynamic sampling (arXiv:2503.14476, §3.2): draw prompts until the batch is full of mixed groups.

        A group is mixed if its rewards differ. After the last round the batch is filled up with groups that are not.
        """
        size, rounds = self.ctx.spec.hyperparameters.batch_size, self.ctx.spec.sampling.dynamic_rounds
        rollouts = self.sample(step, self.next_rows(size))
        for again in range(rounds):
            missing = size - sum(_is_mixed(group) for group in rollouts.groups)
            if missing <= 0:
                break
            rollouts = rollouts.joined(self.sample(step, self.next_rows(missing), f"rollouts-{again + 1}"))
        # A stable sort: mixed groups first, each kind in the order it was drawn.
        chosen = sorted(rollouts.groups, key=lambda group: not _is_mixed(group))[:size]
        return rollouts.only(chosen), {"train/prompts_drawn": float(len(rollouts.groups))}

    def _samples(self, step: int, rollouts: Rollouts) -> tuple[list[Sample], dict[str, float]]:
        """Samples with advantages and, where something reads them, reference log-probabilities."""
        spec = self.ctx.spec
        samples = [Sample(rollout, []) for rollout in rollouts.flat]
        penalised = spec.loss.kl_coefficient > 0
        looked_at = self.evaluation_due(step) or step in (1, self.steps)
        values: dict[str, float] = {}
        if penalised or "reference_logprobs" in self.loss.arrays or looked_at:
            values["train/kl"] = self.add_references(samples)
        rewards = shaped_rewards(rollouts.flat, spec.sampling)
        if penalised and spec.loss.kl_in == "reward":
            rewards = [
                reward - spec.loss.kl_coefficient * _divergence(sample)
                for reward, sample in zip(rewards, samples, strict=True)
            ]
        silent, start = 0, 0
        for group in rollouts.groups:
            stop = start + len(group)
            advantages = group_advantages(rewards[start:stop], spec.hyperparameters.advantage)
            silent += not any(advantages)
            for sample, advantage in zip(samples[start:stop], advantages, strict=True):
                sample.advantages = [advantage] * len(sample.rollout.completion.tokens)
            start = stop
        values["train/zero_variance_groups"] = float(silent)
        if spec.sampling.overlong_tokens or (penalised and spec.loss.kl_in == "reward"):
            values["train/reward_shaped"] = sum(rewards) / len(rewards)
        return samples, values

    def _off_policy_figures(self, samples: list[Sample]) -> dict[str, float]:
        """``train/importance_capped``: the share of tokens whose importance weight was cut at the cap."""
        cap = self.ctx.spec.loss.importance_cap
        if cap is None:
            return {}
        over = total = 0.0
        for sample in samples:
            old = sample.rollout.completion.logprobs
            for p, q, own in zip(sample.proximal or old, old, sample.rollout.weights, strict=True):
                over += own * (p - q > math.log(cap))
                total += own
        return {"train/importance_capped": over / max(total, 1.0)}


def _is_mixed(group: list[Rollout]) -> bool:
    return any(group_advantages([rollout.score.reward for rollout in group], "mean"))


def _divergence(sample: Sample) -> float:
    rollout = sample.rollout
    return summed_log_ratio(rollout.completion.logprobs, sample.reference or [], rollout.weights)
