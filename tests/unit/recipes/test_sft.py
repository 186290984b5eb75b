from __future__ import annotations

import pytest

from tests.benchmarks.recording import SimpleRow
from trainers.engine.batch import Datum
from trainers.errors import RunError
from trainers.recipes.chat import chat_datum, prompt_tokens
from trainers.recipes.run import run_recipe

QUESTION = {"role": "user", "content": "colour?"}


def chat(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


def row(index: int, answer: str | None = "green") -> SimpleRow:
    question = {"role": "user", "content": f"colour {index}?"}
    messages = [question, {"role": "assistant", "content": answer}] if answer else None
    return SimpleRow([question], answer, messages)


def run(context, tiny_folder, train, held_out=()):
    return run_recipe(context, model_path=tiny_folder, train_rows=train, eval_rows=held_out, scorer=None, threads=1)


def weighted_text(engine, datum: Datum) -> str:
    return engine.tokenizer.decode([t for t, w in zip(datum.targets, datum.arrays["weights"], strict=True) if w])


def test_only_what_the_assistant_says_is_trained_with_the_end_of_its_turn(engine):
    messages = chat(("system", "s"), ("user", "hi"), ("assistant", "hello"), ("user", "bye"), ("assistant", "ciao"))
    datum = chat_datum(engine, messages)
    assert weighted_text(engine, datum) == "hello<|im_end|>ciao<|im_end|>"
    whole = engine.tokenizer.apply_chat_template(messages, tokenize=False)
    assert whole.startswith(engine.tokenizer.decode([*datum.tokens, datum.targets[-1]]))
    assert datum.tokens[-len(datum.targets) + 1 :] == datum.targets[:-1]


def test_training_reads_the_same_prompt_as_sampling(engine):
    datum = chat_datum(engine, [QUESTION, {"role": "assistant", "content": "green"}])
    prompt = prompt_tokens(engine, [QUESTION])
    assert datum.tokens[: len(prompt)] == prompt and len(datum.tokens) - len(datum.targets) + 1 == len(prompt)


def test_a_chat_in_which_nobody_answers_is_nothing(engine):
    assert chat_datum(engine, [QUESTION]) is None


def test_a_template_that_rewrites_earlier_turns_is_refused(engine):
    engine.tokenizer.chat_template = "{{ messages | length }}" + engine.tokenizer.chat_template
    with pytest.raises(RunError, match="rewrites earlier turns"):
        chat_datum(engine, chat(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")))


def test_a_model_without_chat_template_is_a_named_error(engine):
    engine.tokenizer.chat_template = None
    with pytest.raises(RunError) as caught:
        prompt_tokens(engine, [QUESTION])
    assert caught.value.kind == "base_model"


def test_it_learns_to_answer(make_context, tiny_folder):
    context = make_context("sft", hyperparameters={"steps": 30, "learning_rate": 0.02}, evaluation={"every_steps": 10})
    result = run(context, tiny_folder, [row(i) for i in range(8)], [row(i) for i in range(8, 12)])
    assert result["before"]["loss"] > 3
    assert result["after"]["loss"] < result["before"]["loss"] / 2
    assert [event["step"] for event in context.of("metric") if "eval/loss" in event["values"]] == [0, 10, 20, 30]
    assert context.values("train/loss")[-1] < context.values("train/loss")[0] / 2
    assert context.of("checkpoint")[-1]["final"]


def test_the_loss_is_a_mean_per_spoken_token(make_context, tiny_folder):
    losses = []
    for copies in (1, 3):
        context = make_context("sft", hyperparameters={"steps": 1, "batch_size": 4 * copies}, data={"shuffle": False})
        run(context, tiny_folder, [row(i) for i in range(4)])
        losses.append(context.values("train/loss")[0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_same_seed_gives_the_same_bits(make_context, tiny_folder):
    hashes = []
    for _ in range(2):
        context = make_context("sft")
        run(context, tiny_folder, [row(i) for i in range(8)])
        hashes.append([file["sha256"] for file in context.of("checkpoint")[-1]["files"]])
    assert hashes[0] == hashes[1]


def test_rows_without_an_answer_and_long_rows_are_left_out_and_counted(make_context, tiny_folder):
    context = make_context("sft", hyperparameters={"max_prompt_tokens": 60})
    long = SimpleRow([], "x", chat(("user", "y" * 100), ("assistant", "x")))
    run(context, tiny_folder, [*(row(i) for i in range(4)), row(5, None), long])
    text = " ".join(event["text"] for event in context.of("log"))
    assert "1 of 6 training rows have no answer" in text and "1 of 6 training rows are longer than 60" in text


def test_no_usable_row_is_a_named_error(make_context, tiny_folder):
    with pytest.raises(RunError) as caught:
        run(make_context("sft"), tiny_folder, [row(1, None)])
    assert caught.value.kind == "bad_data"
