"""The datasets that the platform brings along fit their presets, and each preset runs on the tiny model."""

from __future__ import annotations

import io
import json
import shutil

import pytest

from tests.benchmarks.recording import RecordingContext
from trainers.data.loading import load_rows
from trainers.examples import BY_KEY, EXAMPLES, ROWS
from trainers.presets import PRESETS
from trainers.recipes.run import run_recipe
from trainers.rewards.scorer import Scorer, needs_answer, row_problem
from trainers.spec import parse_spec

WITH_EXAMPLE = [preset for preset in PRESETS if preset.example]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.key)
def test_an_example_is_the_same_each_time_and_without_repeats(example):
    lines = example.file().decode().splitlines()
    assert len(lines) == len(set(lines)) == ROWS
    assert example.file() == example.file()
    assert json.loads(example.first_row) == json.loads(lines[0])


def test_every_example_is_used_and_the_field_s_kinds_of_work_are_there():
    assert {preset.example for preset in WITH_EXAMPLE} == set(BY_KEY)
    assert len(WITH_EXAMPLE) == 6


@pytest.mark.parametrize("preset", WITH_EXAMPLE, ids=lambda preset: preset.key)
def test_two_steps_of_each_run_on_its_example(preset, tiny_folder, tmp_path):
    spec = preset.task("dataset:x@1").model_dump(mode="json")
    spec["hyperparameters"] |= {"steps": 2, "batch_size": 2, "warmup_steps": 0}
    spec["sampling"] |= {"group_size": 2, "max_new_tokens": 4}
    spec["evaluation"] |= {"prompts": 0}
    task = parse_spec(spec)
    reward = task.reward
    rows = load_rows(
        io.BytesIO(BY_KEY[preset.example].file()),
        "example.jsonl",
        task.data,
        need_answer=reward is not None and needs_answer(reward),
        for_pairs=task.recipe == "dpo",
        check=(lambda row: row_problem(reward, row.answer, row.row)) if reward is not None else None,
    )
    assert rows.total == ROWS and not rows.bad_count
    context = RecordingContext(task, tmp_path)
    teacher = shutil.copytree(tiny_folder, tmp_path / "teacher") if task.recipe == "distill" else None
    scorer = Scorer(reward) if reward is not None else None
    try:
        run_recipe(
            context,
            model_path=tiny_folder,
            train_rows=rows.rows[:8],
            eval_rows=[],
            scorer=scorer,
            threads=1,
            teacher_path=teacher,
        )
    finally:
        if scorer is not None:
            scorer.close()
    assert {event["step"] for event in context.of("metric")} >= {1, 2}
