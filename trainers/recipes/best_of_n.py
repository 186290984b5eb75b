"""Expert iteration: sample several completions, keep the best, imitate them, and begin again with the better model.

Source: Anthony et al. 2017, arXiv:1705.08439; for language models ReST, arXiv:2308.08998, and best-of-N rejection
sampling as in Llama 2, arXiv:2307.09288, §3.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainers.engine.batch import Datum
from trainers.recipes.policy_data import Sample
from trainers.recipes.policy_loop import PolicyLoop, Update
from trainers.recipes.rollouts import Rollout, Rollouts


class BestOfNRun(PolicyLoop):
    """One run of the recipe on a loaded engine."""

    def learn(self, step: int, rollouts: Rollouts) -> tuple[dict[str, float], Update]:
        kept = [self._best(group) for group in rollouts.groups]
        samples = [Sample(rollout, []) for group in kept for rollout in group]
        update = self._imitate(step, samples)
        values = {
            "train/kept": len(samples) / len(rollouts.flat),
            "train/zero_variance_groups": float(sum(not group for group in kept)),
            "train/grad_norm": update.grad_norm,
        }
        if samples:
            values["train/loss"] = sum(output.loss for output in update.outputs) / len(update.outputs)
            values["train/reward_kept"] = sum(sample.rollout.score.reward for sample in samples) / len(samples)
        return values, update

    def _best(self, group: Sequence[Rollout]) -> list[Rollout]:
        """The best of a group, the earlier first among equals; none if all are equal or too little rewarded."""
        chosen = self.ctx.spec.selection
        rewards = [rollout.score.reward for rollout in group]
        mean = sum(rewards) / len(rewards)
        least = chosen.minimum_reward
        good = [r for r in group if (r.score.reward > mean + 1e-9 if least is None else r.score.reward >= least)]
        return sorted(good, key=lambda rollout: -rollout.score.reward)[: chosen.keep]

    def _imitate(self, step: int, samples: Sequence[Sample]) -> Update:
        """Cross-entropy on the kept completions, a mean per token."""
        update = Update()
        for part in self.parts(step, samples) if samples else ():
            spoken = sum(sample.rollout.length for sample in part)
            data = []
            for sample in part:
                bare = sample.scored()
                weights = [weight / spoken for weight in sample.rollout.weights]
                data.append(Datum(bare.tokens, bare.targets, {"weights": weights}))
            self.train(step, update, data, "cross_entropy")
        return update
