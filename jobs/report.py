"""The report of a job: one HTML file that needs nothing else, with the curves, samples, configuration and bill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone

from billing.selectors import bill_of, cost_of
from jobs.models import Job
from records.models import Rollout
from records.selectors import series_of
from trainers.spec import TaskSpec

# Okabe & Ito (2008), "Color Universal Design": told apart with any kind of color vision.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
CHARTS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Reward", (("train/reward", "training"), ("eval/reward", "held-out"))),
    (
        "Accuracy",
        (("train/accuracy", "training"), ("eval/accuracy", "held-out"), ("eval/accuracy_greedy", "held-out, greedy")),
    ),
    ("Loss", (("train/loss", "training"), ("eval/loss", "held-out"))),
    ("KL to the base model", (("train/kl", "training"),)),
    ("Entropy", (("train/entropy", "training"),)),
    (
        "Length of completions (tokens)",
        (
            ("train/completion_tokens", "mean"),
            ("train/completion_tokens_max", "longest"),
            ("eval/completion_tokens", "held-out"),
        ),
    ),
)
SAMPLES = 8


def render(job: Job) -> str:
    """The report as HTML text."""
    series = series_of(("job", job.pk))
    return render_to_string(
        "jobs/report.html",
        {
            "job": job,
            "made_at": timezone.now(),
            "headline": headline(job),
            "before": (job.result or {}).get("before") or {},
            "after": (job.result or {}).get("after") or {},
            "result": job.result or {},
            "figures": _figures(series),
            "samples": _samples(job),
            "bill": bill_of("job", job.pk),
            "cost": cost_of("job", job.pk),
            # The database keeps no order of keys; the spec's own is the one a person knows.
            "spec": json.dumps(TaskSpec.model_validate(job.spec).model_dump(mode="json"), indent=2, ensure_ascii=False),
            "plotly": (Path(settings.BASE_DIR) / "static/vendor/plotly/plotly-cartesian.min.js").read_text(),
        },
    )


_MEASURED = (
    ("accuracy", "Accuracy on held-out prompts", ".1%"),
    ("loss", "Loss on held-out rows", ".3f"),
    ("teacher_kl", "Divergence from the teacher on held-out prompts", ".3f"),
)


def headline(job: Job) -> str:
    """What came out, in one sentence."""
    before, after = ((job.result or {}).get(part) or {} for part in ("before", "after"))
    for part, what, form in _MEASURED:
        if after.get(part) is None:
            continue
        if before.get(part) is None:
            return f"{what} is {after[part]:{form}}."
        return f"{what} went from {before[part]:{form}} to {after[part]:{form}}."
    return "Trained, without held-out prompts to measure it on."


def _figures(series: dict[str, list[list[Any]]]) -> list[dict[str, Any]]:
    found = []
    for title, lines in CHARTS:
        present = [(key, label) for key, label in lines if key in series]
        if present:
            figure = _figure(present, series)
            # `</` would end the script element that carries the figure.
            found.append({"title": title, "json": figure.to_json().replace("</", "<\\/")})
    return found


def _figure(lines: list[tuple[str, str]], series: dict[str, list[list[Any]]]) -> go.Figure:
    figure = go.Figure()
    for color, (key, label) in zip(COLORS, lines, strict=False):
        points = series[key]
        figure.add_scatter(
            x=[point[0] for point in points],
            y=[point[1] for point in points],
            name=label,
            mode="lines+markers" if len(points) < 40 else "lines",
            line={"color": color, "width": 2},
        )
    figure.update_layout(
        template="none",
        height=300,
        margin={"l": 52, "r": 12, "t": 8, "b": 76},
        xaxis={"title": {"text": "step"}, "gridcolor": "rgba(128,128,128,.2)"},
        yaxis={"gridcolor": "rgba(128,128,128,.2)", "zeroline": False},
        legend={"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0},
        showlegend=len(lines) > 1,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    return figure


def _samples(job: Job) -> list[dict[str, Any]]:
    """The same held-out prompts before and after training, one sample of each."""
    rows = Rollout.objects.filter(subject_kind="job", subject_id=job.pk, greedy=False, index=0)
    after = list(rows.filter(phase="after", attempt=job.epoch).order_by("group")[:SAMPLES])
    # The base model was measured by the first attempt; one that went on from a checkpoint did not do so again.
    keys = [row.prompt_key for row in after]
    before = {row.prompt_key: row for row in rows.filter(phase="before", prompt_key__in=keys).order_by("attempt")}
    return [{"after": row, "before": before.get(row.prompt_key)} for row in after]
