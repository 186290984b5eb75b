"""Everything a run says (``logging``, warnings, ``print``) becomes ``log`` events of its journal."""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

Say = Callable[[str, str], None]
"""``say(level, text)`` with a level of the ``log`` events."""

OWN_LOGGER = "trainers"
LONGEST_LINE = 64 * 1024


@contextmanager
def captured(say: Say) -> Iterator[None]:
    """While open, pass on what is logged (own modules from info, others from warning), warned and printed."""
    handler = _Handler(say)
    root, own = logging.getLogger(), logging.getLogger(OWN_LOGGER)
    own_level = own.level
    out, err = _Lines(say, "info"), _Lines(say, "warning")
    root.addHandler(handler)
    own.setLevel(logging.INFO)
    with warnings.catch_warnings():
        logging.captureWarnings(True)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                yield
        finally:
            logging.captureWarnings(False)
            root.removeHandler(handler)
            own.setLevel(own_level)
            out.flush_rest()
            err.flush_rest()


class _Handler(logging.Handler):
    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def filter(self, record: logging.LogRecord) -> bool:
        own = record.name == OWN_LOGGER or record.name.startswith(f"{OWN_LOGGER}.")
        return own or record.levelno >= logging.WARNING

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        except Exception as error:  # a wrong format string must not end a run
            text = f"{record.msg} [not formatted: {error}]"
        self._say(_level(record.levelno), text)


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


class _Lines(io.TextIOBase):
    """A text stream that passes on whole lines. A carriage return starts the line anew, as on a terminal."""

    def __init__(self, say: Say, level: str) -> None:
        self._say, self._level = say, level
        self._lock = threading.RLock()
        self._rest = ""

    encoding = "utf-8"
    errors = "replace"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            if len(self._rest) > LONGEST_LINE:
                lines.append(self._rest)
                self._rest = ""
            for line in lines:
                self._pass_on(line)
        return len(text)

    def flush_rest(self) -> None:
        """Pass on a last line that was not ended."""
        with self._lock:
            line, self._rest = self._rest, ""
            self._pass_on(line)

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ is not None else super().fileno()

    def _pass_on(self, line: str) -> None:
        line = line.rstrip("\r").rpartition("\r")[2].rstrip()
        if line:
            self._say(self._level, line)
