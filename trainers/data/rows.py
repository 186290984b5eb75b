"""Turns the columns of a record into a row that recipes can use, or says why that cannot be done."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainers.data.columns import ColumnMap
from trainers.data.record import RowFault, type_words

TEXT_CHARACTERS = 400_000
_ROLES = {
    "user": "user", "human": "user", "prompter": "user", "用户": "user", "问": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant", "bot": "assistant",
    "助手": "assistant", "答": "assistant", "system": "system", "系统": "system", "developer": "system",
}  # fmt: skip
_CHAT = 'Write it as [{"role": "user", "content": "..."}, ...].'

_SURROGATE = re.compile("[\ud800-\udfff]")

Chat = tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class DataRow:
    """One usable row; see :class:`trainers.recipes.context.Row`. ``line`` is where it begins in the file."""

    line: int
    prompt_messages: Chat
    answer: str | None
    messages: Chat | None
    row: Mapping[str, Any]
    key: str

    def fingerprint(self) -> str:
        """Equal for prompts that differ only in white space, letter case or Unicode form, whatever the system says."""
        turns = [[m["role"], _folded(m["content"])] for m in self.prompt_messages if m["role"] != "system"]
        return hashlib.sha256(json.dumps(turns).encode()).hexdigest()


def build_row(line: int, columns: Mapping[str, Any], using: ColumnMap, system: str | None = None) -> DataRow:
    """The row of one record; its answer may be None. Raises :class:`RowFault`."""
    if using.messages is not None and using.prompt is None:
        prompt, reply = _chat_of(columns, using.messages)
    else:
        prompt, reply = _prompt_of(columns, using), None
    own_system = _text(columns, using.system) if using.system is not None else None
    prompt = _with_system(prompt, [system, own_system])
    answer = _answer_of(columns, using.answer) if using.answer is not None else None
    if answer is None and reply is not None:
        answer = reply["content"]
    said = reply or (None if answer is None else {"role": "assistant", "content": answer})
    messages = (*prompt, said) if said is not None else None
    key = hashlib.sha256(json.dumps(prompt, sort_keys=True).encode()).hexdigest()[:16]
    return DataRow(line, prompt, answer, messages, columns, key)


def _prompt_of(columns: Mapping[str, Any], using: ColumnMap) -> Chat:
    assert using.prompt is not None
    value = columns.get(using.prompt)
    if isinstance(value, list):  # a conversation in the prompt's column
        messages = _messages(value, using.prompt)
        _check_user_turn(messages, using.prompt)
        return messages
    if using.prompt not in columns:
        message = f"It has no column {using.prompt!r}, which holds the prompts."
        raise RowFault("missing_column", message, "Add it, or remove the row.", using.prompt)
    text = _text(columns, using.prompt)
    if not text:
        raise RowFault("empty_prompt", "The prompt is empty.", "Fill it in, or remove the row.", using.prompt)
    more = _text(columns, using.context) if using.context is not None else ""
    return ({"role": "user", "content": f"{text}\n\n{more}" if more else text},)


def _chat_of(columns: Mapping[str, Any], column: str) -> tuple[Chat, dict[str, str] | None]:
    """The chat up to its last question, and the reply to it if there is one."""
    value = columns.get(column)
    if isinstance(value, str) and value.lstrip().startswith("["):  # in CSV a chat is a text
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise RowFault("wrong_messages", "The messages are not valid JSON.", _CHAT, column) from None
    if not isinstance(value, list):
        raise RowFault("wrong_type", f"The messages are {type_words(value)}, not a list.", _CHAT, column)
    messages = _messages(value, column)
    _check_user_turn(messages, column)
    if messages[-1]["role"] == "assistant":
        return messages[:-1], messages[-1]
    return messages, None


def _messages(value: Sequence[Any], column: str) -> Chat:
    return tuple(_message(item, number, column) for number, item in enumerate(value, start=1))


def _message(item: Any, number: int, column: str) -> dict[str, str]:
    """One message, as OpenAI (role, content) or ShareGPT (from, value) writes it."""
    if not isinstance(item, dict):
        raise RowFault("wrong_messages", f"Message {number} is {type_words(item)}, not an object.", _CHAT, column)
    role = item.get("role", item.get("from"))
    known = _ROLES.get(role.strip().casefold()) if isinstance(role, str) else None
    if known is None:
        advice = "Use the roles system, user and assistant."
        said = repr(role[:60]) if isinstance(role, str) else type_words(role)
        raise RowFault("wrong_messages", f"The role of message {number} is {said}, which is not known.", advice, column)
    content = item.get("content", item.get("value"))
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str):
        message = f"The content of message {number} is {type_words(content)}, not a text."
        raise RowFault("wrong_type", message, _CHAT, column)
    return {"role": known, "content": _checked(content, column)}


def _check_user_turn(messages: Chat, column: str) -> None:
    if not any(message["role"] == "user" and message["content"].strip() for message in messages):
        advice = "A chat needs at least one message of the user with a text in it."
        raise RowFault("no_user_turn", "The messages hold no turn of the user.", advice, column)


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
            return json.dumps(value)
        except ValueError:  # a whole number of more digits than Python converts
            raise RowFault("wrong_type", "The answer is a number of thousands of digits.", "", column) from None
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        last = _messages(value, column)[-1]
        return last["content"].strip() or None
    return _text(columns, column) or None


def _text(columns: Mapping[str, Any], column: str) -> str:
    """A text without surrounding space; empty when missing or null."""
    value = columns.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        message = f"Column {column!r} is {type_words(value)}, not a text."
        raise RowFault("wrong_type", message, "Write it as a text, or choose another column.", column)
    return _checked(value, column).strip()


def _checked(text: str, column: str) -> str:
    if len(text) > TEXT_CHARACTERS:
        message = f"Column {column!r} has {len(text):,} characters; at most {TEXT_CHARACTERS:,} can be used."
        raise RowFault("too_long", message, "Shorten it, or split the row.", column)
    if "\0" in text:
        message = f"Column {column!r} holds a NUL character."
        raise RowFault("nul", message, "Remove it; the file may be damaged.", column)
    if _SURROGATE.search(text):
        message = f"Column {column!r} holds bytes that are not valid UTF-8."
        raise RowFault("not_utf8", message, "Save the file as UTF-8, or correct this row.", column)
    return text


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
