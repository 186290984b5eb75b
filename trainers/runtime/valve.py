"""A bound on log lines: a run that prints 10,000 lines a second must not drown its journal or its readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class LogValve:
    """Lets ``burst`` lines through at once and ``rate`` a second after that; counts what it holds back.

    Warnings and errors have an allowance of their own, so that a flood of ordinary lines cannot hide them.
    """

    def __init__(self, rate: float = 100.0, burst: float = 1000.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._lock = threading.Lock()
        self._allowance = {False: burst, True: burst}
        self._refilled = clock()
        self._held_back = 0
        self._noted = clock()

    def admit(self, level: str) -> bool:
        """Whether a line of this level may be kept now; a line that may not is counted."""
        urgent = level in ("warning", "error")
        with self._lock:
            now = self._clock()
            gained = (now - self._refilled) * self._rate
            self._refilled = now
            for key, value in self._allowance.items():
                self._allowance[key] = min(self._burst, value + gained)
            if self._allowance[urgent] >= 1.0:
                self._allowance[urgent] -= 1.0
                return True
            self._held_back += 1
            return False

    def note(self, *, final: bool = False) -> str | None:
        """The sentence about the lines held back since the last note; at most one every five seconds, or None."""
        with self._lock:
            now = self._clock()
            if not self._held_back or (now - self._noted < 5.0 and not final):
                return None
            count, self._held_back, self._noted = self._held_back, 0, now
        return f"{count} lines left out: the run writes more than {self._rate:g} lines a second."
