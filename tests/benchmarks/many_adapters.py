"""Several adapters in one engine against one adapter at the same total rows: tokens per second, sampled and trained.

    python -m tests.benchmarks.many_adapters --adapters 8 --rounds 5 --json result.json

Runs alternate; the ratio of each round is taken within the round. With ``--clock cpu`` the process's CPU time is
counted in place of the wall's, which says more on a machine that does other work. Every prompt has a beginning of its
own. With ``--shared-beginning`` they have one in common, which one adapter computes once and eight compute eight times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainers.engine.base_models import resolve_base_model
from trainers.engine.batch import Datum
from trainers.engine.engine import Engine
from trainers.engine.lora import LoraConfig
from trainers.engine.sampler import SampleRequest, SamplingParams
from trainers.engine.training import TrainRequest


@dataclass(frozen=True)
class Work:
    """Prompts divided evenly among the adapters of a call."""

    engine: Engine
    prompts: list[list[int]]
    group: int
    max_new: int

    def shares(self, names: list[str]) -> list[tuple[str, list[list[int]]]]:
        each = len(self.prompts) // len(names)
        return [(name, self.prompts[i * each : (i + 1) * each]) for i, name in enumerate(names)]

    def sample(self, names: list[str]) -> int:
        """Tokens sampled."""
        params = SamplingParams(max_tokens=self.max_new, n=self.group, seed=1)
        found = self.engine.sample_many([SampleRequest(name, part, params) for name, part in self.shares(names)])
        return sum(len(one.tokens) for sampled in found for group in sampled.groups for one in group)

    def train(self, names: list[str]) -> int:
        """Completion tokens trained on."""
        generator = torch.Generator().manual_seed(2)

        def data(part: list[list[int]]) -> list[Datum]:
            result = []
            for prompt in part:
                for _ in range(self.group):
                    completion = torch.randint(100, 40000, (self.max_new,), generator=generator).tolist()
                    arrays = {"logprobs": [-9.0] * self.max_new, "advantages": [0.01] * self.max_new}
                    result.append(Datum([*prompt, *completion[:-1]], completion, arrays))
            return result

        requests = [TrainRequest(name, data(part), "importance_sampling") for name, part in self.shares(names)]
        return sum(output.tokens for output in self.engine.forward_backward_many(requests))


def main() -> None:
    options = _options()
    engine = Engine.load(resolve_base_model("smollm2-135m-instruct", Path(options.cache)), threads=options.threads)
    names = [f"adapter-{i}" for i in range(options.adapters)]
    for index, name in enumerate(names):
        adapter = engine.add_adapter(name, LoraConfig(rank=options.rank, seed=index))
        with torch.no_grad():
            adapter.values.add_(0.01)
    prompts = _prompts(engine, max(8, options.adapters), shared=options.shared_beginning)
    work = Work(engine, prompts, options.group, options.max_new)
    record: dict[str, Any] = {"settings": vars(options), "torch": torch.__version__}
    for what, run in (("sampling", work.sample), ("training", work.train)):
        record[what] = _compare(run, names, options.rounds, options.clock)
        _print(what, record[what], options)
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _compare(run: Callable[[list[str]], int], names: list[str], rounds: int, clock: str) -> dict[str, Any]:
    now = time.process_time if clock == "cpu" else time.perf_counter
    rates: dict[str, list[float]] = {"one": [], "many": []}
    for chosen in ([names[0]], names):  # once each, uncounted: libraries set themselves up
        run(chosen)
    for number in range(rounds):
        order = [("one", [names[0]]), ("many", names)]
        for what, chosen in order if number % 2 == 0 else order[::-1]:
            begun = now()
            tokens = run(chosen)
            rates[what].append(tokens / (now() - begun))
    ratios = [many / one for one, many in zip(rates["one"], rates["many"], strict=True)]
    return {
        "one_tokens_per_s": rates["one"],
        "many_tokens_per_s": rates["many"],
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_of_best": max(rates["many"]) / max(rates["one"]),
    }


def _prompts(engine: Engine, count: int, *, shared: bool) -> list[list[int]]:
    """About 45 tokens each, in the model's chat format."""
    template = engine.tokenizer.apply_chat_template
    prompts = []
    for i in range(count):
        system = "You are a helpful assistant who adds numbers, and who says nothing else"
        chat = [
            {"role": "system", "content": f"{system}." if shared else f"{i}: {system}."},
            {"role": "user", "content": f"What is {i} + {9 - i % 9}? Answer with the number only."},
        ]
        prompts.append(list(template(chat, add_generation_prompt=True)["input_ids"]))
    return prompts


def _print(what: str, figures: dict[str, Any], options: argparse.Namespace) -> None:
    one, many = max(figures["one_tokens_per_s"]), max(figures["many_tokens_per_s"])
    sys.stdout.write(
        f"{what:>9}  1 adapter {one:7.0f} tok/s  {options.adapters} adapters {many:7.0f} tok/s  ratio of best "
        f"{figures['ratio_of_best']:.3f}  median {figures['ratio_median']:.3f} "
        f"({figures['ratio_min']:.3f} to {figures['ratio_max']:.3f})\n"
    )
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (
        ("threads", 1), ("adapters", 8), ("rounds", 5), ("group", 8), ("max-new", 16), ("rank", 16),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--shared-beginning", action="store_true")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "tuneyard-models"))
    parser.add_argument("--json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
