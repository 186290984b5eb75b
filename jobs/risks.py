"""Choices that often end in a wasted run, each as a sentence with what to do instead."""

from __future__ import annotations

from typing import Any

from jobs.estimate import Estimate, Work
from jobs.preflight import tokens_at_p95
from trainers.defaults import rate_warning
from trainers.spec import RECIPES, TaskSpec, read_by

MANY_UPDATES = 8
MANY_STEPS = 300
MANY_PASSES = 20
LONG_ON_CPU = 256
SMALL_GROUP = 4


COMPARE_WITH_ANSWER = frozenset({"exact", "numeric", "math", "similarity"})


def risks_of(
    task: TaskSpec, rows: int, report: dict[str, Any], estimate: Estimate, *, parameters: int = 0
) -> list[str]:
    """What a person should know before starting, the gravest first.

    ``rows`` is the number of usable rows, ``report`` the check of the dataset as it is stored, ``parameters`` the size
    of the base model.
    """
    work = estimate.work
    return [
        *_about_reward(task, rows, report),
        *_about_data(task, rows, work),
        *_about_learning(task, work, parameters),
        *_about_sampling(task, report),
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
    if task.recipe == "evaluate":
        return []
    if task.evaluation.prompts == 0:
        found.append("Evaluation is off: there will be no before and after to tell whether it helped.")
    return found


def _about_learning(task: TaskSpec, work: Work, parameters: int) -> list[str]:
    found = []
    if (warning := rate_warning(task, parameters)) is not None:
        found.append(warning)
    updates = task.hyperparameters.updates_per_batch * task.hyperparameters.minibatches
    if task.recipe in read_by("hyperparameters.updates_per_batch") and updates > MANY_UPDATES:
        found.append(f"{updates} optimizer steps on each batch train on samples of a policy that is long gone.")
    kept = task.loss.kl_coefficient > 0 or task.recipe not in read_by("loss.kl_coefficient")
    if not kept and work.steps > MANY_STEPS:
        found.append(f"Over {work.steps} steps nothing holds the model near its start; a KL coefficient of 0.01 would.")
    return found


def _about_sampling(task: TaskSpec, report: dict[str, Any]) -> list[str]:
    sampling, found = task.sampling, []
    grouped = task.recipe in ("grpo", "best_of_n")
    if grouped and sampling.group_size < SMALL_GROUP:
        found.append(
            f"With {sampling.group_size} completions per prompt the baseline is noisy, and many groups will be all "
            "right or all wrong and teach nothing; 8 is a common choice."
        )
    if sampling.top_p < 1 and task.recipe in ("grpo", "ppo_critic", "distill"):
        found.append("With top p below 1 the model is trained on samples that are not quite its own.")
    if task.recipe == "grpo" and sampling.one_step_off_policy and task.loss.importance_cap is None:
        found.append("Batches that are a step old need an importance cap; 2 is a common choice.")
    longest = tokens_at_p95(report, "answer")
    if RECIPES[task.recipe].samples and longest > sampling.max_new_tokens:
        found.append(
            f"One answer in twenty of the dataset takes about {longest:,} tokens or more, and a completion is cut at "
            f"{sampling.max_new_tokens:,}: right answers of that length could not be given."
        )
    return found


def _about_cost(task: TaskSpec, estimate: Estimate) -> list[str]:
    found = []
    if estimate.device == "cpu" and RECIPES[task.recipe].samples and task.sampling.max_new_tokens > LONG_ON_CPU:
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
