"""What all recipes share that learn from the model's own completions: prompts, sampling, updates, figures."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trainers.engine.batch import Datum, StepOutput
from trainers.engine.sampler import SamplingParams
from trainers.errors import RunError
from trainers.losses import LOSSES, Loss, check_custom_loss, custom_loss, kl_estimate, with_kl
from trainers.recipes.acting import Actor, SingleTurn
from trainers.recipes.chat import stop_tokens
from trainers.recipes.context import Row
from trainers.recipes.episodes import Episodes
from trainers.recipes.evaluate import Evaluator
from trainers.recipes.figures import rollout_figures, time_figures
from trainers.recipes.loop import Loop, Phase
from trainers.recipes.policy_data import Sample, token_weights
from trainers.recipes.rollouts import Prompt, Rollouts, emit_rollouts, make_prompts
from trainers.recipes.schedule import derived_seed
from trainers.recipes.setup import Setup
from trainers.recipes.token_cache import TokenCache
from trainers.spec import Loss as LossSettings

SAMPLING_SHARE = 0.35  # of a step's time, for the progress bar only


@dataclass
class Update:
    """What the optimizer steps on one batch of rollouts came to."""

    outputs: list[StepOutput] = field(default_factory=list)
    grad_norm: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens that were trained on."""
        return sum(output.tokens for output in self.outputs)


class PolicyLoop(Loop):
    """A step samples a batch and learns from it: subclasses write :meth:`learn`, with :meth:`optimize` or its parts."""

    first_phase = "sampling"

    def __init__(self, setup: Setup) -> None:
        spec = setup.ctx.spec
        self.prompts = fitting_prompts(setup, setup.train_rows, "training")
        wanted = setup.eval_rows[: spec.evaluation.prompts]
        held_out = fitting_prompts(setup, wanted, "held-out") if spec.evaluation.prompts else []
        super().__init__(setup, keys=[prompt.row.key for prompt in self.prompts], measures=bool(held_out))
        self.actor = make_actor(setup)
        self.evaluator = Evaluator(self.ctx, self.engine, held_out, self.actor, self.progress)

    @property
    def held_out(self) -> int:
        return len(self.evaluator.prompts)

    def measure(self, step: int, phase: Phase) -> dict[str, Any]:
        values, tokens = self.evaluator.run(step, phase)
        self.meter.tokens += tokens
        return values

    def step(self, step: int) -> dict[str, float]:
        begun = time.monotonic()
        self.progress.phase("sampling", 0.0, SAMPLING_SHARE)
        rollouts, drawn = self.batch(step)
        emit_rollouts(self.ctx, rollouts.groups, step=step, phase="train", greedy=False)
        sampled = time.monotonic()
        values, update = self.learn(step, rollouts)
        now = time.monotonic()
        values = rollout_figures(rollouts) | {"train/learning_rate": self.rate(step)} | drawn | values
        return values | time_figures(now - begun, now - sampled, update.tokens, rollouts)

    @abstractmethod
    def learn(self, step: int, rollouts: Rollouts) -> tuple[dict[str, float], Update]:
        """Train on a batch; returns its figures besides those of the rollouts, and what the optimizer did."""

    def batch(self, step: int) -> tuple[Rollouts, dict[str, float]]:
        """The rollouts to train on in this step, and figures of how they were drawn."""
        return self.sample(step, self.next_rows(self.ctx.spec.hyperparameters.batch_size)), {}

    def sample(self, step: int, rows: Sequence[int], purpose: str = "rollouts", n: int | None = None) -> Rollouts:
        """Roll out the training prompts of these indices; ``purpose`` keeps the random numbers of two uses apart."""
        sampling = self.ctx.spec.sampling
        params = SamplingParams(
            max_tokens=sampling.max_new_tokens,
            n=n or sampling.group_size,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            stop_tokens=stop_tokens(self.engine),
            seed=derived_seed(self.ctx.spec.seed, purpose, step),
            logprob_temperature=sampling.temperature,
        )
        rollouts = self.actor.roll_out([self.prompts[i] for i in rows], params)
        self.meter.flops.sampled(rollouts.passed, rollouts.tokens)
        self.meter.tokens += rollouts.tokens
        return rollouts

    def logprobs(self, adapter: str | None, samples: Sequence[Sample]) -> list[list[float]]:
        """Log-probabilities of each sample's tokens under an adapter, at the sampling temperature."""
        data = [sample.scored() for sample in samples]
        output = self.engine.forward(adapter, data, temperature=self.ctx.spec.sampling.temperature)
        self.meter.flops.passed(output)
        return [part.tolist() for part in output.logprobs]

    def add_references(self, samples: Sequence[Sample]) -> float:
        """Give each sample its reference log-probabilities; returns the mean KL estimate of the policy that sampled."""
        for sample, values in zip(samples, self.logprobs(self.setup.reference, samples), strict=True):
            sample.reference = values
        return mean_kl(samples)

    def add_proximal(self, samples: Sequence[Sample]) -> None:
        """Give each sample its log-probabilities just before the update, where the spec weighs by them."""
        if self.ctx.spec.loss.importance_cap is not None:
            for sample, values in zip(samples, self.logprobs(self.adapter, samples), strict=True):
                sample.proximal = values

    def optimize(
        self, step: int, samples: Sequence[Sample], loss: Loss, config: Mapping[str, float], *, everything: bool
    ) -> Update:
        """One optimizer step on each of :meth:`parts`, over which the loss is averaged.

        Samples whose advantages are all 0 are computed only if ``everything`` (a KL penalty needs them); those that the
        limit cut are left out if the spec masks them.
        """
        spec, update = self.ctx.spec, Update()
        for part in self.parts(step, samples):
            rollouts = [sample.rollout for sample in part]
            weights = token_weights(rollouts, spec.hyperparameters.normalization, spec.sampling.max_new_tokens)
            data = [
                sample.datum(weight, spec.loss.importance_cap)
                for sample, weight in zip(part, weights, strict=True)
                if (everything or not sample.silent)
                and not (spec.sampling.mask_truncated and not sample.rollout.completion.stopped)
            ]
            if data:
                self.train(step, update, data, loss, config, temperature=spec.sampling.temperature)
        return update

    def train(
        self,
        step: int,
        update: Update,
        data: Sequence[Datum],
        loss: str | Loss,
        config: Mapping[str, float] | None = None,
        *,
        temperature: float = 1.0,
    ) -> None:
        """One optimizer step, noted in ``update``."""
        output = self.engine.forward_backward(self.adapter, data, loss, config, temperature=temperature)
        update.outputs.append(output)
        self.meter.flops.trained(output)
        self.meter.tokens += output.tokens
        update.grad_norm = self.engine.optim_step(self.adapter, self.adam(step))["grad_norm"]

    def parts(self, step: int, samples: Sequence[Sample]) -> Iterator[list[Sample]]:
        """The samples as often, and in as many parts, as the spec says."""
        hyper = self.ctx.spec.hyperparameters
        share = (1 - SAMPLING_SHARE) / (hyper.updates_per_batch * hyper.minibatches)
        start = SAMPLING_SHARE
        for again in range(hyper.updates_per_batch):
            for part in self._parts(step, again, samples):
                self.progress.phase("training", start, start + share)
                yield part
                start += share

    def _parts(self, step: int, again: int, samples: Sequence[Sample]) -> list[list[Sample]]:
        """The samples cut into as many parts as there are minibatches; groups stay whole."""
        count = self.ctx.spec.hyperparameters.minibatches
        if count == 1:
            return [list(samples)]
        groups: dict[int, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(id(sample.rollout.prompt), []).append(sample)
        order = list(groups.values())
        random.Random(derived_seed(self.ctx.spec.seed, f"minibatches-{again}", step)).shuffle(order)
        parts = [order[i * len(order) // count : (i + 1) * len(order) // count] for i in range(count)]
        return [[sample for group in part for sample in group] for part in parts if part]


def make_actor(setup: Setup) -> Actor:
    """How the spec's policy acts: in single turns scored by the reward, or in episodes with an environment."""
    environment = setup.ctx.spec.environment
    if environment.kind == "single_turn":
        return SingleTurn(setup.engine, setup.adapter, setup.scorer)
    return Episodes(setup.engine, setup.adapter, environment.kind, environment.max_turns)


def fitting_prompts(setup: Setup, rows: Sequence[Row], what: str) -> list[Prompt]:
    """The rows as prompts, without those that are too long. Raises ``RunError("bad_data", …)`` when none is left."""
    spec = setup.ctx.spec
    room = setup.engine.context - spec.sampling.max_new_tokens
    longest = min(spec.hyperparameters.max_prompt_tokens, room)
    cache = TokenCache(setup.engine, setup.ctx.cache_folder)
    prompts, left_out = make_prompts(setup.engine, rows, longest, cache)
    if cache.cache is not None and cache.cache.hits:
        setup.ctx.emit("log", level="info", text=f"The tokens of {len(rows):,} {what} prompts were known already.")
    if left_out:
        text = f"{left_out} of {len(rows)} {what} prompts are longer than {longest} tokens and were left out."
        setup.ctx.emit("log", level="warning", text=text)
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


def policy_loss(settings: LossSettings) -> tuple[Loss, dict[str, float]]:
    """The loss that the spec names, with its KL penalty, and its settings."""
    own = {"clip_low": settings.clip_low, "clip_high": settings.clip_high}
    given = {"clip_low_threshold": settings.clip_low, "clip_high_threshold": settings.clip_high, **own}
    if settings.beta is not None:
        given["beta"] = settings.beta
    custom = settings.name == "custom"
    loss = custom_loss(settings.expression or "") if custom else LOSSES[settings.name]
    config = {name: given[name] for name in loss.defaults if name in given}
    if custom:
        check_custom_loss(settings.expression or "", config)
    if settings.kl_coefficient > 0 and settings.kl_in == "loss":
        loss = with_kl(loss, settings.kl_coefficient)
    return loss, config


def mean_kl(samples: Sequence[Sample]) -> float:
    """Mean over the model's own tokens of the KL estimate (k3) of the policy that sampled from the reference."""
    policy = torch.tensor([v for sample in samples for v in sample.rollout.completion.logprobs], dtype=torch.float64)
    reference = torch.tensor([v for sample in samples for v in sample.reference or ()], dtype=torch.float64)
    own = torch.tensor([w for sample in samples for w in sample.rollout.weights], dtype=torch.float64)
    return float((kl_estimate(policy, reference) * own).sum() / own.sum().clamp(min=1))
