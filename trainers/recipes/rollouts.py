"""Rollouts: completions of prompts, read as text and scored."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from trainers.engine.engine import Engine
from trainers.engine.sampler import Completion, SamplingParams
from trainers.errors import RewardError
from trainers.recipes.chat import completion_text, prompt_tokens
from trainers.recipes.context import Row, RunContext, Score, ScoredInput, Scorer, prompt_text


@dataclass(frozen=True)
class Prompt:
    """A row with its prompt as tokens and as text."""

    row: Row
    tokens: list[int]
    text: str


@dataclass(frozen=True)
class Rollout:
    prompt: Prompt
    completion: Completion
    text: str
    score: Score


@dataclass(frozen=True)
class Rollouts:
    """``groups[i]``: the completions of prompt i. ``sample_s`` and ``reward_s``: seconds spent."""

    groups: list[list[Rollout]]
    sample_s: float
    reward_s: float

    @property
    def flat(self) -> list[Rollout]:
        return [rollout for group in self.groups for rollout in group]

    @property
    def tokens(self) -> int:
        """Completion tokens sampled."""
        return sum(len(rollout.completion.tokens) for rollout in self.flat)


def make_prompts(engine: Engine, rows: Sequence[Row], longest: int) -> tuple[list[Prompt], int]:
    """The rows whose prompt has at most ``longest`` tokens, and how many were left out."""
    prompts = [
        Prompt(row, prompt_tokens(engine, row.prompt_messages), prompt_text(row.prompt_messages)) for row in rows
    ]
    fitting = [prompt for prompt in prompts if len(prompt.tokens) <= longest]
    return fitting, len(prompts) - len(fitting)


def roll_out(
    engine: Engine, adapter: str | None, prompts: Sequence[Prompt], params: SamplingParams, scorer: Scorer
) -> Rollouts:
    """Sample ``params.n`` completions of each prompt and score them. Raises :class:`RewardError`."""
    begun = time.monotonic()
    sampled = engine.sample(adapter, [prompt.tokens for prompt in prompts], params)
    texts = [[completion_text(engine, completion.tokens) for completion in group] for group in sampled]
    sampled_at = time.monotonic()
    inputs = [
        ScoredInput(prompt.text, text, prompt.row.answer, prompt.row.row)
        for prompt, group in zip(prompts, texts, strict=True)
        for text in group
    ]
    scores = scorer.score(inputs)
    _check(scores, len(inputs))
    remaining = iter(scores)
    groups = [
        [Rollout(prompt, completion, text, next(remaining)) for completion, text in zip(group, words, strict=True)]
        for prompt, group, words in zip(prompts, sampled, texts, strict=True)
    ]
    return Rollouts(groups, sampled_at - begun, time.monotonic() - sampled_at)


def _check(scores: Sequence[Score], expected: int) -> None:
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


def emit_rollouts(
    ctx: RunContext, rollouts: Sequence[Sequence[Rollout]], *, step: int, phase: str, greedy: bool
) -> None:
    """One ``rollout`` event for each, group by group."""
    for group, members in enumerate(rollouts):
        for index, rollout in enumerate(members):
            ctx.emit(
                "rollout",
                step=step,
                phase=phase,
                group=group,
                index=index,
                prompt=rollout.prompt.text,
                completion=rollout.text,
                answer=rollout.prompt.row.answer,
                reward=rollout.score.reward,
                parts=dict(rollout.score.parts),
                accurate=rollout.score.accurate,
                tokens=len(rollout.completion.tokens),
                truncated=not rollout.completion.stopped,
                prompt_key=rollout.prompt.row.key,
                greedy=greedy,
            )
