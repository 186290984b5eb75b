"""Which column of a dataset plays which part: as the user says, or by the names that people usually give them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainers.spec import Columns

PARTS = ("prompt", "answer", "messages", "system", "chosen", "rejected", "text")
# The reason of a column that the user named.
BY_HAND = "chosen by you"

# Usual names, the surest first.
_NAMES: dict[str, tuple[str, ...]] = {
    "prompt": (
        *("prompt", "question", "instruction", "query", "problem", "user_prompt", "user_input", "input", "user"),
        *("问题", "题目", "指令", "提问", "题干", "提示词", "提示", "输入", "用户", "问"),
    ),
    "answer": (
        *("answer", "response", "output", "completion", "solution", "label", "target", "reference", "final_answer"),
        *("reference_answer", "expected", "expected_output", "ground_truth", "gold", "reply", "assistant", "result"),
        *("答案", "标准答案", "参考答案", "正确答案", "回答", "输出", "回复", "解答", "结果", "标签", "答"),
    ),
    "messages": (
        *("messages", "conversations", "conversation", "dialogue", "dialog", "chat", "turns"),
        *("对话", "多轮对话", "消息", "会话"),
    ),
    "system": ("system", "system_prompt", "system_message", "系统提示词", "系统提示", "系统"),
    "chosen": (
        *("chosen", "preferred", "accepted", "winner", "better", "chosen_response", "response_chosen"),
        *("preferred_output", "选中", "优选", "更好"),
    ),
    "rejected": (
        *("rejected", "dispreferred", "non_preferred", "loser", "worse", "rejected_response", "response_rejected"),
        *("non_preferred_output", "拒绝", "劣选", "更差"),
    ),
    "text": ("text", "content", "document", "passage", "文本", "正文", "内容"),
}
# Pairs go first: `rejected_response` is a rejected answer before it is a response.
_ORDER = ("chosen", "rejected", "prompt", "answer", "messages", "system", "text")
# Words that tell a part even within a longer name, such as `math_question` or `中文题目`.
_WORDS = {
    "prompt": ("prompt", "question", "instruction", "query", "问题", "题目", "指令", "题干"),
    "answer": ("answer", "response", "solution", "completion", "答案", "回答", "解答"),
    "chosen": ("chosen",),
    "rejected": ("rejected",),
}
_ABOUT = {
    "id",
    "ids",
    "type",
    "kind",
    "count",
    "len",
    "length",
    "score",
    "source",
    "date",
    "time",
    "lang",
    "index",
    "idx",
}
_CONTEXT = ("input", "context", "输入", "上下文")


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The column of each part (None: no such column), and in ``reasons`` why it was taken.

    ``context`` is the second half of an Alpaca prompt: it follows the instruction after an empty line.
    """

    prompt: str | None = None
    answer: str | None = None
    messages: str | None = None
    system: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    text: str | None = None
    context: str | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        return not (self.prompt is None and self.messages is None and self.text is None and not self.pairs)

    @property
    def pairs(self) -> bool:
        """Whether rows hold a better and a worse answer."""
        return self.chosen is not None and self.rejected is not None

    def part_of(self, column: str) -> str | None:
        return next((part for part in (*PARTS, "context") if getattr(self, part) == column), None)


class NoSuchColumn(ValueError):
    """The user named a column that the data does not have."""

    def __init__(self, part: str, column: str, present: Sequence[str]) -> None:
        super().__init__(f"There is no column {column!r} for the {part}. The columns are {listed(present)}.")
        self.part, self.column = part, column


def choose_columns(rows: Sequence[Mapping[str, Any]], wanted: Columns | None) -> ColumnMap:
    """The columns of a dataset by its first rows. Raises :class:`NoSuchColumn`."""
    present = column_names(rows)
    chosen: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for part in PARTS:
        column = getattr(wanted, part) if wanted is not None else None
        if column is not None:
            if column not in present:
                raise NoSuchColumn(part, column, present)
            chosen[part], reasons[part] = column, BY_HAND
    for part in _ORDER:
        if part not in chosen:
            free = [column for column in present if column not in chosen.values()]
            if found := _by_name(part, free):
                chosen[part], reasons[part] = found
    _prefer_one_kind(chosen, reasons, wanted)
    context = _alpaca_context(chosen, reasons, present, wanted)
    return ColumnMap(**chosen, context=context, reasons=reasons)


def column_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """All columns of some rows, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names as part of a sentence, quoted, cut after ``most``."""
    shown = [repr(name if len(name) <= 60 else name[:59] + "…") for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    if len(shown) < 2:
        return "".join(shown) or "none"
    return ", ".join(shown[:-1]) + " and " + shown[-1]


def _by_name(part: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """A column with one of the part's usual names, else the only one that has such a name within its own."""
    plain = {column: _plain(column) for column in columns}
    for name in _NAMES[part]:
        for column in columns:
            if plain[column] == name:
                return column, "by its name"
    within = [column for column in columns if _has_within(plain[column], _WORDS.get(part, ()))]
    return (within[0], "by a part of its name") if len(within) == 1 else None


def _plain(name: str) -> str:
    """``User Prompt``, ``userPrompt`` and ``user-prompt`` are all ``user_prompt``."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name).strip())
    return re.sub(r"[\s\-.]+", "_", name.casefold())


def _has_within(name: str, usual: Sequence[str]) -> bool:
    words = set(name.split("_"))
    return not words & _ABOUT and any(word in (words if word.isascii() else name) for word in usual)


def _prefer_one_kind(chosen: dict[str, str], reasons: dict[str, str], wanted: Columns | None) -> None:
    """Of several kinds of rows that were all found, keep the one the user named, or that holds the most.

    A pair says more than a chat, and a chat or a prompt more than a text; of a prompt and a chat the one that brings
    its answer along is kept.
    """
    named = {part for part in PARTS if wanted is not None and getattr(wanted, part) is not None}
    if ("chosen" in chosen) != ("rejected" in chosen):  # half a pair is none
        for part in {"chosen", "rejected"} & set(chosen) - named:
            del chosen[part], reasons[part]
    if "chosen" in chosen and "messages" not in named:
        _drop(chosen, reasons, "messages")
    if "text" in chosen and "text" not in named:
        if {"prompt", "messages", "chosen"} & set(chosen):
            _drop(chosen, reasons, "text")
        elif "answer" in chosen:  # a text with a label is a question with its answer
            chosen["prompt"], reasons["prompt"] = chosen["text"], "by its name, beside an answer"
            _drop(chosen, reasons, "text")
    if "prompt" not in chosen or "messages" not in chosen:
        return
    asked = named & {"prompt", "messages"}
    loser = "messages" if asked == {"prompt"} or (not asked and "answer" in chosen) else "prompt"
    _drop(chosen, reasons, loser)


def _drop(chosen: dict[str, str], reasons: dict[str, str], part: str) -> None:
    chosen.pop(part, None)
    reasons.pop(part, None)


def _alpaca_context(
    chosen: Mapping[str, str], reasons: dict[str, str], present: Sequence[str], wanted: Columns | None
) -> str | None:
    """The ``input`` beside an ``instruction``, unless the user chose the prompt's column by hand."""
    prompt = chosen.get("prompt")
    if prompt is None or (wanted is not None and wanted.prompt) or _plain(prompt) not in ("instruction", "指令"):
        return None
    for column in present:
        if _plain(column) in _CONTEXT and column not in chosen.values():
            reasons["context"] = "by its name, beside an instruction"
            return column
    return None
