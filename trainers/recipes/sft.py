"""Supervised fine-tuning: maximise the likelihood of the assistant's turns, and of nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from trainers.engine.batch import Datum
from trainers.errors import RunError
from trainers.recipes.chat import chat_datum, text_datum
from trainers.recipes.context import Row
from trainers.recipes.loop import Loop, Phase
from trainers.recipes.setup import Setup


class SftRun(Loop):
    """One run of the recipe on a loaded engine. Loss figures are means per token that the assistant says."""

    def __init__(self, setup: Setup) -> None:
        wanted = setup.eval_rows[: setup.ctx.spec.evaluation.prompts]
        usable, self.data = usable_rows(setup, setup.train_rows, "training")
        self.held_out_data = usable_rows(setup, wanted, "held-out")[1] if wanted else []
        super().__init__(setup, keys=[row.key for row in usable], measures=bool(self.held_out_data))

    @property
    def held_out(self) -> int:
        return len(self.held_out_data)

    def step(self, step: int) -> dict[str, float]:
        begun = time.monotonic()
        batch = [self.data[i] for i in self.next_rows(self.ctx.spec.hyperparameters.batch_size)]
        spoken = sum(sum(datum.flat("weights")) for datum in batch)
        scaled = [
            Datum(datum.tokens, datum.targets, {"weights": [weight / spoken for weight in datum.flat("weights")]})
            for datum in batch
        ]
        output = self.engine.forward_backward(self.adapter, scaled, "cross_entropy")
        norm = self.engine.optim_step(self.adapter, self.adam(step))["grad_norm"]
        self.meter.flops.trained(output)
        seconds, tokens = time.monotonic() - begun, sum(len(datum.tokens) for datum in batch)
        self.meter.tokens += tokens
        return {
            "train/loss": output.loss,
            "train/entropy": output.entropy / output.tokens,
            "train/grad_norm": norm,
            "train/learning_rate": self.rate(step),
            "train/completion_tokens": spoken / len(batch),
            "train/prompt_tokens": (tokens - spoken) / len(batch),
            "system/step_s": seconds,
            "system/train_s": seconds,
            "system/train_tokens_per_s": tokens / max(seconds, 1e-9),
        }

    def measure(self, step: int, phase: Phase) -> dict[str, Any]:
        with self.progress.stage("evaluation", "evaluating", step):
            total = self.engine.forward(self.adapter, self.held_out_data).loss
        loss = total / sum(sum(datum.flat("weights")) for datum in self.held_out_data)
        return {"eval/loss": loss, "summary": {"loss": loss, "samples": self.held_out}}


def usable_rows(setup: Setup, rows: Sequence[Row], what: str) -> tuple[list[Row], list[Datum]]:
    """Rows as datums; those without an answer, or longer than the limit or the model's context, are left out."""
    engine, hyper = setup.engine, setup.ctx.spec.hyperparameters
    usable: list[Row] = []
    data: list[Datum] = []
    unanswered = long = 0
    for row in rows:
        if row.text is not None:
            datum = text_datum(engine, row.text)
        else:
            datum = chat_datum(engine, row.messages) if row.messages else None
        if datum is None:
            unanswered += 1
        elif len(datum.tokens) - len(datum.targets) + 1 > hyper.max_prompt_tokens or len(datum.tokens) > engine.context:
            long += 1
        else:
            usable.append(row)
            data.append(datum)
    limit = f"longer than {hyper.max_prompt_tokens} prompt tokens or the model's {engine.context}"
    for count, why in ((unanswered, "have no answer to learn from"), (long, f"are {limit}")):
        if count:
            text = f"{count} of {len(rows)} {what} rows {why} and were left out."
            setup.ctx.emit("log", level="warning", text=text)
    if not data:
        raise RunError(
            "bad_data",
            f"No {what} row is left of {len(rows)}: {unanswered} have no answer, {long} are {limit}.",
            "Name the column that holds the answer (or the messages), or raise max_prompt_tokens.",
            "data.columns",
        )
    return usable, data
