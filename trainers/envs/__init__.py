"""Environments by name. Light: no torch."""

from __future__ import annotations

from trainers.envs.countdown import CountdownKind
from trainers.envs.guess import GuessKind
from trainers.envs.protocol import Environment, EnvironmentKind, Turn
from trainers.envs.sums import SumsKind

__all__ = ["ENVIRONMENTS", "Environment", "EnvironmentKind", "Turn"]

ENVIRONMENTS: dict[str, EnvironmentKind] = {kind.name: kind for kind in (SumsKind(), CountdownKind(), GuessKind())}
