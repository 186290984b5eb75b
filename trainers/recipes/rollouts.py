"""Rollouts: sampled completions with their scores, and how they go into the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainers.engine.engine import Engine
from trainers.engine.sampler import Completion
from trainers.recipes.context import Row, RunContext, Score, prompt_text
from trainers.recipes.token_cache import TokenCache


@dataclass(frozen=True)
class Prompt:
    """A row with its prompt as tokens and as text. ``index``: which of the run's prompts it is."""

    row: Row
    tokens: list[int]
    text: str
    index: int = 0


@dataclass(frozen=True)
class Rollout:
    """A completion of one turn, or a whole episode with an environment: all tokens after the prompt.

    ``mask`` is True where the model wrote the token and False where the environment did; None: all are the model's.
    """

    prompt: Prompt
    completion: Completion
    text: str
    score: Score
    mask: tuple[bool, ...] | None = None

    @property
    def length(self) -> int:
        """Tokens that the model wrote."""
        return len(self.completion.tokens) if self.mask is None else sum(self.mask)

    @property
    def weights(self) -> list[float]:
        """1 for tokens of the model, 0 for others."""
        return [1.0] * len(self.completion.tokens) if self.mask is None else [float(own) for own in self.mask]


@dataclass(frozen=True)
class Rollouts:
    """``groups[i]``: the completions of prompt i. ``sample_s`` and ``reward_s``: seconds spent.

    ``passed``: prompt tokens that went through the network, each prompt once a turn.
    """

    groups: list[list[Rollout]]
    sample_s: float
    reward_s: float
    passed: int = 0

    @property
    def flat(self) -> list[Rollout]:
        return [rollout for group in self.groups for rollout in group]

    @property
    def tokens(self) -> int:
        """Tokens that the model wrote."""
        return sum(rollout.length for rollout in self.flat)

    def joined(self, other: Rollouts) -> Rollouts:
        return Rollouts(
            [*self.groups, *other.groups],
            self.sample_s + other.sample_s,
            self.reward_s + other.reward_s,
            self.passed + other.passed,
        )

    def only(self, groups: list[list[Rollout]]) -> Rollouts:
        """The same work, of which only some groups are used."""
        return Rollouts(groups, self.sample_s, self.reward_s, self.passed)


def make_prompts(
    engine: Engine, rows: Sequence[Row], longest: int, cache: TokenCache | None = None
) -> tuple[list[Prompt], int]:
    """The rows whose prompt has at most ``longest`` tokens, and how many were left out."""
    fitting: list[Prompt] = []
    known = (cache or TokenCache(engine, None)).prompts([row.prompt_messages for row in rows])
    for row, tokens in zip(rows, known, strict=True):
        if len(tokens) <= longest:
            fitting.append(Prompt(row, tokens, prompt_text(row.prompt_messages), len(fitting)))
    return fitting, len(rows) - len(fitting)


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
                tokens=rollout.length,
                truncated=not rollout.completion.stopped,
                prompt_key=rollout.prompt.row.key,
                greedy=greedy,
            )


def rollouts_to_json(rollouts: Rollouts) -> dict[str, Any]:
    """Rollouts as JSON without loss: for a checkpoint that holds a batch which is not trained on yet."""
    groups = [
        {"prompt": group[0].prompt.index, "members": [_to_json(rollout) for rollout in group]}
        for group in rollouts.groups
    ]
    return {
        "groups": groups,
        "sample_s": rollouts.sample_s,
        "reward_s": rollouts.reward_s,
        "passed": rollouts.passed,
    }


def rollouts_from_json(value: Mapping[str, Any], prompts: Sequence[Prompt]) -> Rollouts:
    """The way back; ``prompts`` are the run's."""
    groups = [
        [_from_json(member, prompts[group["prompt"]]) for member in group["members"]] for group in value["groups"]
    ]
    return Rollouts(groups, value["sample_s"], value["reward_s"], value["passed"])


def _to_json(rollout: Rollout) -> dict[str, Any]:
    completion, score = rollout.completion, rollout.score
    return {
        "tokens": completion.tokens,
        "logprobs": completion.logprobs,
        "entropies": completion.entropies,
        "stopped": completion.stopped,
        "text": rollout.text,
        "reward": score.reward,
        "parts": dict(score.parts),
        "accurate": score.accurate,
        "mask": rollout.mask,
    }


def _from_json(value: Mapping[str, Any], prompt: Prompt) -> Rollout:
    completion = Completion(value["tokens"], value["logprobs"], value["entropies"], value["stopped"])
    score = Score(value["reward"], value["parts"], value["accurate"])
    mask = None if value["mask"] is None else tuple(value["mask"])
    return Rollout(prompt, completion, value["text"], score, mask)
