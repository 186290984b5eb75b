"""GRPO steps of this repository's recipe."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.contest.turns import Turn
from tests.benchmarks.contest.work import Work, questions, reward_of
from tests.benchmarks.recording import RecordingContext, SimpleRow
from trainers.recipes.context import Score, ScoredInput
from trainers.recipes.run import run_recipe
from trainers.spec import parse_spec


class Scorer:
    def __init__(self, work: Work) -> None:
        self.work = work

    def score(self, rows: Sequence[ScoredInput]) -> list[Score]:
        values = [reward_of(self.work, row.completion, row.answer or "") for row in rows]
        return [Score(value, {"reward": value}, value == 1) for value in values]


class Ended(BaseException):
    """The referee wants no more steps."""


def main() -> None:
    task = json.loads(sys.argv[1])
    model, work = Path(task.pop("model")), Work(**task)
    turn = Turn()

    def on_event(event: dict[str, Any]) -> None:
        values = event.get("values", {})
        if "system/step_s" not in values:
            return
        tokens = values["train/completion_tokens"] * work.prompts * work.group
        turn.report(tokens=tokens, sample_s=values["system/sample_s"], reward=values["train/reward"])
        if not turn.wait():
            raise Ended

    spec = parse_spec(
        {
            "recipe": "grpo",
            "data": {"source": "questions", "shuffle": False},
            "reward": {"components": [{"kind": "numeric"}]},
            "model": {"adapter": {"rank": work.rank, "alpha": work.alpha}},
            "sampling": {"group_size": work.group, "max_new_tokens": work.max_new},
            "hyperparameters": {"steps": work.steps, "batch_size": work.prompts, "learning_rate": work.rate},
            "evaluation": {"prompts": 0},
            "checkpointing": {"every_minutes": 10_000},
            "seed": work.seed,
        }
    )
    rows = [SimpleRow(messages, answer) for messages, answer in questions(work)]
    turn.say(ready=True)
    if not turn.wait():
        return
    with tempfile.TemporaryDirectory() as scratch:
        context = RecordingContext(spec, Path(scratch), on_event=on_event)
        try:
            run_recipe(
                context,
                model_path=model,
                train_rows=rows,
                eval_rows=[],
                scorer=Scorer(work),
                threads=work.threads,
            )
        except Ended:
            return


if __name__ == "__main__":
    main()
