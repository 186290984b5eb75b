"""What is asked of the sampler, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """``n`` completions per prompt of at most ``max_tokens``; temperature 0 is greedy, ``top_k`` 0 is off.

    A completion ends with the first of ``stop_tokens``, or with the token that completes one of ``stop_strings`` in its
    text; both are part of it. Log-probabilities are those of the logits divided by ``logprob_temperature``, whatever
    temperature the tokens are drawn at. ``seed`` None draws one. ``top_logprobs``: how many of the most likely tokens
    to report at every step. ``prompt_logprobs``: score the prompt too, with ``top_prompt_logprobs`` alternatives.
    """

    max_tokens: int
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_tokens: tuple[int, ...] = ()
    seed: int | None = None
    logprob_temperature: float = 1.0
    stop_strings: tuple[str, ...] = ()
    top_logprobs: int = 0
    prompt_logprobs: bool = False
    top_prompt_logprobs: int = 0

    def __post_init__(self) -> None:
        checks = (
            (self.max_tokens >= 1, "max_tokens must be at least 1"),
            (self.n >= 1, "n must be at least 1"),
            (self.temperature >= 0, "temperature must not be negative"),
            (0 < self.top_p <= 1, "top_p must be above 0 and at most 1"),
            (self.top_k >= 0, "top_k must not be negative (0 turns it off)"),
            (self.logprob_temperature > 0, "logprob_temperature must be above 0"),
            (all(self.stop_strings), "stop_strings must not be empty strings"),
            (0 <= self.top_logprobs <= 100, "top_logprobs must be between 0 and 100"),
            (0 <= self.top_prompt_logprobs <= 100, "top_prompt_logprobs must be between 0 and 100"),
        )
        for good, message in checks:
            if not good:
                raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Completion:
    """``tokens`` include the stop token, ``stopped`` says whether there was one (else the length limit cut it).

    ``logprobs`` and ``entropies`` have one number per token; ``top``: (token, log-probability) pairs per token, the
    most likely first, where they were asked for.
    """

    tokens: list[int]
    logprobs: list[float]
    entropies: list[float]
    stopped: bool
    top: list[list[tuple[int, float]]] = field(default_factory=list)

    @property
    def stop_reason(self) -> str:
        """``stop`` or ``length``, as the Tinker protocol names them."""
        return "stop" if self.stopped else "length"


@dataclass(frozen=True, slots=True)
class PromptScores:
    """Of a prompt of P tokens: ``logprobs`` (P - 1) of tokens 1 … P - 1, and ``top`` alternatives at those places."""

    logprobs: list[float]
    top: list[list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """``params.n`` completions for each of ``prompts`` (token lists, none empty) by an adapter, or the base (None)."""

    adapter: str | None
    prompts: Sequence[Sequence[int]]
    params: SamplingParams


@dataclass(frozen=True, slots=True)
class Sampled:
    """``groups[i]``: the completions of prompt i. ``prompts[i]``: its scores, where they were asked for."""

    groups: list[list[Completion]]
    prompts: list[PromptScores | None]
