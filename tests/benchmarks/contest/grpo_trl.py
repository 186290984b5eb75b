"""GRPO steps of TRL's ``GRPOTrainer`` at the same work, with the switches that are fastest on a CPU.

No gradient checkpointing, float32, LoRA on the same layers, no reference model, constant learning rate.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from tests.benchmarks.contest.turns import Turn
from tests.benchmarks.contest.work import Work, questions, reward_of


class TakesTurns(TrainerCallback):
    def __init__(self, turn: Turn, seen: dict[str, float]) -> None:
        self.turn, self.seen = turn, seen

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self.turn.wait():
            control.should_training_stop = True
            raise SystemExit

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.turn.report(**self.seen)


def main() -> None:
    task = json.loads(sys.argv[1])
    model, work = Path(task.pop("model")), Work(**task)
    turn, seen = Turn(), {}
    torch.set_num_threads(work.threads)

    def reward(completions: Any, completion_ids: Any, answer: Any, **_: Any) -> list[float]:
        texts = [completion[0]["content"] for completion in completions]
        values = [reward_of(work, text, right) for text, right in zip(texts, answer, strict=True)]
        seen.update(tokens=sum(len(ids) for ids in completion_ids), reward=sum(values) / len(values))
        return values

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=work.prompts * work.group,
            num_generations=work.group,
            gradient_accumulation_steps=1,
            max_completion_length=work.max_new,
            max_steps=work.steps,
            learning_rate=work.rate,
            lr_scheduler_type="constant",
            adam_beta2=0.95,
            temperature=1.0,
            beta=0.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            shuffle_dataset=False,
            seed=work.seed,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        rows = [{"prompt": messages, "answer": answer} for messages, answer in questions(work)]
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(model),
            reward_funcs=reward,
            args=settings,
            train_dataset=Dataset.from_list(rows),
            peft_config=LoraConfig(r=work.rank, lora_alpha=work.alpha, target_modules=layers, task_type="CAUSAL_LM"),
            callbacks=[TakesTurns(turn, seen)],
        )
        turn.say(ready=True, version=trl.__version__)
        trainer.train()


if __name__ == "__main__":
    main()
