"""Choices that often end in a wasted run, each as a sentence with what to do instead."""

from __future__ import annotations

from typing import Any

from jobs.estimate import Estimate, Work
from trainers.spec import TaskSpec

HIGH_LEARNING_RATE = 1e-3
MANY_STEPS = 300
MANY_PASSES = 20
LONG_ON_CPU = 256
SMALL_GROUP = 4


COMPARE_WITH_ANSWER = frozenset({"exact", "numeric"})


def risks_of(task: TaskSpec, rows: int, report: dict[str, Any], estimate: Estimate) -> list[str]:
    """What a person should know before starting, the gravest first.

    ``rows`` is the number of usable rows, ``report`` the check of the dataset as it is stored.
    """
    work = estimate.work
    return [
        *_about_reward(task, rows, report),
        *_about_data(task, rows, work),
        *_about_learning(task, work),
        *_about_cost(task, estimate),
    ]


def _about_reward(task: TaskSpec, rows: int, report: dict[str, Any]) -> list[str]:
    kinds = {component.kind for component in task.reward.components} if task.reward else set()
    if "with_answer" not in report or not kinds & COMPARE_WITH_ANSWER:
        return []
    if not report["with_answer"]:
        return ["The reward compares with an answer, and no row has one: every completion would get the same."]
    numbers = report.get("numeric_answers", 0)
    if "numeric" in kinds and not numbers:
        return ["The reward looks for a number in the answer, and no answer holds one."]
    if "numeric" in kinds and numbers * 2 < rows:
        return [f"The reward looks for a number in the answer; only {numbers:,} of {rows:,} rows have one there."]
    return []


def _about_data(task: TaskSpec, rows: int, work: Work) -> list[str]:
    found = []
    held = 0 if task.evaluation.source else work.held_out
    if rows and held >= rows:
        found.append(f"All {rows} rows would be held out for evaluation and none is left to train; hold out fewer.")
    elif rows and held * 2 > rows:
        found.append(f"{held} of {rows} rows are held out for evaluation; hold out fewer, or add rows.")
    train = max(rows - held, 1)
    passes = work.steps * work.rows_per_step / train
    if rows and passes > MANY_PASSES:
        found.append(f"Each row is used about {passes:.0f} times; with so few rows the model may learn them by heart.")
    if task.evaluation.prompts == 0:
        found.append("Evaluation is off: there will be no before and after to tell whether it helped.")
    return found


def _about_learning(task: TaskSpec, work: Work) -> list[str]:
    found = []
    if task.hyperparameters.learning_rate > HIGH_LEARNING_RATE:
        found.append(
            f"A learning rate of {task.hyperparameters.learning_rate:g} is high for LoRA and may break the model; "
            "2e-4 is a common start."
        )
    if task.recipe != "grpo":
        return found
    if task.sampling.group_size < SMALL_GROUP:
        found.append(
            f"With {task.sampling.group_size} completions per prompt the baseline is noisy; 8 is a common choice."
        )
    if task.loss.kl_coefficient == 0 and work.steps > MANY_STEPS:
        found.append(f"Over {work.steps} steps nothing holds the model near its start; a KL coefficient of 0.01 would.")
    if task.sampling.top_p < 1:
        found.append("With top p below 1 the model is trained on samples that are not quite its own.")
    return found


def _about_cost(task: TaskSpec, estimate: Estimate) -> list[str]:
    found = []
    if estimate.device == "cpu" and task.recipe == "grpo" and task.sampling.max_new_tokens > LONG_ON_CPU:
        found.append(f"{task.sampling.max_new_tokens} tokens per completion take long on CPU cores.")
    if task.resources.tier == "spot" and task.checkpointing.every_minutes > 10:
        found.append(
            "Spot devices may be taken away, and the work since the last checkpoint, "
            f"up to {task.checkpointing.every_minutes:g} minutes, be repeated."
        )
    if not estimate.largest:
        found.append("The cluster has no such devices now; the job would wait until some join.")
    elif estimate.devices > estimate.largest:
        found.append(f"No node has {estimate.device_text}; the largest has {estimate.largest}. The job would wait.")
    if task.budget.amount is None and task.budget.minutes is None:
        found.append("There is no budget: it runs to its last step, whatever that costs.")
    return found
