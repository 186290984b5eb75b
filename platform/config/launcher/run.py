"""Start the parts in the order of their needs, watch them, restart those that die, and stop them in reverse."""

from __future__ import annotations

import enum
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from config.launcher import processes
from config.launcher.part import Child, Part, exit_words, rotate
from config.launcher.problems import part_failed
from config.launcher.screen import Screen

TICK_S = 0.05
PROBE_EVERY_S = 0.15
OBSERVE_EVERY_S = 5.0
STOP_WITHIN_S = 15.0
# A part that died waits this long before it is started again; the last one repeats.
BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
DEATHS_THAT_WORRY = 5
WORRY_WINDOW_S = 60.0


class State(enum.Enum):
    WAITING = enum.auto()
    STARTING = enum.auto()
    READY = enum.auto()
    STOPPING = enum.auto()
    DONE = enum.auto()


@dataclass(slots=True)
class Slot:
    part: Part
    state: State = State.WAITING
    child: Child | None = None
    starts: int = 0
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    retry_at: float = 0.0
    probe_at: float = 0.0
    stop_by: float = 0.0

    @property
    def satisfied(self) -> bool:
        return self.state in (State.READY, State.DONE)


class Launcher:
    """Runs the parts of one installation. Everything happens in the caller's thread: the kernel ties the children's
    lives to the thread that made them."""

    def __init__(self, parts: Sequence[Part], *, logs: Path, ledger: processes.Ledger, screen: Screen) -> None:
        self.slots = {part.name: Slot(part) for part in parts}
        self.logs = logs
        self.ledger = ledger
        self.screen = screen
        self.stop_asked = 0
        self._started = False
        self._observe_at = 0.0

    # ---- the three things a launcher does

    def start(self) -> bool:
        """Bring every part up; False when a stop was asked for meanwhile.

        Raises:
            Problem: a part failed or was not ready in time. What runs already is for ``stop`` to end.
        """
        for slot in self.slots.values():
            rotate(self._log(slot.part))
        while not all(slot.satisfied for slot in self.slots.values()):
            if self.stop_asked:
                return False
            self.tick()
            time.sleep(TICK_S / 2)
        self._started = True
        self._observe()
        return True

    def watch(self, also: Callable[[], None] = lambda: None) -> None:
        """Keep the parts running until a stop is asked for; ``also`` is called at each tick."""
        while not self.stop_asked:
            self.tick()
            also()
            time.sleep(TICK_S)

    def stop(self) -> None:
        """End every part, those first that nothing running needs; never takes much more than STOP_WITHIN_S."""
        deadline = time.monotonic() + STOP_WITHIN_S
        hurry_at = self.stop_asked + 1
        left = {name: slot for name, slot in self.slots.items() if slot.child is not None}
        asked: dict[str, float] = {}
        while left:
            now = time.monotonic()
            hurry = now > deadline or self.stop_asked > hurry_at
            for name, slot in list(left.items()):
                assert slot.child is not None
                needed = any(name in other.part.needs for other in left.values())
                if name not in asked and (hurry or not needed):
                    slot.child.ask_to_stop()
                    asked[name] = min(deadline, now + slot.part.stop_seconds)
                if name in asked and (slot.child.exit_code() is not None or now > asked[name] or hurry):
                    slot.child.finish()
                    slot.child = None
                    del left[name]
            time.sleep(TICK_S / 2)
        self.ledger.clear()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop_asked += 1

    def install_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)

    # ---- one look at everything

    def tick(self) -> None:
        now = time.monotonic()
        for slot in self.slots.values():
            if self.stop_asked:
                return
            self._advance(slot, now)
        if now >= self._observe_at:
            self._observe()

    def _advance(self, slot: Slot, now: float) -> None:
        if slot.state is State.WAITING:
            if now >= slot.retry_at and self._needs_met(slot.part):
                self._spawn(slot)
        elif slot.state is State.STARTING:
            self._look_at_start(slot, now)
        elif slot.state is State.READY:
            self._look_at_running(slot)
        elif (
            slot.state is State.STOPPING
            and slot.child is not None
            and (slot.child.exit_code() is not None or now > slot.stop_by)
        ):
            slot.child.finish()
            slot.state, slot.child, slot.retry_at = State.WAITING, None, now

    def _needs_met(self, part: Part) -> bool:
        return all(self.slots[name].satisfied for name in part.needs if name in self.slots)

    def _spawn(self, slot: Slot) -> None:
        slot.child = Child(slot.part, self._log(slot.part))
        slot.state = State.STARTING
        slot.starts += 1
        # Until the first look, a killed launcher must still find this one.
        self._write_ledger()

    def _look_at_start(self, slot: Slot, now: float) -> None:
        child = slot.child
        assert child is not None
        code = child.exit_code()
        if code is not None:
            if slot.part.once and code == 0:
                child.finish()
                slot.state, slot.child = State.DONE, None
                self.screen.part(slot.part.name, "done", time.monotonic() - child.began)
            else:
                self._died(slot, exit_words(code))
        elif now - child.began > slot.part.start_seconds:
            self._died(slot, f"was not ready within {slot.part.start_seconds:.0f} s")
        elif not slot.part.once and now >= slot.probe_at:
            slot.probe_at = now + PROBE_EVERY_S
            detail = child.check()
            if detail is not None:
                slot.state = State.READY
                self._became_ready(slot, detail)

    def _became_ready(self, slot: Slot, detail: str) -> None:
        assert slot.child is not None
        again = slot.starts > 1
        word = "ready again" if again else "ready"
        self.screen.part(slot.part.name, word, time.monotonic() - slot.child.began, detail)
        if again:
            for other in self.slots.values():
                if slot.part.name in other.part.follows and other.state in (State.STARTING, State.READY):
                    self.screen.part(other.part.name, "restarting", detail=f"{slot.part.name} is a new one")
                    self._recycle(other)

    def _recycle(self, slot: Slot) -> None:
        assert slot.child is not None
        slot.child.ask_to_stop()
        slot.state, slot.stop_by = State.STOPPING, time.monotonic() + slot.part.stop_seconds

    def _look_at_running(self, slot: Slot) -> None:
        assert slot.child is not None
        code = slot.child.exit_code()
        if code is not None:
            self._died(slot, exit_words(code))

    def _died(self, slot: Slot, what: str) -> None:
        child = slot.child
        assert child is not None
        child.finish()
        slot.state, slot.child = State.WAITING, None
        if not self._started:
            raise part_failed(slot.part.name, what, child.log, child.tail())
        now = time.monotonic()
        slot.deaths.append(now)
        recent = sum(now - at <= WORRY_WINDOW_S for at in slot.deaths)
        wait = BACKOFF_S[min(recent, len(BACKOFF_S)) - 1]
        if recent >= DEATHS_THAT_WORRY:
            wait = BACKOFF_S[-1]
            self.screen.trouble(
                f"{slot.part.name} has died {recent} times within a minute; it is tried again in {wait:.0f} s. "
                f"The last lines of {child.log}:" + "".join(f"\n    {line}" for line in child.tail())
            )
        else:
            self.screen.trouble(f"{slot.part.name} {what}; starting it again in {wait:g} s ({child.log})")
        slot.retry_at = now + wait

    # ---- who belongs to us

    def _observe(self) -> None:
        self._observe_at = time.monotonic() + OBSERVE_EVERY_S
        table = processes.snapshot()
        for slot in self.slots.values():
            if slot.child is not None:
                slot.child.observe(table)
        processes.reap({slot.child.pid for slot in self.slots.values() if slot.child is not None})
        self._write_ledger()

    def _write_ledger(self) -> None:
        entries: set[tuple[processes.ProcessId, int]] = set()
        for slot in self.slots.values():
            if slot.child is not None:
                entries.add((slot.child.id, int(slot.part.stop_signal)))
                entries.update((each, 0) for each in slot.child.kin if each != slot.child.id)
        self.ledger.write(entries)

    def _log(self, part: Part) -> Path:
        return self.logs / f"{part.name.replace(' ', '-')}.log"
