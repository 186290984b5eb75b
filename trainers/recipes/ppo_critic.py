"""PPO with a value network: each token's advantage is what happened minus what the critic foresaw (GAE).

Sources: Schulman et al. 2017, arXiv:1707.06347; GAE, arXiv:1506.02438; for language models Ziegler et al. 2019,
arXiv:1909.08593, and the details of arXiv:2403.17031 (advantages whitened over the batch, values clipped). The reward
of a completion stands at its last token; tokens of an environment are not steps of the policy and are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from trainers.engine.batch import Datum
from trainers.engine.checkpoint import Writer
from trainers.engine.lora import LoraConfig
from trainers.engine.value import ValueModel
from trainers.recipes.advantages import generalized_advantages
from trainers.recipes.figures import update_figures
from trainers.recipes.policy_data import Sample
from trainers.recipes.policy_loop import PolicyLoop, Update, policy_loss
from trainers.recipes.rollouts import Rollouts
from trainers.recipes.setup import Setup
from trainers.recipes.shaping import shaped_rewards

CRITIC = "critic"


class PpoCriticRun(PolicyLoop):
    """One run of the recipe on a loaded engine."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.loss, self.loss_config = policy_loss(self.ctx.spec.loss)
        config = self.engine.adapters[self.adapter].config
        own = config if isinstance(config, LoraConfig) else LoraConfig(seed=config.seed)
        self.critic = ValueModel(self.engine, CRITIC, replace(own, seed=own.seed + 1))

    def snapshot_more(self) -> Writer:
        write = self.critic.snapshot()
        return lambda folder: write(folder / CRITIC)

    def load_more(self, folder: Path) -> None:
        self.critic.load(folder / CRITIC)

    def learn(self, step: int, rollouts: Rollouts) -> tuple[dict[str, float], Update]:
        spec = self.ctx.spec
        samples = [Sample(rollout, []) for rollout in rollouts.flat]
        values: dict[str, float] = {}
        penalised = spec.loss.kl_coefficient > 0
        if penalised or "reference_logprobs" in self.loss.arrays:
            values["train/kl"] = self.add_references(samples)
        critic_data = self._judge(samples, shaped_rewards(rollouts.flat, spec.sampling))
        values |= self._train_critic(critic_data)
        update = Update()
        if step > spec.critic.warmup_steps:
            everything = penalised and spec.loss.kl_in == "loss"
            update = self.optimize(step, samples, self.loss, self.loss_config, everything=everything)
        else:
            values["train/learning_rate"] = 0.0
        return values | update_figures(update.outputs, update.grad_norm), update

    def _judge(self, samples: Sequence[Sample], rewards: Sequence[float]) -> list[Datum]:
        """Give each sample its advantages; returns what the critic is to learn from."""
        settings, loss = self.ctx.spec.critic, self.ctx.spec.loss
        penalty = loss.kl_coefficient if loss.kl_in == "reward" else 0.0
        data: list[Datum] = []
        bare = [sample.scored() for sample in samples]
        for sample, datum, reward, foreseen in zip(samples, bare, rewards, self.critic.values(bare), strict=True):
            own = [i for i, weight in enumerate(sample.rollout.weights) if weight]
            per_token = [-penalty * (sample.rollout.completion.logprobs[i] - _at(sample.reference, i)) for i in own]
            per_token[-1] += reward
            advantages, returns = generalized_advantages(
                per_token,
                [foreseen[i] for i in own],
                discount=settings.discount,
                gae_lambda=settings.gae_lambda,
            )
            sample.advantages = _spread(advantages, own, len(foreseen))
            arrays = {
                "returns": _spread(returns, own, len(foreseen)),
                "old_values": foreseen,
                "mask": sample.rollout.weights,
            }
            data.append(Datum(datum.tokens, datum.targets, arrays))
        _whiten(samples)
        return data

    def _train_critic(self, data: Sequence[Datum]) -> dict[str, float]:
        settings, hyper = self.ctx.spec.critic, self.ctx.spec.hyperparameters
        params = self.adam(1, settings.learning_rate)
        figures = [self.critic.train(data, params, settings.value_clip) for _ in range(hyper.updates_per_batch)]
        values = [
            v for datum in data for v, own in zip(datum.flat("old_values"), datum.flat("mask"), strict=True) if own
        ]
        return {
            "train/value_loss": figures[-1]["value_loss"],
            "train/explained_variance": figures[0]["explained_variance"],
            "train/value": sum(values) / max(1, len(values)),
        }


def _at(values: Sequence[float] | None, index: int) -> float:
    return 0.0 if values is None else values[index]


def _spread(values: Sequence[float], places: Sequence[int], length: int) -> list[float]:
    """The values at their places, 0 elsewhere."""
    result = [0.0] * length
    for place, value in zip(places, values, strict=True):
        result[place] = value
    return result


def _whiten(samples: Sequence[Sample]) -> None:
    """Advantages with mean 0 and deviation 1 over the model's own tokens of the batch."""
    weights = torch.tensor([w for sample in samples for w in sample.rollout.weights], dtype=torch.float64)
    flat = torch.tensor([a for sample in samples for a in sample.advantages], dtype=torch.float64)
    mean = (flat * weights).sum() / weights.sum()
    deviation = (((flat - mean).square() * weights).sum() / weights.sum()).sqrt()
    white = ((flat - mean) / (deviation + 1e-8) * weights).tolist()
    start = 0
    for sample in samples:
        stop = start + len(sample.advantages)
        sample.advantages = white[start:stop]
        start = stop
