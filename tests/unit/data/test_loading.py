from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.data.loading import LoadedRows, load_rows, split_rows, without_overlap
from trainers.data.rows import DataRow
from trainers.errors import RunError
from trainers.spec import Columns, Data


def load(rows: list[Any], flags: dict[str, Any] | None = None, **data: Any) -> LoadedRows:
    content = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return load_rows(io.BytesIO(content.encode()), "d.jsonl", Data(source="d", **data), **(flags or {}))


def refused(rows: list[Any], flags: dict[str, Any] | None = None, **data: Any) -> RunError:
    with pytest.raises(RunError) as caught:
        load(rows, flags, **data)
    assert caught.value.kind == "bad_data" and caught.value.advice and caught.value.field
    return caught.value


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def test_prompt_and_answer_become_messages() -> None:
    [row] = load([{"question": " 1+1? ", "answer": 2, "more": True}]).rows
    assert row.prompt_messages == (user("1+1?"),) and row.answer == "2"
    assert row.messages == (user("1+1?"), assistant("2"))
    assert row.row["more"] is True and row.line == 1


def test_a_row_without_an_answer_has_no_messages_to_imitate() -> None:
    [row] = load([{"question": "q"}]).rows
    assert row.answer is None and row.messages is None


def test_alpaca_rows_join_instruction_and_input() -> None:
    rows = load(
        [{"instruction": "Add.", "input": "1 2", "output": "3"}, {"instruction": "Hi", "input": "", "output": "Ho"}]
    ).rows
    assert [row.prompt_messages[0]["content"] for row in rows] == ["Add.\n\n1 2", "Hi"]


def test_sharegpt_conversations_become_messages() -> None:
    chat = [
        {"from": "system", "value": "s"},
        {"from": "human", "value": "a"},
        {"from": "gpt", "value": "b"},
        {"from": "human", "value": "c"},
        {"from": "gpt", "value": "d"},
    ]
    [row] = load([{"conversations": chat}]).rows
    assert row.prompt_messages == (system("s"), user("a"), assistant("b"), user("c"))
    assert row.answer == "d" and row.messages == (*row.prompt_messages, assistant("d"))


def test_an_answer_column_goes_before_the_last_turn_of_a_chat() -> None:
    [row] = load([{"messages": [user("q"), assistant("long way to 4")], "answer": "4"}]).rows
    assert row.answer == "4" and row.messages == (user("q"), assistant("long way to 4"))


def test_a_chat_in_the_column_of_the_prompt_is_a_chat() -> None:
    [row] = load([{"prompt": [system("s"), user("q")], "completion": [assistant("a")]}]).rows
    assert row.prompt_messages == (system("s"), user("q")) and row.answer == "a"


def test_a_chat_written_as_text_in_csv_is_read() -> None:
    content = 'messages\n"[{""role"": ""user"", ""content"": ""q""}]"\n'
    [row] = load_rows(io.BytesIO(content.encode()), "d.csv", Data(source="d")).rows
    assert row.prompt_messages == (user("q"),)


def test_system_prompts_of_task_and_row_stand_at_the_start() -> None:
    [row] = load([{"prompt": "q", "system": "of the row"}], system_prompt="of the task").rows
    assert row.prompt_messages == (system("of the task\n\nof the row"), user("q"))


def test_worked_solutions_are_kept_whole() -> None:
    assert load([{"question": "q", "answer": "1+1=2\n#### 2"}]).rows[0].answer == "1+1=2\n#### 2"


def test_the_key_is_that_of_the_prompt_alone() -> None:
    one, two, three = load(
        [{"prompt": "q", "answer": "1"}, {"prompt": "q", "answer": "2"}, {"prompt": "r", "answer": "1"}]
    ).rows
    assert one.key == two.key != three.key


def test_bad_rows_are_refused_by_line_with_the_reason() -> None:
    error = refused([{"prompt": "a"}, {"prompt": ""}, {"prompt": "b"}, {"prompt": 3}])
    assert "2 of 4 rows" in error.message and "Line 2: The prompt is empty; line 4: " in error.message
    assert "`max_bad_rows` to 2" in error.advice and error.field == "data.max_bad_rows"


def test_bad_rows_within_the_allowance_are_left_out_and_listed() -> None:
    loaded = load([{"prompt": "a"}, {"prompt": ""}, {"prompt": "b"}], max_bad_rows=1)
    assert [row.line for row in loaded.rows] == [1, 3] and loaded.total == 3
    assert [(bad.line, bad.kind) for bad in loaded.bad] == [(2, "empty_prompt")]


def test_many_bad_rows_are_cut_short() -> None:
    error = refused([{"prompt": "a"}, *[{"prompt": ""}] * 500])
    assert "and 480 more" in error.message and len(error.message) < 2000


@pytest.mark.parametrize("flags", [{"need_answer": True}, {"for_sft": True}])
def test_answers_are_asked_for_only_where_they_are_needed(flags: dict[str, bool]) -> None:
    rows = [{"prompt": "a", "answer": "1"}, {"prompt": "b", "answer": None}]
    assert len(load(rows).rows) == 2
    assert "line 2: The answer is empty" in refused(rows, flags).message.replace("Line", "line")


def test_a_check_of_the_reward_makes_rows_bad() -> None:
    def check(row: DataRow) -> str | None:
        return None if row.answer == "1" else "The answer holds no number."

    assert (
        "holds no number"
        in refused([{"prompt": "a", "answer": "1"}, {"prompt": "b", "answer": "x"}], {"check": check}).message
    )


def test_columns_that_cannot_be_told_are_refused_with_their_names() -> None:
    error = refused([{"x": "a", "y": "b"}])
    assert "'x' and 'y'" in error.message and error.field == "data.columns.prompt"
    error = refused([{"x": "a", "y": "b"}], columns=Columns(prompt="z"))
    assert "no column 'z'" in error.message and error.field == "data.columns.prompt"


def test_a_file_with_nothing_to_use_is_refused() -> None:
    for content in (b"", b"PAR1xxxx", b"[]", b"prompt\n"):
        with pytest.raises(RunError) as caught:
            load_rows(io.BytesIO(content), "d", Data(source="d"))
        assert caught.value.kind == "bad_data"


def test_only_broken_rows_are_told_one_by_one_even_when_columns_were_chosen() -> None:
    error = refused(["x", "y"], columns=Columns(prompt="z"))
    assert "line 2: " in error.message


def test_broken_rows_at_the_start_do_not_hide_the_columns() -> None:
    assert len(load([*["x"] * 300, {"prompt": "a"}], max_bad_rows=300).rows) == 1


def test_a_limit_stops_reading() -> None:
    loaded = load([{"prompt": "a"}, {"prompt": "b"}, {"prompt": ""}], limit=2)
    assert len(loaded.rows) == 2 and loaded.bad == []


def rows_of(*prompts: str) -> list[DataRow]:
    return load([{"prompt": prompt, "answer": str(index)} for index, prompt in enumerate(prompts)]).rows


def test_held_out_prompts_are_never_trained_on_however_they_are_written() -> None:
    rows = rows_of(*[form for n in range(20) for form in (f"What is {n}?", f"  what IS\u3000{n}？ ", f"What is {n}?")])
    train, held_out = split_rows(rows, 5, seed=1)
    assert len(held_out) == 5 and len(train) == 45
    assert {row.fingerprint() for row in train}.isdisjoint(row.fingerprint() for row in held_out)


def test_the_split_follows_seed_and_prompts_and_not_the_order_of_the_file() -> None:
    rows = rows_of(*[f"q{n}" for n in range(50)])
    one, two = split_rows(rows, 10, 3), split_rows(list(reversed(rows)), 10, 3)
    assert [row.key for row in one[1]] == [row.key for row in two[1]]
    assert {row.key for row in split_rows(rows, 10, 4)[1]} != {row.key for row in one[1]}


def test_small_data_keeps_at_least_half_to_train_on() -> None:
    train, held_out = split_rows(rows_of("a", "b", "c", "d", "e"), 64, 0)
    assert (len(train), len(held_out)) == (3, 2)


def test_nothing_to_hold_out_is_said() -> None:
    with pytest.raises(RunError, match="1 different prompt") as caught:
        split_rows(rows_of("a", "A ", "a"), 4, 0)
    assert caught.value.field == "evaluation.prompts"
    assert split_rows(rows_of("a"), 0, 0)[1] == []


@given(
    st.lists(st.sampled_from(["a", "A", " a", "b", "B", "c", "d", "e f", "e  F"]), min_size=6, max_size=30),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_no_split_leaks(prompts: list[str], wanted: int, seed: int) -> None:
    rows = rows_of("x", "y", *prompts)
    train, held_out = split_rows(rows, wanted, seed)
    assert train and held_out and len(held_out) <= wanted
    fold = lambda row: " ".join(row.prompt_messages[0]["content"].split()).casefold()  # noqa: E731
    assert {fold(row) for row in train}.isdisjoint(map(fold, held_out))
    assert len({fold(row) for row in held_out}) == len(held_out)


def test_training_rows_that_are_in_the_evaluation_data_are_left_out() -> None:
    train = rows_of("a", "b", "c")
    assert [row.prompt_messages[0]["content"] for row in without_overlap(train, rows_of("B", "x"))] == ["a", "c"]
    with pytest.raises(RunError, match="Every prompt"):
        without_overlap(train, rows_of("a", "b", "c"))
