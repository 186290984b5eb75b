"""Supervised fine-tuning: maximise the likelihood of the assistant's turns, and of nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from trainers.engine.batch import Datum
from trainers.engine.engine import Engine
from trainers.engine.optimizer import AdamParams
from trainers.errors import RunError
from trainers.recipes.chat import chat_datum
from trainers.recipes.checkpoints import Checkpointer
from trainers.recipes.context import Row, RunContext
from trainers.recipes.meters import Meter
from trainers.recipes.progress import Progress
from trainers.recipes.schedule import batch_rows, learning_rate, total_steps


class SftRun:
    """One run of the recipe on a loaded engine. Loss figures are means per token that the assistant says."""

    def __init__(
        self, ctx: RunContext, engine: Engine, adapter: str, *, train_rows: Sequence[Row], eval_rows: Sequence[Row]
    ) -> None:
        self.ctx, self.engine, self.adapter = ctx, engine, adapter
        spec = ctx.spec
        self.data = self._usable(train_rows, "training")
        held_out = eval_rows[: spec.evaluation.prompts]
        self.held_out = self._usable(held_out, "held-out") if held_out else []
        self.steps = total_steps(spec.hyperparameters, len(self.data))
        every = spec.evaluation.every_steps
        evaluations = (2 + ((self.steps - 1) // every if every else 0)) if self.held_out else 0
        self.progress = Progress(ctx, self.steps, {"step": self.steps, "evaluation": evaluations, "export": 1})
        engine.pulse.listener = self.progress.pulse
        self.checkpointer = Checkpointer(ctx, engine, adapter)
        self.meter = Meter(ctx, self.progress)

    def run(self) -> dict[str, Any]:
        """Train to the end; returns the result of the run."""
        every = self.ctx.spec.evaluation.every_steps
        before = self._evaluate(0)
        train_s = 0.0
        for step in range(1, self.steps + 1):
            begun = time.monotonic()
            with self.progress.stage("step", "training", step):
                values = self._step(step)
            train_s += time.monotonic() - begun
            self.meter.emit(step, values)
            if every and step % every == 0 and step < self.steps:
                self._evaluate(step)
            if step < self.steps:
                self.checkpointer.after_step(step, tokens=self.meter.tokens, active_s=self.progress.active_s)
        after = self._evaluate(self.steps)
        with self.progress.stage("export", "exporting", self.steps):
            self.checkpointer.final(self.steps)
        self.progress.finish()
        return {
            "before": before,
            "after": after,
            "steps": self.steps,
            "tokens": self.meter.tokens,
            "train_seconds": round(train_s, 3),
            "eval_prompts": len(self.held_out),
        }

    def _step(self, step: int) -> dict[str, float]:
        spec, begun = self.ctx.spec, time.monotonic()
        hyper = spec.hyperparameters
        rows = batch_rows(step, hyper.batch_size, len(self.data), seed=spec.seed, shuffle=spec.data.shuffle)
        batch = [self.data[i] for i in rows]
        spoken = sum(sum(datum.arrays["weights"]) for datum in batch)
        scaled = [
            Datum(datum.tokens, datum.targets, {"weights": [weight / spoken for weight in datum.arrays["weights"]]})
            for datum in batch
        ]
        output = self.engine.forward_backward(self.adapter, scaled, "cross_entropy")
        rate = learning_rate(hyper, step, self.steps)
        adam = AdamParams(rate, hyper.beta1, hyper.beta2, hyper.eps, hyper.weight_decay, hyper.grad_clip_norm)
        norm = self.engine.optim_step(self.adapter, adam)["grad_norm"]
        seconds, tokens = time.monotonic() - begun, sum(len(datum.tokens) for datum in batch)
        self.meter.tokens += tokens
        return {
            "train/loss": output.loss,
            "train/entropy": output.entropy / output.tokens,
            "train/grad_norm": norm,
            "train/learning_rate": rate,
            "train/completion_tokens": spoken / len(batch),
            "train/prompt_tokens": (tokens - spoken) / len(batch),
            "system/step_s": seconds,
            "system/train_s": seconds,
            "system/train_tokens_per_s": tokens / max(seconds, 1e-9),
        }

    def _evaluate(self, step: int) -> dict[str, Any] | None:
        if not self.held_out:
            return None
        with self.progress.stage("evaluation", "evaluating", step):
            total = self.engine.forward(self.adapter, self.held_out).loss
        loss = total / sum(sum(datum.arrays["weights"]) for datum in self.held_out)
        self.meter.emit(step, {"eval/loss": loss})
        return {"loss": loss, "samples": len(self.held_out)}

    def _usable(self, rows: Sequence[Row], what: str) -> list[Datum]:
        """Rows as datums; those without an answer, or longer than the limit or the model's context, are left out."""
        hyper = self.ctx.spec.hyperparameters
        context = getattr(self.engine.config, "max_position_embeddings", 10**9)
        data: list[Datum] = []
        unanswered = long = 0
        for row in rows:
            datum = chat_datum(self.engine, row.messages) if row.messages else None
            if datum is None:
                unanswered += 1
            elif len(datum.tokens) - len(datum.targets) + 1 > hyper.max_prompt_tokens or len(datum.tokens) > context:
                long += 1
            else:
                data.append(datum)
        limit = f"longer than {hyper.max_prompt_tokens} prompt tokens or the model's {context}"
        for count, why in ((unanswered, "have no answer to learn from"), (long, f"are {limit}")):
            if count:
                text = f"{count} of {len(rows)} {what} rows {why} and were left out."
                self.ctx.emit("log", level="warning", text=text)
        if not data:
            raise RunError(
                "bad_data",
                f"No {what} row is left of {len(rows)}: {unanswered} have no answer, {long} are {limit}.",
                "Name the column that holds the answer (or the messages), or raise max_prompt_tokens.",
                "data.columns",
            )
        return data
