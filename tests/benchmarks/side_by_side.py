"""Ours against others at the same work, in turns, in one run: one table, and a JSON file.

    make bench                                   everything, to docs/proofs/benchmarks.json
    make bench BENCH_ARGS="--only sampling --threads 2 --rounds 3"

Each contestant is a process of its own (tests/benchmarks/contest). A round lets each do one step, so that whatever else
the machine does meets all of them; the ratio is taken within a round. The first round warms up and is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import proofs
from tests.benchmarks.contest.turns import ROOT, Contestant
from tests.benchmarks.contest.work import WORKLOADS, Work
from trainers.engine.base_models import resolve_base_model

OURS = "tuneyard"
KINDS = ("grpo", "sampling", "learning")
PEERS = {"grpo": ("trl",), "learning": ("trl",), "sampling": ("transformers", "vllm")}
MODULE = {"grpo": "grpo", "learning": "grpo", "sampling": "sample"}


def main() -> None:
    options = _options()
    model = resolve_base_model("smollm2-135m-instruct", Path(options.cache))
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as logs:
        for kind in options.only:
            for title, work in _works(kind, options):
                arena = Arena(kind, work, model, options.pythons, Path(logs))
                result = {"kind": kind, "work": title, "settings": work.as_dict(), **arena.run(options.rounds)}
                results.append(result)
                _show(result)
    if options.json:
        proofs.write(options.json, "make bench", {"rounds": options.rounds, "results": results})


def _works(kind: str, options: argparse.Namespace) -> list[tuple[str, Work]]:
    if kind == "learning":
        base = replace(WORKLOADS["short"], reward="sums", rate=options.learn_rate, steps=options.learn_steps)
        return [(f"sums, seed {seed}", replace(base, seed=seed, threads=2)) for seed in range(options.learn_seeds)]
    return [
        (f"{name}, {threads} threads", replace(WORKLOADS[name], threads=threads, steps=options.rounds + 1))
        for name in options.work
        for threads in options.threads
    ]


class Arena:
    """The contestants of one kind of work, and their steps in turns."""

    def __init__(self, kind: str, work: Work, model: Path, pythons: dict[str, str], logs: Path) -> None:
        self.kind, self.work, self.model, self.pythons, self.logs = kind, work, model, pythons, logs

    def run(self, rounds: int) -> dict[str, Any]:
        names = [OURS, *(name for name in PEERS[self.kind] if self.pythons.get(name))]
        contestants = {name: self._start(name) for name in names}
        steps: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        try:
            for index in range(self.work.steps if self.kind == "learning" else rounds + 1):
                for name in names if index % 2 else reversed(names):
                    steps[name].append(contestants[name].step())
        finally:
            for contestant in contestants.values():
                contestant.end()
        about = {name: contestant.about for name, contestant in contestants.items()}
        if self.kind == "learning":
            return {"about": about, "reward": {name: [step["reward"] for step in steps[name]] for name in names}}
        return {"about": about} | _compare({name: found[1:] for name, found in steps.items()}, self.kind)

    def _start(self, name: str) -> Contestant:
        module = f"tests.benchmarks.contest.{MODULE[self.kind]}_{name}"
        task = self.work.as_dict() | {"model": str(self.model)}
        return Contestant(name, module, self.pythons[name], task, self.logs / f"{self.kind}-{name}.log")


def _compare(steps: dict[str, list[dict[str, Any]]], kind: str) -> dict[str, Any]:
    """Seconds a step, tokens a second, peak memory; and by how much ours is faster, from the same round each time."""

    def cost(step: dict[str, Any]) -> float:
        # Sampled lengths differ from seed to seed: sampling is compared by the token, a whole step by the step.
        return float(step["seconds"] / (step["tokens"] if kind == "sampling" else 1))

    faster = {
        name: _spread([cost(theirs) / cost(ours) for theirs, ours in zip(steps[name], steps[OURS], strict=True)])
        for name in steps
        if name != OURS
    }
    figures = {
        name: {
            "seconds": _spread([step["seconds"] for step in found]),
            "tokens_per_s": _spread([step["tokens"] / step["seconds"] for step in found]),
            "cpu_s": _spread([step["cpu_s"] for step in found]),
            "peak_mb": max(step["peak_mb"] for step in found),
        }
        for name, found in steps.items()
    }
    return {"figures": figures, "times_faster": faster}


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _show(result: dict[str, Any]) -> None:
    sys.stdout.write(f"\n{result['kind']}: {result['work']}\n")
    if "reward" in result:
        for name, rewards in result["reward"].items():
            sys.stdout.write(f"  {name:14}" + " ".join(f"{value:.2f}" for value in rewards) + "\n")
        sys.stdout.flush()
        return
    sys.stdout.write(f"  {'':14}{'s':>8}{'(min-max)':>16}{'tokens/s':>10}{'peak MB':>9}   ours is faster by\n")
    for name, found in result["figures"].items():
        seconds, faster = found["seconds"], result["times_faster"].get(name)
        spread = f"({seconds['min']:.2f}-{seconds['max']:.2f})"
        ratio = f"   {faster['median']:.2f}x ({faster['min']:.2f}-{faster['max']:.2f})" if faster else ""
        row = f"  {name:14}{seconds['median']:8.2f}{spread:>16}{found['tokens_per_s']['median']:10.0f}"
        sys.stdout.write(f"{row}{found['peak_mb']:9.0f}{ratio}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    def several(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
        return lambda text: [kind(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=several(str), default=list(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--work", type=several(str), default=list(WORKLOADS), help=f"some of {','.join(WORKLOADS)}")
    parser.add_argument("--threads", type=several(int), default=[2, 1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--learn-seeds", type=int, default=3)
    parser.add_argument("--learn-steps", type=int, default=8)
    parser.add_argument("--learn-rate", type=float, default=2e-4)
    parser.add_argument("--peers", default=str(ROOT / ".venv-peers/bin/python"), help="has TRL")
    parser.add_argument("--vllm", default=str(ROOT / ".venv-vllm/bin/python"), help="has vLLM, if it exists")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "tuneyard-models"))
    parser.add_argument("--json", help="the name of the proof under docs/proofs")
    options = parser.parse_args()
    options.pythons = {
        name: python
        for name, python in {
            OURS: sys.executable,
            "transformers": sys.executable,
            "trl": options.peers,
            "vllm": options.vllm,
        }.items()
        if Path(python).exists() and _imports(python, name)
    }
    missing = [name for name in ("trl", "vllm") if name not in options.pythons]
    if missing:
        sys.stdout.write(f"Without {' and '.join(missing)}: not installed (docs/benchmarks.md says how).\n")
    return options


def _imports(python: str, name: str) -> bool:
    if name == OURS:
        return True
    return not subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode


if __name__ == "__main__":
    main()
