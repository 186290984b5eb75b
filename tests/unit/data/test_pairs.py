"""Preference pairs and plain text, in the shapes that people publish them in."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from trainers.data.inspection import inspect_dataset
from trainers.data.loading import LoadedRows, load_rows, split_rows
from trainers.errors import RunError
from trainers.spec import Columns, Data

ASK = {"role": "user", "content": "Hi"}
GOOD = {"role": "assistant", "content": "Hello."}
BAD = {"role": "assistant", "content": "What?"}
SHORT = {"role": "system", "content": "Be brief."}


def load(*rows: Any, columns: Columns | None = None, system: str | None = None, **flags: Any) -> LoadedRows:
    content = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    data = Data(source="d", columns=columns or Columns(), system_prompt=system)
    return load_rows(io.BytesIO(content.encode()), "d.jsonl", data, **flags)


def kinds(*rows: Any) -> list[str]:
    content = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    report = inspect_dataset(io.BytesIO(content.encode()), "d.jsonl")
    return [problem.kind for problem in report.problems if problem.severity == "error"]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hi", "chosen": "Hello.", "rejected": "What?"},
        {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": "Hi", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"prompt": "Hi", "chosen": GOOD, "rejected": BAD},
        {"chosen": [ASK, GOOD], "rejected": [ASK, BAD]},
        {"chosen": json.dumps([ASK, GOOD]), "rejected": json.dumps([ASK, BAD])},
        {"chosen": "\n\nHuman: Hi\n\nAssistant: Hello.", "rejected": "\n\nHuman: Hi\n\nAssistant: What?"},
        {"prompt": "Hi", "messages": [ASK, GOOD], "chosen": [ASK, GOOD], "rejected": [ASK, BAD], "score_chosen": 7.5},
        {"question": "Hi", "chosen_response": "Hello.", "rejected_response": "What?"},
        {"input": "Hi", "preferred_output": "Hello.", "non_preferred_output": "What?"},
        {"问题": "Hi", "优选": "Hello.", "拒绝": "What?"},
    ],
)
def test_a_pair_is_two_whole_chats_with_one_prompt(row: dict[str, Any]) -> None:
    [loaded] = load(row, for_pairs=True).rows
    assert loaded.prompt_messages == (ASK,)
    assert loaded.chosen == (ASK, GOOD) and loaded.rejected == (ASK, BAD)
    assert loaded.messages == (ASK, GOOD) and loaded.answer == "Hello."  # the better one can be imitated


def test_system_prompts_lead_both_sides() -> None:
    [row] = load({"chosen": [SHORT, ASK, GOOD], "rejected": [SHORT, ASK, BAD]}, system="Be kind.").rows
    system = {"role": "system", "content": "Be kind.\n\nBe brief."}
    assert row.prompt_messages == (system, ASK)
    assert row.chosen == (system, ASK, GOOD) and row.rejected == (system, ASK, BAD)


def test_a_longer_conversation_shares_all_but_the_last_answer() -> None:
    more = {"role": "user", "content": "And?"}
    [row] = load({"chosen": [ASK, GOOD, more, GOOD], "rejected": [ASK, GOOD, more, BAD]}).rows
    assert row.prompt_messages == (ASK, GOOD, more) and row.rejected == (ASK, GOOD, more, BAD)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"prompt": "Hi", "chosen": "Hello.", "rejected": "Hello."}, "same_pair"),
        ({"prompt": "Hi", "chosen": "Hello.", "rejected": "  "}, "empty_answer"),
        ({"prompt": "Hi", "chosen": None, "rejected": "What?"}, "empty_answer"),
        ({"prompt": "Hi", "chosen": [ASK], "rejected": [ASK, BAD]}, "empty_answer"),
        ({"prompt": "Hi", "chosen": [], "rejected": [BAD]}, "empty_answer"),
        ({"prompt": " ", "chosen": "Hello.", "rejected": "What?"}, "empty_prompt"),
        ({"chosen": "Hello.", "rejected": "What?"}, "no_prompt"),
        ({"prompt": "Ho", "chosen": [ASK, GOOD], "rejected": [ASK, BAD]}, "other_prompt"),
        ({"prompt": "Hi", "chosen": 3, "rejected": "What?"}, "wrong_type"),
        ({"prompt": "Hi", "chosen": [{"role": "judge", "content": "x"}], "rejected": "What?"}, "wrong_messages"),
    ],
)
def test_a_broken_pair_is_named(row: dict[str, Any], kind: str) -> None:
    assert kinds(row) == [kind]


def test_data_without_pairs_is_refused_where_pairs_are_needed() -> None:
    with pytest.raises(RunError, match=r"Line 1: It holds no pair of answers"):
        load({"prompt": "q", "answer": "a"}, for_pairs=True)


def test_half_a_pair_is_an_ordinary_row() -> None:
    [row] = load({"prompt": "q", "answer": "a", "rejected": "b"}).rows
    assert row.chosen is None and row.answer == "a"


def test_plain_text_is_kept_whole_for_imitation_alone() -> None:
    [row] = load({"text": "  One line.\nAnother. ", "id": 3}, for_sft=True).rows
    assert row.text == "One line.\nAnother." and row.prompt_messages == () and row.messages is None
    for flags in ({}, {"need_answer": True}, {"for_sft": True, "need_answer": True}):
        with pytest.raises(RunError, match="plain text without a question"):
            load({"text": "x"}, **flags)


def test_a_text_with_a_label_is_a_question_with_its_answer() -> None:
    [row] = load({"text": "Great film", "label": "good"}, need_answer=True).rows
    assert row.prompt_messages[0]["content"] == "Great film" and row.answer == "good" and row.text is None


def test_texts_are_held_out_by_what_they_say() -> None:
    rows = load({"text": "a b"}, {"text": "A  b"}, {"text": "c"}, {"text": "d"}, for_sft=True).rows
    train, held_out = split_rows(rows, 1, 0)
    assert {row.fingerprint() for row in train}.isdisjoint(row.fingerprint() for row in held_out)
    assert len({row.fingerprint() for row in rows}) == 3 and len({row.key for row in rows}) == 4


def test_columns_of_a_pair_can_be_chosen_by_hand() -> None:
    wanted = Columns(prompt="q", chosen="a", rejected="b")
    [row] = load({"q": "Hi", "a": "Hello.", "b": "What?", "text": "x"}, columns=wanted, for_pairs=True).rows
    assert row.rejected == (ASK, BAD)
