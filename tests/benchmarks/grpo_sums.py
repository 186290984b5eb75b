"""How fast GRPO teaches SmolLM2 small sums: seconds and tokens per step, and held-out accuracy over time.

    python -m tests.benchmarks.grpo_sums --threads 2 --steps 24 --json result.json

Held-out pairs of operands are disjoint from the training pairs, in either order.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.recording import LastNumberScorer, RecordingContext, sums
from trainers.engine.base_models import resolve_base_model
from trainers.recipes.run import run_recipe
from trainers.spec import parse_spec

COLUMNS = ("reward", "entropy", "completion_tokens", "zero_variance_groups", "kl", "clip_fraction", "logprob_mismatch")


def main() -> None:
    options = _options()
    train_rows, eval_rows = sums(options.low, options.high, options.held_out, options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        ctx = RecordingContext(parse_spec(_task(options)), Path(scratch), on_event=_printer())
        begun, cpu = time.monotonic(), time.process_time()
        result = run_recipe(
            ctx,
            model_path=resolve_base_model("smollm2-135m-instruct", Path(options.cache)),
            train_rows=train_rows,
            eval_rows=eval_rows,
            scorer=LastNumberScorer(),
            threads=options.threads,
        )
    record = {
        "settings": vars(options),
        "machine": {"processor": platform.processor(), "python": platform.python_version()},
        "rows": {"train": len(train_rows), "held_out": len(eval_rows)},
        "wall_s": time.monotonic() - begun,
        "cpu_s": time.process_time() - cpu,
        "result": result,
        "step_s": ctx.values("system/step_s"),
        "sample_tokens_per_s": ctx.values("system/sample_tokens_per_s"),
        "metrics": ctx.of("metric"),
    }
    _print(f"\n{json.dumps(result, indent=1)}\nwall {record['wall_s']:.1f} s, CPU {record['cpu_s']:.1f} s")
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, value in (
        ("threads", int, 2), ("steps", int, 24), ("seed", int, 0), ("low", int, 0), ("high", int, 9),
        ("held-out", float, 0.2), ("prompts", int, 8), ("group", int, 8), ("max-new", int, 16), ("rank", int, 16),
        ("alpha", float, 32.0), ("rate", float, 5e-4), ("updates", int, 1), ("eval-samples", int, 13),
        ("eval-every", int, 12), ("kl", float, 0.0),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=value)
    parser.add_argument("--loss", default="ppo")
    parser.add_argument("--advantage", default="mean_std")
    parser.add_argument("--schedule", default="constant")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "tuneyard-models"))
    parser.add_argument("--json")
    return parser.parse_args()


def _task(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "recipe": "grpo",
        "data": {"source": "sums"},
        "reward": {"components": [{"kind": "numeric"}]},
        "model": {"adapter": {"rank": options.rank, "alpha": options.alpha}},
        "loss": {"name": options.loss, "kl_coefficient": options.kl},
        "sampling": {"group_size": options.group, "max_new_tokens": options.max_new},
        "hyperparameters": {
            "steps": options.steps,
            "batch_size": options.prompts,
            "learning_rate": options.rate,
            "advantage": options.advantage,
            "updates_per_batch": options.updates,
            "schedule": options.schedule,
        },
        "evaluation": {"every_steps": options.eval_every, "samples_per_prompt": options.eval_samples},
        "seed": options.seed,
    }


def _printer() -> Any:
    _print("   step     s  sample tok/s  " + "  ".join(COLUMNS))

    def show(event: dict[str, Any]) -> None:
        values = event.get("values", {})
        if "eval/accuracy" in values:
            figures = "  ".join(f"{key.removeprefix('eval/')} {value:.3f}" for key, value in values.items())
            _print(f"{event['step']:>7}  at {event['active_s']:.0f} s held out: {figures}")
        elif "system/step_s" in values:
            head = f"{event['step']:>7} {values['system/step_s']:5.1f} {values['system/sample_tokens_per_s']:13.0f}"
            _print(head + "".join(f"{values.get('train/' + name, float('nan')):>10.3g}" for name in COLUMNS))

    return show


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
