"""Sampling of this repository's engine: groups of completions, each prompt computed once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.benchmarks.contest.turns import Turn
from tests.benchmarks.contest.work import Work, questions
from trainers.engine.engine import Engine
from trainers.engine.lora import LoraConfig
from trainers.engine.sampler import SamplingParams


def main() -> None:
    task = json.loads(sys.argv[1])
    model, work = Path(task.pop("model")), Work(**task)
    turn = Turn()
    engine = Engine.load(model, threads=work.threads)
    engine.add_adapter("policy", LoraConfig(rank=work.rank, alpha=work.alpha))
    tokenizer = engine.tokenizer
    prompts = [
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        for messages, _ in questions(work)[: work.prompts]
    ]
    turn.say(ready=True, prompt_tokens=sum(map(len, prompts)) / len(prompts))
    step = 0
    while turn.wait():
        step += 1
        params = SamplingParams(
            max_tokens=work.max_new, n=work.group, stop_tokens=(tokenizer.eos_token_id,), seed=work.seed + step
        )
        groups = engine.sample("policy", prompts, params)
        turn.report(tokens=sum(len(completion.tokens) for group in groups for completion in group))


if __name__ == "__main__":
    main()
