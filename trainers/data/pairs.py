"""Preference pairs: a better and a worse answer to the same question, in the shapes that people publish them in.

Each of the two is a text, or a chat. A chat may begin with the question; then it need not stand in a column of its
own. Transcripts ("\\n\\nHuman: ... \\n\\nAssistant: ...") are chats written as a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from trainers.data.chats import CHAT_SHAPE, Chat, chat_value, check_user_turn, messages_of, text_of
from trainers.data.columns import ColumnMap
from trainers.data.record import RowFault

_TURN = re.compile(r"(?:^|\n\n)(Human|User|Assistant):[ \t]?")
_ROLE = {"Human": "user", "User": "user", "Assistant": "assistant"}
PromptOf = Callable[[Mapping[str, Any], ColumnMap], Chat]


def pair_of(columns: Mapping[str, Any], using: ColumnMap, prompt_of: PromptOf | None) -> tuple[Chat, Chat, Chat]:
    """``(prompt, chosen, rejected)``: the chat up to the question, and each answer's own messages after it.

    ``prompt_of`` reads the column of the question; None when there is no such column. Raises :class:`RowFault`.
    """
    assert using.chosen is not None and using.rejected is not None
    better, worse = (_side(columns, column) for column in (using.chosen, using.rejected))
    prompt = _prompt(columns, using, prompt_of, better, worse)
    chosen, rejected = _reply(better, prompt, using.chosen), _reply(worse, prompt, using.rejected)
    if chosen == rejected:
        advice = "A pair teaches by its difference: correct one of them, or remove the row."
        raise RowFault("same_pair", "The chosen and the rejected answer are the same.", advice, using.rejected)
    return prompt, chosen, rejected


def _side(columns: Mapping[str, Any], column: str) -> Chat:
    """One side of a pair as messages: a chat, a transcript, or one message of the assistant."""
    try:
        value = chat_value(columns.get(column))
    except ValueError:
        value = columns.get(column)  # a text that begins with a bracket
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list):
        messages = messages_of(value, column)
    else:
        text = text_of(columns, column)
        messages = _transcript(text) or ({"role": "assistant", "content": text},)
    if not messages or messages[-1]["role"] != "assistant" or not messages[-1]["content"].strip():
        advice = "Fill it in, or remove the row. A chat must end with what the assistant says."
        raise RowFault("empty_answer", f"Column {column!r} holds no answer.", advice, column)
    return messages


def _transcript(text: str) -> Chat | None:
    marks = list(_TURN.finditer(text))
    if not marks or marks[0].start() > 0 or _ROLE[marks[0][1]] != "user":
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return tuple(
        {"role": _ROLE[mark[1]], "content": text[mark.end() : end].strip()}
        for mark, end in zip(marks, ends, strict=True)
    )


def _prompt(
    columns: Mapping[str, Any], using: ColumnMap, prompt_of: PromptOf | None, better: Chat, worse: Chat
) -> Chat:
    if prompt_of is not None:
        return prompt_of(columns, using)
    shared = 0
    while shared < min(len(better), len(worse)) - 1 and better[shared] == worse[shared]:
        shared += 1
    # A turn of the assistant that both share still belongs to the prompt; the answer begins after a question.
    while shared and better[shared - 1]["role"] == "assistant":
        shared -= 1
    prompt = better[:shared]
    if not prompt:
        message = "The chosen and the rejected answer share no question."
        advice = f"Add a column with the prompt, or begin both chats with the same question. {CHAT_SHAPE}"
        raise RowFault("no_prompt", message, advice, using.chosen)
    check_user_turn(prompt, using.chosen or "")
    return prompt


def _reply(side: Chat, prompt: Chat, column: str) -> Chat:
    """What a side says after the prompt, which it may repeat."""
    turns = tuple(message for message in side if message["role"] != "system")
    asked = tuple(message for message in prompt if message["role"] != "system")
    if len(turns) > len(asked) and _same(turns[: len(asked)], asked):
        turns = turns[len(asked) :]
    if turns[0]["role"] != "assistant":
        message = f"The chat in column {column!r} begins with another question than the prompt."
        advice = "Begin it with the same question, or with the answer alone."
        raise RowFault("other_prompt", message, advice, column)
    return turns


def _same(one: Chat, other: Chat) -> bool:
    return [(m["role"], m["content"].strip()) for m in one] == [(m["role"], m["content"].strip()) for m in other]
