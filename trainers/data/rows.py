"""Turns the columns of a record into a row that recipes can use, or says why that cannot be done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainers.data.chats import CHAT_SHAPE, Chat, chat_value, check_user_turn, folded, messages_of, text_of
from trainers.data.columns import ColumnMap
from trainers.data.pairs import pair_of
from trainers.data.record import RowFault, type_words


@dataclass(frozen=True, slots=True)
class DataRow:
    """One usable row; see :class:`trainers.recipes.context.Row`. ``line`` is where it begins in the file."""

    line: int
    prompt_messages: Chat
    answer: str | None
    messages: Chat | None
    row: Mapping[str, Any]
    key: str
    chosen: Chat | None = None
    rejected: Chat | None = None
    text: str | None = None

    @property
    def sides(self) -> tuple[Chat, Chat] | None:
        """What the better and the worse answer of a pair say after the prompt."""
        if self.chosen is None or self.rejected is None:
            return None
        asked = len(self.prompt_messages)
        return self.chosen[asked:], self.rejected[asked:]

    def fingerprint(self) -> str:
        """Equal for prompts that differ only in white space, letter case or Unicode form, whatever the system says."""
        if self.text is not None:
            turns = [["text", folded(self.text)]]
        else:
            turns = [[m["role"], folded(m["content"])] for m in self.prompt_messages if m["role"] != "system"]
        return hashlib.sha256(json.dumps(turns).encode()).hexdigest()


def build_row(line: int, columns: Mapping[str, Any], using: ColumnMap, system: str | None = None) -> DataRow:
    """The row of one record; its answer may be None. Raises :class:`RowFault`."""
    if using.text is not None and using.prompt is None and using.messages is None and not using.pairs:
        return _text_row(line, columns, using.text)
    chosen = rejected = None
    reply: dict[str, str] | None = None
    if using.pairs:
        prompt, chosen, rejected = pair_of(columns, using, _prompt_of if using.prompt is not None else None)
        reply = chosen[0] if len(chosen) == 1 else None
    elif using.messages is not None and using.prompt is None:
        prompt, reply = _chat_of(columns, using.messages)
    else:
        prompt = _prompt_of(columns, using)
    own_system = text_of(columns, using.system) if using.system is not None else None
    prompt = _with_system(prompt, [system, own_system])
    answer = _answer_of(columns, using.answer) if using.answer is not None else None
    if answer is None and reply is not None:
        answer = reply["content"]
    said = reply or (None if answer is None else {"role": "assistant", "content": answer})
    messages = (*prompt, said) if said is not None else None
    if chosen is not None and rejected is not None:
        chosen, rejected = (*prompt, *chosen), (*prompt, *rejected)
        messages = chosen
    return DataRow(line, prompt, answer, messages, columns, _key(prompt), chosen, rejected)


def _text_row(line: int, columns: Mapping[str, Any], column: str) -> DataRow:
    text = text_of(columns, column)
    if not text:
        raise RowFault("empty_text", "The text is empty.", "Fill it in, or remove the row.", column)
    return DataRow(line, (), None, None, columns, _key(text), text=text)


def _key(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _prompt_of(columns: Mapping[str, Any], using: ColumnMap) -> Chat:
    assert using.prompt is not None
    value = columns.get(using.prompt)
    if isinstance(value, list):  # a conversation in the prompt's column
        messages = messages_of(value, using.prompt)
        check_user_turn(messages, using.prompt)
        return messages
    if using.prompt not in columns:
        message = f"It has no column {using.prompt!r}, which holds the prompts."
        raise RowFault("missing_column", message, "Add it, or remove the row.", using.prompt)
    text = text_of(columns, using.prompt)
    if not text:
        raise RowFault("empty_prompt", "The prompt is empty.", "Fill it in, or remove the row.", using.prompt)
    more = text_of(columns, using.context) if using.context is not None else ""
    return ({"role": "user", "content": f"{text}\n\n{more}" if more else text},)


def _chat_of(columns: Mapping[str, Any], column: str) -> tuple[Chat, dict[str, str] | None]:
    """The chat up to its last question, and the reply to it if there is one."""
    value = columns.get(column)
    try:
        value = chat_value(value)
    except ValueError:
        raise RowFault("wrong_messages", "The messages are not valid JSON.", CHAT_SHAPE, column) from None
    if not isinstance(value, list):
        raise RowFault("wrong_type", f"The messages are {type_words(value)}, not a list.", CHAT_SHAPE, column)
    messages = messages_of(value, column)
    check_user_turn(messages, column)
    if messages[-1]["role"] == "assistant":
        return messages[:-1], messages[-1]
    return messages, None


def _with_system(prompt: Chat, texts: Sequence[str | None]) -> Chat:
    """All system prompts as one message at the start: the task's, the row's, the chat's own."""
    own = [message["content"] for message in prompt if message["role"] == "system"]
    said = [text.strip() for text in [*texts, *own] if text and text.strip()]
    rest = tuple(message for message in prompt if message["role"] != "system")
    return ({"role": "system", "content": "\n\n".join(said)}, *rest) if said else rest


def _answer_of(columns: Mapping[str, Any], column: str) -> str | None:
    """The answer as a text; numbers and truth values are written as JSON writes them. None when empty or missing."""
    value = columns.get(column)
    if isinstance(value, bool | int | float):
        try:
            return json.dumps(value, allow_nan=False)
        except ValueError:  # infinite, or a whole number of more digits than Python converts
            message = "The answer is no finite number, or one of thousands of digits."
            raise RowFault("wrong_type", message, "Write it as a text.", column) from None
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        last = messages_of(value, column)[-1]
        return last["content"].strip() or None
    return text_of(columns, column) or None
