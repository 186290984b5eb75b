"""How far a long call has come, told often enough that nobody waits and rarely enough that it costs nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

_INTERVAL_S = 0.1

Progress = Callable[[float], None]


class Pulse:
    """Counts work units of one call and tells the listener the share done, at most ten times a second.

    The listener may raise: the exception leaves the call from wherever it was, even the middle of a backward pass.
    """

    def __init__(self) -> None:
        self.listener: Progress | None = None
        self._total = 1.0
        self._done = 0.0
        self._told = 0.0

    def begin(self, total: float) -> None:
        """A new call of ``total`` work units starts."""
        self._total, self._done = max(total, 1e-9), 0.0

    def add(self, units: float) -> None:
        """So many more units are done."""
        self.at((self._done + units) / self._total)

    def at(self, share: float) -> None:
        """The call has come to this share (0 to 1) of its work."""
        self._done = share * self._total
        if self.listener is None:
            return
        now = time.monotonic()
        if now - self._told >= _INTERVAL_S:
            self._told = now
            self.listener(min(share, 1.0))
