"""The events of a journal: what each kind carries, and how one is made fit to be kept.

An event is a flat JSON object ``{seq, t, kind, step?, …}``. Recipes emit the kinds below; the journal adds ``seq``
(1, 2, 3 … without gaps in one attempt) and ``t`` (unix seconds). NaN and infinities are kept as JSON's usual
extension (``NaN``, ``Infinity``). Text from models, rewards and users is hostile: what a database cannot hold is
replaced, and what is too long is cut with a visible mark.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal

Event = dict[str, Any]
Kind = Literal["metric", "progress", "log", "rollout", "checkpoint", "resume", "hint", "state"]
Level = Literal["debug", "info", "warning", "error"]
RunState = Literal["started", "succeeded", "failed", "cancelled", "paused"]

MAX_EVENT_BYTES = 256 * 1024
MAX_LOG_CHARS = 16 * 1024
MAX_NAME_CHARS = 200
MAX_DEPTH = 8

_NUMBER = (int, float)
_TEXT = (str,)
_OPTIONAL_TEXT = (str, type(None))

# Fields that a kind must have, with the types its readers rely on. More fields are allowed.
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "metric": {"step": (int,), "values": (dict,), "tokens": (int,), "active_s": _NUMBER},
    "progress": {
        "step": (int,),
        "total_steps": (int, type(None)),
        "phase": _TEXT,
        "fraction": _NUMBER,
        "eta_s": (int, float, type(None)),
    },
    "log": {"level": _TEXT, "text": _TEXT},
    "rollout": {
        "step": (int,),
        "phase": _TEXT,
        "group": (int,),
        "index": (int,),
        "prompt": _TEXT,
        "completion": _TEXT,
        "answer": _OPTIONAL_TEXT,
        "reward": _NUMBER,
        "parts": (dict,),
        "accurate": (bool,),
        "tokens": (int,),
        "truncated": (bool,),
        "prompt_key": _TEXT,
        "greedy": (bool,),
    },
    "checkpoint": {"step": (int,), "final": (bool,), "name": _TEXT, "uri": _TEXT, "files": (list,), "format": _TEXT},
    # The checkpoint that the run goes on from ("" and step 0: its beginning), and the keys of those it found damaged.
    "resume": {"step": (int,), "name": _TEXT, "uri": _TEXT, "damaged": (list,)},
    "hint": {"step": (int,), "code": _TEXT, "text": _TEXT, "advice": _TEXT, "field": _OPTIONAL_TEXT},
    "state": {"state": _TEXT, "result": (dict, type(None)), "error": (dict, type(None))},
}
CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("log", "level"): ("debug", "info", "warning", "error"),
    ("state", "state"): ("started", "succeeded", "failed", "cancelled", "paused"),
    ("rollout", "phase"): ("train", "before", "eval", "after"),
    ("progress", "phase"): ("loading", "evaluating", "sampling", "training", "exporting"),
}
TERMINAL_STATES: tuple[str, ...] = ("succeeded", "failed", "cancelled", "paused")


def make(kind: str, step: int | None = None, **fields: Any) -> Event:
    """A checked and cleaned event without ``seq`` and ``t``. Raises ``ValueError`` naming the field that is wrong."""
    if kind not in FIELDS:
        raise ValueError(f"there is no event kind {kind!r}; the kinds are {', '.join(FIELDS)}")
    event: Event = {"kind": kind}
    if step is not None:
        event["step"] = step
    event.update(fields)
    event = clean(event)
    for name, types in FIELDS[kind].items():
        if name not in event:
            raise ValueError(f"a {kind} event needs the field {name!r}")
        value = event[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"{kind}.{name} cannot be {type(value).__name__}")
        choices = CHOICES.get((kind, name))
        if choices is not None and value not in choices:
            raise ValueError(f"{kind}.{name} is {value!r}; it must be one of {', '.join(choices)}")
    if kind == "metric":
        for key, value in event["values"].items():
            if not isinstance(value, int | float):
                raise ValueError(f"metric.values[{key!r}] cannot be {type(value).__name__}")
    if kind == "log":
        event["text"] = shorten(event["text"], MAX_LOG_CHARS)
    return event


def log(level: Level, text: str) -> Event:
    """One line of the run's log."""
    return make("log", level=level, text=text)


def state(name: RunState, result: Mapping[str, Any] | None = None, error: Mapping[str, Any] | None = None) -> Event:
    """A turn in the life of an attempt; ``error`` is ``{kind, message, advice, field}``."""
    return make("state", state=name, result=result, error=error)


def encode(event: Mapping[str, Any]) -> bytes:
    """One line of JSON, ending in a line feed."""
    return _dump(event) + b"\n"


def decode(line: bytes) -> Event:
    """The event of one line. Raises ``ValueError`` for a line that is damaged."""
    event = json.loads(line)
    if not isinstance(event, dict) or not isinstance(event.get("seq"), int) or "kind" not in event:
        raise ValueError("not an event")
    return event


def _dump(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


# What Postgres cannot hold in text and JSON: NUL, and halves of UTF-16 pairs.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """``text`` with NUL characters and lone surrogates replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def clean(value: Any, depth: int = 0) -> Any:
    """Plain JSON values: numpy and torch scalars become numbers, tuples lists, keys short strings, the rest text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 63 else str(value)[:MAX_NAME_CHARS]
    if isinstance(value, float):
        return float(value)
    if depth >= MAX_DEPTH:
        return "… [too deeply nested]"
    if isinstance(value, Mapping):
        return {short_name(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [clean(item, depth + 1) for item in value]
    if callable(getattr(value, "item", None)) and getattr(value, "size", None) != 0:
        try:
            return clean(value.item(), depth + 1)
        except (ValueError, RuntimeError, TypeError):
            return clean_text(repr(value)[:MAX_NAME_CHARS])
    return clean_text(str(value))


def short_name(name: str) -> str:
    """A metric or field name of at most 200 characters; a cut one ends in a hash, so that two of them stay apart."""
    name = clean_text(name)
    if len(name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME_CHARS - 10]}… {digest}"


def shorten(text: str, limit: int) -> str:
    """``text`` cut to ``limit`` characters with a mark that says how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit} characters left out]"


def body(event: Event, limit: int = MAX_EVENT_BYTES) -> bytes:
    """The JSON of an event made by :func:`make`, at most ``limit`` bytes long.

    One that is larger is cut, with a ``cut`` field that says so: long strings are shortened first, the longest the
    most; then lists and objects lose their last items.
    """
    data = _dump(event)
    if len(data) <= limit:
        return data
    note = f"This event had {len(data)} bytes; parts of it were left out."
    for chars, items in _CUTS:
        smaller = _dump({**_cut(event, chars, items), "cut": note})
        if len(smaller) <= limit:
            return smaller
    return _dump(log("warning", f"A {event['kind']} event was left out: it had {len(data)} bytes."))


def number(data: bytes, seq: int, moment: float) -> bytes:
    """The line of a journal for a :func:`body`: ``seq`` and ``t`` put before the rest."""
    return b'{"seq":%d,"t":%.6f,' % (seq, moment) + data[1:] + b"\n"


_EVERYTHING = 1 << 40
_CUTS = [
    (65_536, _EVERYTHING),
    (16_384, _EVERYTHING),
    (4096, _EVERYTHING),
    (1024, 4000),
    (512, 1000),
    (256, 100),
    (100, 10),
]


def _cut(value: Any, chars: int, items: int) -> Any:
    if isinstance(value, str):
        return shorten(value, chars)
    if isinstance(value, dict):
        return {key: _cut(item, chars, items) for key, item in islice(value.items(), items)}
    if isinstance(value, list):
        return [_cut(item, chars, items) for item in value[:items]]
    return value
