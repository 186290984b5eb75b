"""Episodes of several turns with an environment, many at once, with histories that are exact to the token.

What the model sampled is kept as it is and never encoded again; between its turns only the environment's words, in the
markup of the chat template, are encoded. Episodes that have ended leave the batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trainers.engine.engine import Engine
from trainers.engine.sampler import Completion, SamplingParams
from trainers.envs import ENVIRONMENTS, Environment
from trainers.errors import RunError
from trainers.recipes.acting import check_scores
from trainers.recipes.chat import completion_text, encode, render
from trainers.recipes.context import Score
from trainers.recipes.rollouts import Prompt, Rollout, Rollouts
from trainers.recipes.schedule import derived_seed

_MARK = "\u2402model\u2403"


@dataclass
class _Episode:
    prompt: Prompt
    world: Environment
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    turns: int = 0
    reward: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    accurate: bool = False
    over: bool = False
    cut: bool = False

    def add(self, tokens: Sequence[int], logprobs: Sequence[float], entropies: Sequence[float], *, own: bool) -> None:
        self.tokens += tokens
        self.logprobs += logprobs
        self.entropies += entropies
        self.mask += [own] * len(tokens)

    def rollout(self) -> Rollout:
        completion = Completion(self.tokens, self.logprobs, self.entropies, not self.cut)
        parts = {"turns": float(self.turns), **self.parts}
        score = Score(self.reward, parts, self.accurate)
        return Rollout(self.prompt, completion, "\n".join(self.said), score, tuple(self.mask))


_SAYS = "» "  # before what the environment says, in the text that people read


class Episodes:
    """Plays a kind of environment. ``max_tokens`` of the sampling parameters bounds each turn of the model."""

    def __init__(self, engine: Engine, adapter: str | None, kind: str, max_turns: int) -> None:
        self.engine, self.adapter, self.max_turns = engine, adapter, max_turns
        self.kind = ENVIRONMENTS[kind]

    def roll_out(self, prompts: Sequence[Prompt], params: SamplingParams) -> Rollouts:
        """``params.n`` episodes of each prompt's row. Raises ``RunError("bad_data", …)`` for a row without a task."""
        begun, environment_s, passed = time.monotonic(), 0.0, 0
        groups = [[_Episode(prompt, self._world(prompt)) for _ in range(params.n)] for prompt in prompts]
        episodes = [episode for group in groups for episode in group]
        for turn in range(self.max_turns):
            active = [episode for episode in episodes if not episode.over]
            if not active:
                break
            for episode, completion in zip(active, self._speak(prompts, active, params, turn), strict=True):
                episode.add(completion.tokens, completion.logprobs, completion.entropies, own=True)
                episode.cut = not completion.stopped
                asked = time.monotonic()
                self._answer(episode, completion, params, last=turn == self.max_turns - 1)
                environment_s += time.monotonic() - asked
            passed += sum(len(prompt.tokens) for prompt in prompts) if turn == 0 else 0
        passed += sum(not own for episode in episodes for own in episode.mask)
        rollouts = [[episode.rollout() for episode in group] for group in groups]
        check_scores([rollout.score for group in rollouts for rollout in group], len(episodes))
        return Rollouts(rollouts, time.monotonic() - begun - environment_s, environment_s, passed)

    def _world(self, prompt: Prompt) -> Environment:
        world = self.kind.make()
        try:
            world.reset(prompt.row.row)
        except ValueError as error:
            raise RunError(
                "bad_data",
                f"A row holds no task of the environment {self.kind.name}: {error}",
                "Use the tasks that the environment makes, or rows with those columns.",
                "data.source",
            ) from error
        return world

    def _speak(
        self, prompts: Sequence[Prompt], active: Sequence[_Episode], params: SamplingParams, turn: int
    ) -> list[Completion]:
        """The model's next turn in each active episode; in the first turn a prompt is shared by all its episodes."""
        if turn == 0:
            sampled = self.engine.sample(self.adapter, [prompt.tokens for prompt in prompts], params)
        else:
            seed = None if params.seed is None else derived_seed(params.seed, "turn", turn)
            histories = [[*episode.prompt.tokens, *episode.tokens] for episode in active]
            sampled = self.engine.sample(self.adapter, histories, replace(params, n=1, seed=seed))
        return [completion for group in sampled for completion in group]

    def _answer(self, episode: _Episode, completion: Completion, params: SamplingParams, *, last: bool) -> None:
        text = completion_text(self.engine, completion.tokens)
        episode.said.append(text)
        episode.turns += 1
        turn = episode.world.step(text)
        episode.reward += turn.reward
        episode.parts |= turn.parts
        episode.accurate = turn.accurate
        episode.over = turn.message is None or last
        if episode.over or turn.message is None:
            return
        if not completion.stopped:
            episode.over = True  # cut in the middle of a turn: the template's markup cannot follow
            return
        between = self._between(turn.message, completion.tokens[-1])
        room = self.engine.context - len(episode.prompt.tokens) - len(episode.tokens) - len(between)
        if room < params.max_tokens:
            episode.over = episode.cut = True
            return
        episode.said.append(f"{_SAYS}{turn.message}")
        episode.add(between, [0.0] * len(between), [0.0] * len(between), own=False)

    def _between(self, message: str, stop: int) -> list[int]:
        """What stands between the model's last token (its end of turn) and the first of its next turn."""
        chat = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _MARK},
            {"role": "user", "content": message},
        ]
        _, found, rest = render(self.engine, chat, generation=True).partition(_MARK)
        if not found:
            raise RunError(
                "base_model",
                "The model's chat template leaves out earlier answers, so it cannot be used in dialogues.",
                "Choose a single-turn task or another base model.",
                "model.base",
            )
        tokens = encode(self.engine, rest)
        return tokens[1:] if tokens[:1] == [stop] else tokens
