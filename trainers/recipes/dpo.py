"""Learning from pairs of a better and a worse answer, without a reward: DPO, IPO or KTO.

Formulas and sources are with the losses (:mod:`trainers.losses.preference`). The reference is what training started
from: its log-probabilities are computed with the batch. Both answers of a pair share their prompt in one packed row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainers.engine.batch import Datum, StepOutput
from trainers.errors import RunError
from trainers.losses import PREFERENCE_LOSSES
from trainers.recipes.chat import chat_datum
from trainers.recipes.context import Row
from trainers.recipes.loop import Loop, Phase
from trainers.recipes.setup import Setup


@dataclass(frozen=True)
class Pair:
    """The better and the worse answer, each after the same prompt; ``weights`` are 1 at tokens of the assistant."""

    better: Datum
    worse: Datum

    @property
    def tokens(self) -> int:
        return len(self.better.tokens) + len(self.worse.tokens)


class DpoRun(Loop):
    """One run of the recipe on a loaded engine. Loss figures are means per pair."""

    def __init__(self, setup: Setup) -> None:
        wanted = setup.eval_rows[: setup.ctx.spec.evaluation.prompts]
        rows, self.pairs = usable_pairs(setup, setup.train_rows, "training")
        self.held_out_pairs = usable_pairs(setup, wanted, "held-out")[1] if wanted else []
        super().__init__(setup, keys=[row.key for row in rows], measures=bool(self.held_out_pairs))
        settings = self.ctx.spec.loss
        self.loss = PREFERENCE_LOSSES[settings.name]
        self.config = dict(self.loss.defaults)
        if settings.beta is not None:
            self.config["beta"] = settings.beta
        if "label_smoothing" in self.config:
            self.config["label_smoothing"] = settings.label_smoothing

    @property
    def held_out(self) -> int:
        return len(self.held_out_pairs)

    def step(self, step: int) -> dict[str, float]:
        begun = time.monotonic()
        pairs = [self.pairs[i] for i in self.next_rows(self.ctx.spec.hyperparameters.batch_size)]
        baseline = self._baseline(pairs)
        outputs = []
        for number, chunk in enumerate(self._chunks(pairs)):
            self.progress.phase("training", number / len(pairs), 1.0)
            outputs.append(self._pass(chunk, baseline, len(pairs), train=True))
        norm = self.engine.optim_step(self.adapter, self.adam(step))["grad_norm"]
        seconds, tokens = time.monotonic() - begun, sum(pair.tokens for pair in pairs)
        self.meter.tokens += tokens
        values = self._figures(outputs, len(pairs), "train")
        return values | {
            "train/entropy": sum(output.entropy for output in outputs) / sum(output.tokens for output in outputs),
            "train/grad_norm": norm,
            "train/learning_rate": self.rate(step),
            "train/completion_tokens": sum(len(p.better.targets) + len(p.worse.targets) for p in pairs)
            / 2
            / len(pairs),
            "system/step_s": seconds,
            "system/train_s": seconds,
            "system/train_tokens_per_s": tokens / max(seconds, 1e-9),
        }

    def measure(self, step: int, phase: Phase) -> dict[str, Any]:
        with self.progress.stage("evaluation", "evaluating", step):
            pairs = self.held_out_pairs
            baseline = self._baseline(pairs)
            outputs = [self._pass(chunk, baseline, len(pairs), train=False) for chunk in self._chunks(pairs)]
        values = self._figures(outputs, len(pairs), "eval")
        summary = {"accuracy": values["eval/accuracy"], "loss": values["eval/loss"], "samples": len(pairs)}
        return {**values, "summary": summary}

    def _pass(self, pairs: Sequence[Pair], baseline: float, whole: int, *, train: bool) -> StepOutput:
        """Loss of some pairs, which go through the network together. Each weighs 1 / ``whole``."""
        before = self.engine.tokens_per_pass
        # A pair must not be divided between two passes, however long it is.
        self.engine.tokens_per_pass = max(before, sum(pair.tokens for pair in pairs))
        try:
            bare = [answer for pair in pairs for answer in (pair.better, pair.worse)]
            reference = self.engine.forward(self.setup.reference, [Datum(d.tokens, d.targets) for d in bare])
            self.meter.flops.passed(reference)
            data = [
                _with_arrays(datum, index // 2, 1.0 if index % 2 == 0 else -1.0, values.tolist(), baseline, 1 / whole)
                for index, (datum, values) in enumerate(zip(bare, reference.logprobs, strict=True))
            ]
            if not train:
                return self.engine.forward(self.adapter, data, self.loss, self.config)
            output = self.engine.forward_backward(self.adapter, data, self.loss, self.config)
            self.meter.flops.trained(output)
            return output
        finally:
            self.engine.tokens_per_pass = before

    def _chunks(self, pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
        """Pairs in order, as many at a time as fit into a pass."""
        chunk: list[Pair] = []
        tokens = 0
        for pair in pairs:
            if chunk and tokens + pair.tokens > self.engine.tokens_per_pass:
                yield chunk
                chunk, tokens = [], 0
            chunk.append(pair)
            tokens += pair.tokens
        if chunk:
            yield chunk

    def _baseline(self, pairs: Sequence[Pair]) -> float:
        """KTO's z: the mean of r over answers put to other prompts of the batch, at least 0 (arXiv:2402.01306)."""
        if self.loss.name != "kto" or len(pairs) < 2:
            return 0.0
        data = []
        for pair, other in zip(pairs, [*pairs[1:], pairs[0]], strict=True):
            prompt = pair.better.tokens[: len(pair.better.tokens) - len(pair.better.targets) + 1]
            data.append(Datum([*prompt, *other.better.targets[:-1]], other.better.targets))
        policy = self.engine.logprobs(self.adapter, data)
        reference = self.engine.logprobs(self.setup.reference, data)
        gained = [float((p - q).sum()) for p, q in zip(policy, reference, strict=True)]
        return max(0.0, sum(gained) / len(gained))

    def _figures(self, outputs: Sequence[StepOutput], pairs: int, part: str) -> dict[str, float]:
        sums = {name: sum(output.sums[name] for output in outputs) / pairs for name in outputs[0].sums}
        return {
            f"{part}/loss": sum(output.loss for output in outputs),
            f"{part}/accuracy": sums["preferred"],
            f"{part}/reward_chosen": sums["reward_chosen"],
            f"{part}/reward_rejected": sums["reward_rejected"],
            f"{part}/margin": sums["reward_chosen"] - sums["reward_rejected"],
        }


def usable_pairs(setup: Setup, rows: Sequence[Row], what: str) -> tuple[list[Row], list[Pair]]:
    """Rows as pairs; those without both answers, or too long, are left out and counted."""
    engine, hyper = setup.engine, setup.ctx.spec.hyperparameters
    usable: list[Row] = []
    pairs: list[Pair] = []
    missing = long = 0
    for row in rows:
        answers = []
        for chat in (row.chosen, row.rejected):
            datum = chat_datum(engine, chat, given=len(row.prompt_messages)) if chat else None
            if datum is not None:
                answers.append(datum)
        if len(answers) < 2:
            missing += 1
            continue
        longest = max(len(datum.tokens) for datum in answers)
        prompt = len(answers[0].tokens) - len(answers[0].targets) + 1
        if prompt > hyper.max_prompt_tokens or longest > engine.context:
            long += 1
            continue
        usable.append(row)
        pairs.append(Pair(*answers))
    limit = f"longer than {hyper.max_prompt_tokens} prompt tokens or the model's {engine.context}"
    for count, why in ((missing, "lack a chosen or a rejected answer"), (long, f"are {limit}")):
        if count:
            setup.ctx.emit("log", level="warning", text=f"{count} of {len(rows)} {what} rows {why} and were left out.")
    if not pairs:
        raise RunError(
            "bad_data",
            f"No {what} pair is left of {len(rows)} rows: {missing} lack an answer, {long} are {limit}.",
            "Name the columns that hold the chosen and the rejected answers, or raise max_prompt_tokens.",
            "data.columns.chosen",
        )
    return usable, pairs


def _with_arrays(
    datum: Datum, pair: int, preferred: float, reference: list[float], baseline: float, weight: float
) -> Datum:
    count = len(datum.targets)
    arrays = {
        "reference_logprobs": reference,
        "mask": datum.arrays["weights"],
        "pair": [float(pair)] * count,
        "preferred": [preferred] * count,
        "baseline": [baseline] * count,
        "token_weights": [weight] * count,
    }
    return Datum(datum.tokens, datum.targets, arrays)
