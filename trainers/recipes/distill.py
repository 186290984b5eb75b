"""On-policy distillation: the student samples, and a teacher says of each token how likely it would have been.

The advantage of a token is log teacher - log student, so the policy gradient descends the reverse KL divergence
KL(student ‖ teacher) on the student's own samples. Sources: GKD, Agarwal et al. 2023, arXiv:2306.13649; MiniLLM, Gu et
al. 2023, arXiv:2306.08543; Lu et al., "On-Policy Distillation" (Thinking Machines, 2025), whose discount of 0 is used:
a token answers for itself, not for those that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainers.engine.adopt import import_adapter
from trainers.engine.engine import Engine
from trainers.engine.sampler import SamplingParams
from trainers.errors import RunError
from trainers.recipes.acting import SingleTurn
from trainers.recipes.chat import stop_tokens
from trainers.recipes.context import RunContext
from trainers.recipes.figures import update_figures
from trainers.recipes.loop import Phase
from trainers.recipes.policy_data import Sample
from trainers.recipes.policy_loop import PolicyLoop, Update, policy_loss
from trainers.recipes.rollouts import Rollouts
from trainers.recipes.schedule import derived_seed
from trainers.recipes.setup import Setup, Teacher

TEACHER = "teacher"


class DistillRun(PolicyLoop):
    """One run of the recipe on a loaded engine. A scorer, if there is one, only measures."""

    def __init__(self, setup: Setup) -> None:
        if setup.teacher is None:
            raise ValueError("the distill recipe needs a teacher")
        super().__init__(setup)
        self.teacher = setup.teacher
        self.loss, self.loss_config = policy_loss(self.ctx.spec.loss)

    def step(self, step: int) -> dict[str, float]:
        values = super().step(step)
        if self.setup.scorer is None:
            values = {name: value for name, value in values.items() if name not in _OF_REWARD}
        return values

    def learn(self, step: int, rollouts: Rollouts) -> tuple[dict[str, float], Update]:
        samples = [Sample(rollout, []) for rollout in rollouts.flat]
        divergence = self._compare(samples)
        self.add_proximal(samples)
        update = self.optimize(step, samples, self.loss, self.loss_config, everything=False)
        return {**update_figures(update.outputs, update.grad_norm), "train/teacher_kl": divergence}, update

    def measure(self, step: int, phase: Phase) -> dict[str, Any]:
        if self.setup.scorer is None:
            with self.progress.stage("evaluation", "evaluating", step):
                divergence, samples = self._held_out_divergence()
            summary: dict[str, Any] = {"teacher_kl": divergence, "samples": samples}
            return {"eval/teacher_kl": divergence, "summary": summary}
        values = super().measure(step, phase)
        divergence, _ = self._held_out_divergence()
        values["summary"]["teacher_kl"] = divergence
        return values | {"eval/teacher_kl": divergence}

    def _held_out_divergence(self) -> tuple[float, int]:
        sampling = self.ctx.spec.sampling
        params = SamplingParams(
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            stop_tokens=stop_tokens(self.engine),
            seed=derived_seed(self.ctx.spec.seed, "divergence", 0),
            logprob_temperature=sampling.temperature,
        )
        rollouts = SingleTurn(self.engine, self.adapter, None).roll_out(self.evaluator.prompts, params)
        self.meter.tokens += rollouts.tokens
        return self._compare([Sample(rollout, []) for rollout in rollouts.flat]), len(rollouts.flat)

    def _compare(self, samples: Sequence[Sample]) -> float:
        """Give each sample its advantages; returns the mean of log student - log teacher per token."""
        data = [sample.scored() for sample in samples]
        temperature = self.ctx.spec.sampling.temperature
        teacher = self.teacher.engine.logprobs(self.teacher.adapter, data, temperature=temperature)
        total = count = 0.0
        for sample, values in zip(samples, teacher, strict=True):
            student = sample.rollout.completion.logprobs
            sample.advantages = [t - s for t, s in zip(values.tolist(), student, strict=True)]
            total -= sum(sample.advantages)
            count += len(sample.advantages)
        return total / max(1.0, count)


_OF_REWARD = frozenset({"train/reward", "train/reward_std", "train/accuracy", "train/pass_at_k"})


def load_teacher(ctx: RunContext, student: Engine, path: Path | None, adapter: Path | None) -> Teacher:
    """The teacher of a task: another base model, or the student's own with an adapter that it has learned before.

    Raises ``RunError("base_model", …)`` for a teacher with another tokenizer.
    """
    engine = student
    if path is not None and path.resolve() != student.path.resolve():
        engine = Engine.load(path, dtype=student.dtype, threads=student.threads, device=student.device.type)
        if engine.tokenizer.get_vocab() != student.tokenizer.get_vocab():
            raise RunError(
                "base_model",
                "The teacher's tokenizer is not the student's, so their tokens cannot be compared.",
                "Choose a teacher of the same family of models.",
                "distillation.teacher",
            )
    if adapter is not None:
        import_adapter(engine, TEACHER, adapter)
    elif engine is student and ctx.spec.model.start_from is None:
        raise RunError(
            "bad_data",
            "Teacher and student are the same model, so there is nothing to learn.",
            "Name another base model as the teacher, or a model version whose adapter it has.",
            "distillation.teacher",
        )
    return Teacher(engine, TEACHER if adapter is not None else None)
