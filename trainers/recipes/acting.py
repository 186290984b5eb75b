"""Letting a policy act: one completion per prompt and sample, scored by the reward, or whole episodes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Protocol

from trainers.engine.engine import Engine
from trainers.engine.sampler import SamplingParams
from trainers.errors import RewardError
from trainers.recipes.chat import completion_text
from trainers.recipes.context import Score, ScoredInput, Scorer
from trainers.recipes.rollouts import Prompt, Rollout, Rollouts


class Actor(Protocol):
    """Samples ``params.n`` rollouts of each prompt and scores them."""

    def roll_out(self, prompts: Sequence[Prompt], params: SamplingParams) -> Rollouts:
        """``groups`` are in the order of the prompts. Raises :class:`RewardError`."""
        ...


class SingleTurn:
    """The prompt goes in, the completion is scored. Without a scorer every completion earns 0."""

    def __init__(self, engine: Engine, adapter: str | None, scorer: Scorer | None) -> None:
        self.engine, self.adapter, self.scorer = engine, adapter, scorer

    def roll_out(self, prompts: Sequence[Prompt], params: SamplingParams) -> Rollouts:
        begun = time.monotonic()
        sampled = self.engine.sample(self.adapter, [prompt.tokens for prompt in prompts], params)
        texts = [[completion_text(self.engine, completion.tokens) for completion in group] for group in sampled]
        sampled_at = time.monotonic()
        inputs = [
            ScoredInput(prompt.text, text, prompt.row.answer, prompt.row.row, len(completion.tokens))
            for prompt, group, completions in zip(prompts, texts, sampled, strict=True)
            for text, completion in zip(group, completions, strict=True)
        ]
        scores = iter(self._scores(inputs))
        groups = [
            [Rollout(prompt, completion, text, next(scores)) for completion, text in zip(group, words, strict=True)]
            for prompt, group, words in zip(prompts, sampled, texts, strict=True)
        ]
        passed = sum(len(prompt.tokens) for prompt in prompts)
        return Rollouts(groups, sampled_at - begun, time.monotonic() - sampled_at, passed)

    def _scores(self, inputs: Sequence[ScoredInput]) -> list[Score]:
        if self.scorer is None:
            return [Score(0.0, {}, False)] * len(inputs)
        scores = self.scorer.score(inputs)
        check_scores(scores, len(inputs))
        return scores


def check_scores(scores: Sequence[Score], expected: int) -> None:
    """Raises :class:`RewardError` unless there is one finite reward per completion."""
    if len(scores) != expected:
        raise RewardError(
            f"The reward gave {len(scores)} scores for {expected} completions.",
            "Return exactly one score per completion.",
        )
    for score in scores:
        if not math.isfinite(score.reward):
            raise RewardError(
                f"The reward gave {score.reward} for a completion.", "Return a finite number for every completion."
            )
