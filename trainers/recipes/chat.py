"""From chat messages to tokens, by the model's own chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from trainers.engine.batch import Datum
from trainers.engine.engine import Engine
from trainers.errors import RunError
from trainers.recipes.context import Message


def prompt_tokens(engine: Engine, messages: Sequence[Message]) -> list[int]:
    """The prompt as the model reads it before it answers."""
    return encode(engine, render(engine, messages, generation=True))


def chat_datum(engine: Engine, messages: Sequence[Message], *, given: int = 0) -> Datum | None:
    """A whole chat with weight 1 on every token the assistant says, the end of its turn included, and 0 elsewhere.

    Each turn is tokenised as it would be sampled: after the prompt that leads up to it. Turns among the first
    ``given`` messages are only read. None if nobody answers.
    """
    tokens: list[int] = []
    weights: list[float] = []
    done = ""
    for index, message in enumerate(messages):
        if message["role"] != "assistant" or index < given:
            continue
        before = render(engine, messages[:index], generation=True)
        after = render(engine, messages[: index + 1], generation=False)
        if not before.startswith(done) or not after.startswith(before):
            raise RunError(
                "bad_data",
                "The model's chat template rewrites earlier turns, so a chat of several turns cannot be trained on.",
                "Use rows with one answer each, or another base model.",
                "data.columns.messages",
            )
        context = encode(engine, before[len(done) :])
        reply = encode(engine, after[len(before) :])
        tokens += context + reply
        weights += [0.0] * len(context) + _until_end_of_turn(engine, reply)
        done = after
    if not any(weights):
        return None
    first = next(i for i, weight in enumerate(weights) if weight)
    last = len(weights) - next(i for i, weight in enumerate(reversed(weights)) if weight)
    if first == 0:
        first = 1  # the first token of all cannot be predicted from anything
    return Datum(tokens[: last - 1], tokens[first:last], {"weights": weights[first:last]})


def text_datum(engine: Engine, text: str) -> Datum | None:
    """A plain text, every token of it to be learned, and that it ends. None for a text without a second token."""
    tokens = encode(engine, text)
    if engine.tokenizer.eos_token_id is not None:
        tokens.append(int(engine.tokenizer.eos_token_id))
    if len(tokens) < 2:
        return None
    return Datum(tokens[:-1], tokens[1:], {"weights": [1.0] * (len(tokens) - 1)})


def stop_tokens(engine: Engine) -> tuple[int, ...]:
    """The tokens that end an answer: the tokenizer's end of sequence, and those the model's own settings name."""
    named: Any = getattr(engine.model, "generation_config", None)
    ends = getattr(named, "eos_token_id", None)
    ids = set(ends if isinstance(ends, list) else [ends]) | {engine.tokenizer.eos_token_id}
    return tuple(sorted(token for token in ids if isinstance(token, int)))


def completion_text(engine: Engine, tokens: Sequence[int]) -> str:
    """What a person reads of a completion: without markup such as the end-of-turn token."""
    return str(engine.tokenizer.decode(list(tokens), skip_special_tokens=True))


def _until_end_of_turn(engine: Engine, reply: list[int]) -> list[float]:
    ends = stop_tokens(engine)
    length = next((index + 1 for index, token in enumerate(reply) if token in ends), len(reply))
    return [1.0] * length + [0.0] * (len(reply) - length)


def encode(engine: Engine, text: str) -> list[int]:
    """A text that holds its markup already, as tokens."""
    return list(engine.tokenizer(text, add_special_tokens=False)["input_ids"])


def render(engine: Engine, messages: Sequence[Message], *, generation: bool) -> str:
    """A chat in the markup of the model's template; ``generation``: up to where the model is to answer."""
    if not engine.tokenizer.chat_template:
        raise RunError(
            "base_model",
            "The base model has no chat template, so prompts cannot be put to it.",
            "Choose an instruction-tuned model, or add a chat template to its tokenizer.",
            "model.base",
        )
    try:
        chat = [dict(message) for message in messages]
        return str(engine.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=generation))
    except TemplateError as error:
        raise RunError(
            "bad_data",
            f"The model's chat template refuses a row: {error}.",
            "Check the roles of the messages; some models take no system message.",
            "data.columns",
        ) from error
