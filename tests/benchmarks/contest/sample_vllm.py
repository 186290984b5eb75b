"""Sampling by vLLM's offline engine, where its package is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import vllm
from transformers import AutoTokenizer
from vllm import LLM, SamplingParams

from tests.benchmarks.contest.turns import Turn
from tests.benchmarks.contest.work import Work, questions


def main() -> None:
    task = json.loads(sys.argv[1])
    path, work = Path(task.pop("model")), Work(**task)
    turn = Turn()
    tokenizer = AutoTokenizer.from_pretrained(path)
    prompts = [
        {"prompt_token_ids": tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)}
        for messages, _ in questions(work)[: work.prompts]
    ]
    engine = LLM(model=str(path), dtype="float32", enforce_eager=True, max_model_len=1024, seed=work.seed)
    turn.say(ready=True, version=vllm.__version__)
    step = 0
    while turn.wait():
        step += 1
        params = SamplingParams(n=work.group, temperature=1.0, max_tokens=work.max_new, seed=work.seed + step)
        outputs = engine.generate(prompts, params, use_tqdm=False)
        turn.report(tokens=sum(len(sample.token_ids) for output in outputs for sample in output.outputs))


if __name__ == "__main__":
    main()
