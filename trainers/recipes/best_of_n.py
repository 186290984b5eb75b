"""Expert iteration: sample several completions, keep the best, imitate them, and begin again with the better model.

Source: Anthony et al. 2017, arXiv:1705.08439; for language models ReST, arXiv:2308.08998, and best-of-N rejection
sampling as in Llama 2, arXiv:2307.09288, §3.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainers.engine.batch import Datum
from trainers.recipes.figures import rollout_figures, time_figures
from trainers.recipes.policy_data import Sample
from trainers.recipes.policy_loop import SAMPLING_SHARE, PolicyLoop, Timer
from trainers.recipes.rollouts import Rollout


class BestOfNRun(PolicyLoop):
    """One run of the recipe on a loaded engine."""

    def step(self, step: int) -> dict[str, float]:
        timer, hyper = Timer(), self.ctx.spec.hyperparameters
        self.progress.phase("sampling", 0.0, SAMPLING_SHARE)
        rollouts = self.sample(step, self.next_rows(hyper.batch_size))
        self.tell(step, rollouts)
        training = Timer()
        kept = [[rollout for rollout in self._best(group)] for group in rollouts.groups]
        samples = [Sample(rollout, []) for group in kept for rollout in group]
        losses, norm, trained = self._imitate(step, samples)
        values: dict[str, Any] = rollout_figures(rollouts)
        values |= {
            "train/kept": len(samples) / len(rollouts.flat),
            "train/zero_variance_groups": float(sum(not group for group in kept)),
            "train/grad_norm": norm,
            "train/learning_rate": self.rate(step),
        }
        if losses:
            values["train/loss"] = sum(losses) / len(losses)
        if samples:
            values["train/reward_kept"] = sum(sample.rollout.score.reward for sample in samples) / len(samples)
        return values | time_figures(timer.seconds, training.seconds, trained, rollouts)

    def _best(self, group: Sequence[Rollout]) -> list[Rollout]:
        """The best of a group, the earlier first among equals; none if all are equal or too little rewarded."""
        chosen = self.ctx.spec.selection
        rewards = [rollout.score.reward for rollout in group]
        mean = sum(rewards) / len(rewards)
        least = chosen.minimum_reward
        good = [r for r in group if (r.score.reward > mean + 1e-9 if least is None else r.score.reward >= least)]
        return sorted(good, key=lambda rollout: -rollout.score.reward)[: chosen.keep]

    def _imitate(self, step: int, samples: Sequence[Sample]) -> tuple[list[float], float, int]:
        """Cross-entropy on the kept completions, a mean per token; as often as ``updates_per_batch`` says."""
        hyper = self.ctx.spec.hyperparameters
        losses, norm, trained = [], 0.0, 0
        count = hyper.updates_per_batch * hyper.minibatches
        for again in range(hyper.updates_per_batch if samples else 0):
            for number, part in enumerate(self._parts(step, again, samples)):
                done = (again * hyper.minibatches + number) / count
                self.progress.phase("training", SAMPLING_SHARE + (1 - SAMPLING_SHARE) * done, 1.0)
                spoken = sum(sample.rollout.length for sample in part)
                data = []
                for sample in part:
                    bare = sample.scored()
                    weights = [weight / spoken for weight in sample.rollout.weights]
                    data.append(Datum(bare.tokens, bare.targets, {"weights": weights}))
                output = self.engine.forward_backward(self.adapter, data, "cross_entropy")
                norm = self.engine.optim_step(self.adapter, self.adam(step))["grad_norm"]
                losses.append(output.loss)
                trained += output.tokens
                self.meter.flops.trained(output)
                self.meter.tokens += output.tokens
        return losses, norm, trained
