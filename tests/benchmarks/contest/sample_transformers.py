"""Sampling by ``generate`` of transformers, with a KV cache and several sequences per prompt."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.benchmarks.contest.turns import Turn
from tests.benchmarks.contest.work import Work, questions


def main() -> None:
    task = json.loads(sys.argv[1])
    path, work = Path(task.pop("model")), Work(**task)
    turn = Turn()
    torch.set_num_threads(work.threads)
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    texts = [messages for messages, _ in questions(work)[: work.prompts]]
    inputs = tokenizer.apply_chat_template(
        texts, add_generation_prompt=True, padding=True, return_dict=True, return_tensors="pt"
    )
    width = inputs["input_ids"].shape[1]
    turn.say(
        ready=True,
        prompt_tokens=float(inputs["attention_mask"].sum(1).float().mean()),
        version=transformers.__version__,
    )
    step = 0
    while turn.wait():
        step += 1
        torch.manual_seed(work.seed + step)
        with torch.inference_mode():
            out = model.generate(
                **inputs,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=work.max_new,
                num_return_sequences=work.group,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )
        ended = (out[:, width:] == tokenizer.eos_token_id).int().cumsum(1)
        # A completion's tokens up to and with its first end-of-sequence.
        turn.report(tokens=int(((ended - (out[:, width:] == tokenizer.eos_token_id).int()) == 0).sum()))


if __name__ == "__main__":
    main()
