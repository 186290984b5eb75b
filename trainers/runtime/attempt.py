"""One attempt, without Ray: fetch the data, run the recipe in a thread, keep the journal, end exactly once."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from trainers.errors import RunPaused, RunStopped
from trainers.runtime import events
from trainers.runtime.capture import captured
from trainers.runtime.failures import as_event_error, name_failure
from trainers.runtime.journal import Journal, JournalError
from trainers.runtime.payload import DriverStatus, Launch, PollAnswer, attempt_folder, checkpoint_prefix
from trainers.runtime.segments import Shipper, journal_prefix
from trainers.runtime.work import run_work
from trainers.spec import TaskSpec, parse_spec
from trainers.storage import Storage, StorageError

logger = logging.getLogger(__name__)

SHIP_TIMEOUT_S = 30.0
LONGEST_WAIT_S = 30.0
PAGE_BYTES = 1 << 20


class AttemptRun:
    """Runs one launch. Also the ``RunContext`` that its recipe sees. Methods may be called from any thread.

    Raises ``JournalError`` when the work folder cannot be used: then there is nothing to run in.
    """

    def __init__(self, launch: Launch, node_id: str = "", ship_timeout: float = SHIP_TIMEOUT_S) -> None:
        self.launch = launch
        self._node_id, self._ship_timeout = node_id, ship_timeout
        self._folder = attempt_folder(launch.work_dir, launch.attempt_id)
        self.scratch = self._folder / "scratch"
        self._state = "new"
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pause = threading.Event()
        self._concluding = False
        self._done = threading.Event()
        self._shipper: Shipper | None = None
        try:
            self.journal = Journal(self._folder)
        except OSError as error:
            raise JournalError(f"The work folder {self._folder} cannot be used ({error.strerror}).") from error
        self._thread = threading.Thread(target=self._run, name="recipe", daemon=True)

    @cached_property
    def spec(self) -> TaskSpec:
        return parse_spec(self.launch.spec)

    @property
    def cache_folder(self) -> Path:
        return Path(self.launch.cache_dir)

    @cached_property
    def storage(self) -> Storage:
        return Storage(self.launch.storage_url)

    def emit(self, kind: str, step: int | None = None, **fields: Any) -> None:
        """Append one event to the journal. Raises ``RunStopped`` once the attempt has ended without its recipe."""
        if self._concluding:
            raise RunStopped
        self.journal.append(kind, step, **fields)

    def stop_requested(self) -> bool:
        return self._stop.is_set()

    def pause_requested(self) -> bool:
        return self._pause.is_set()

    def publish_folder(self, local: Path, name: str) -> dict[str, Any]:
        """Store a folder below the attempt's ``checkpoint_prefix``; ``uri`` is the key to fetch it by."""
        if self._concluding:
            raise RunStopped
        prefix = f"{checkpoint_prefix(self.launch.attempt_id, self.launch.epoch)}/{name}"
        try:
            return {"uri": prefix, "files": self.storage.put_folder(local, prefix)}
        except (StorageError, OSError) as error:
            raise name_failure(error) from error

    def start(self) -> None:
        """Begin; does nothing when it has begun."""
        with self._lock:
            if self._state != "new":
                return
            self._state = "running"
        self._thread.start()

    def cancel(self, grace_s: float = 20.0) -> None:
        """Ask the recipe to stop; a recipe that has not done so after ``grace_s`` is left behind. Idempotent."""
        with self._lock:
            if self._stop.is_set() or self._done.is_set():
                return
            self._stop.set()
            if self._state == "new":
                self._state = "running"
                self._thread.start()
        threading.Thread(target=self._end_without_recipe, args=(grace_s,), name="cancel", daemon=True).start()

    def pause(self) -> None:
        """Ask the recipe to write a checkpoint at the next step and to end as ``paused``. Idempotent."""
        with self._lock:
            if self._state in ("new", "running"):
                self._pause.set()

    def wait(self, timeout: float) -> bool:
        """Wait for the end: everything said is on disk, and in storage if that was possible."""
        return self._done.wait(timeout)

    def status(self) -> DriverStatus:
        shipper = self._shipper
        state = self._state
        if state == "running":
            state = "stopping" if self._stop.is_set() else "pausing" if self._pause.is_set() else "running"
        return {
            "attempt_id": self.launch.attempt_id,
            "epoch": self.launch.epoch,
            "state": state,
            "last_seq": self.journal.last_seq,
            "shipped_seq": shipper.shipped_seq if shipper else 0,
            "shipped": shipper is not None and shipper.shipped_seq == self.journal.last_seq,
            "journal_error": self.journal.error,
            "shipping_error": shipper.error if shipper else None,
            "alive_at": time.time(),
            "pid": os.getpid(),
            "node_id": self._node_id,
        }

    def poll(self, after: int, wait_s: float, limit: int) -> PollAnswer:
        """Events after the cursor, waiting up to ``wait_s`` for the first one, and the status.

        The last word of the run is held back until everything is safe: who reads it may end this process.
        """
        wait_s = min(max(wait_s, 0.0), LONGEST_WAIT_S)
        self.journal.wait(after, wait_s)
        page = self.journal.read(after, max(limit, 1), PAGE_BYTES)
        if page and _is_last_word(page[-1]) and not self._done.wait(wait_s if len(page) == 1 else 0.0):
            page.pop()
        reached = page[-1]["seq"] if page else after
        status = self.status()
        return {**status, "events": page, "more": bool(page) and self.journal.last_seq > reached}

    def _run(self) -> None:
        name, fields = "failed", {}
        try:
            with captured(self._say):
                try:
                    name, fields = "succeeded", {"result": self._execute()}
                except RunStopped:
                    name = "cancelled"
                except RunPaused:
                    name = "paused"
                except BaseException as error:
                    name, fields = self._after_error(error)
        finally:
            self._conclude(name, **fields)

    def _execute(self) -> Mapping[str, Any]:
        self.emit("state", state="started", result=None, error=None)
        self._shipper = Shipper(self.journal, self.storage, journal_prefix(self.launch.attempt_id, self.launch.epoch))
        self._shipper.start()
        if self.stop_requested():
            raise RunStopped
        if self.pause_requested():
            raise RunPaused
        self.scratch.mkdir(parents=True, exist_ok=True)
        return dict(run_work(self, self.launch, self.storage))

    def _after_error(self, error: BaseException) -> tuple[str, dict[str, Any]]:
        if name_failure(error).kind == "internal":
            self._say("error", "".join(traceback.format_exception(error)))
        if self.stop_requested():  # whatever broke while it was leaving, it ends as it was asked to
            return "cancelled", {}
        return "failed", {"error": as_event_error(error)}

    def _end_without_recipe(self, grace_s: float) -> None:
        if self._done.wait(grace_s):
            return
        self._say("warning", f"The run did not stop within {grace_s:g} s and was ended without waiting for it.")
        self._conclude("cancelled")

    def _conclude(
        self, name: str, result: Mapping[str, Any] | None = None, error: Mapping[str, Any] | None = None
    ) -> None:
        """Write the last word, once, and bring everything to safety before the end is shown."""
        with self._lock:
            if self._concluding:
                return
            self._concluding = True
            self._state = "finishing"
        with suppress(JournalError, ValueError):
            self.journal.append("state", state=name, result=result, error=error)
        self.journal.close()
        if self._shipper is not None:
            self._shipper.finish(self._ship_timeout)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self._state = name
        self._done.set()

    def _say(self, level: str, text: str) -> None:
        with suppress(JournalError, ValueError):
            self.journal.append("log", level=level, text=events.shorten(text, events.MAX_LOG_CHARS))


def _is_last_word(event: events.Event) -> bool:
    return event["kind"] == "state" and event["state"] in events.TERMINAL_STATES
