"""Texts and chats out of the columns of a row, as people and programs write them, or what is wrong with them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from trainers.data.record import RowFault, type_words

TEXT_CHARACTERS = 400_000
_ROLES = {
    "user": "user", "human": "user", "prompter": "user", "用户": "user", "问": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant", "bot": "assistant",
    "助手": "assistant", "答": "assistant", "system": "system", "系统": "system", "developer": "system",
}  # fmt: skip
CHAT_SHAPE = 'Write it as [{"role": "user", "content": "..."}, ...].'

_SURROGATE = re.compile("[\ud800-\udfff]")

Chat = tuple[dict[str, str], ...]


def chat_value(value: Any) -> Any:
    """A chat as a list: in CSV a chat is a text. Raises ``ValueError`` for a text that begins like one and is none."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    return value


def messages_of(value: Sequence[Any], column: str) -> Chat:
    return tuple(_message(item, number, column) for number, item in enumerate(value, start=1))


def _message(item: Any, number: int, column: str) -> dict[str, str]:
    """One message, as OpenAI (role, content) or ShareGPT (from, value) writes it."""
    if not isinstance(item, dict):
        raise RowFault("wrong_messages", f"Message {number} is {type_words(item)}, not an object.", CHAT_SHAPE, column)
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
        raise RowFault("wrong_type", message, CHAT_SHAPE, column)
    return {"role": known, "content": checked(content, column)}


def check_user_turn(messages: Chat, column: str) -> None:
    if not any(message["role"] == "user" and message["content"].strip() for message in messages):
        advice = "A chat needs at least one message of the user with a text in it."
        raise RowFault("no_user_turn", "The messages hold no turn of the user.", advice, column)


def text_of(columns: Mapping[str, Any], column: str) -> str:
    """A text without surrounding space; empty when missing or null."""
    value = columns.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        message = f"Column {column!r} is {type_words(value)}, not a text."
        raise RowFault("wrong_type", message, "Write it as a text, or choose another column.", column)
    return checked(value, column).strip()


def checked(text: str, column: str) -> str:
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


def folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
