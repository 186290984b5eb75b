"""What a run logs, warns and prints becomes log lines, and everything is put back afterwards."""

from __future__ import annotations

import logging
import sys
import warnings

from trainers.runtime.capture import captured


def test_logging_warnings_and_prints_are_lines_with_a_level() -> None:
    said: list[tuple[str, str]] = []
    before = sys.stdout, sys.stderr, logging.getLogger().handlers[:], logging.getLogger("trainers").level
    with captured(lambda level, text: said.append((level, text))):
        logging.getLogger("trainers.recipes.grpo").info("step %d", 3)
        logging.getLogger("trainers").debug("not this")
        logging.getLogger("someone.else").info("nor this")
        logging.getLogger("someone.else").error("but this")
        sys.stdout.write("one\ntwo ")
        sys.stdout.write("three\r\n\n")
        sys.stderr.write("10 %\r50 %\r100 %\n")
        sys.stdout.write("not ended")
        warnings.warn("beware", stacklevel=1)
    assert said[:5] == [
        ("info", "step 3"),
        ("error", "but this"),
        ("info", "one"),
        ("info", "two three"),
        ("warning", "100 %"),
    ]
    assert "beware" in said[5][1] and said[5][0] == "warning"
    assert said[6:] == [("info", "not ended")]
    assert before == (sys.stdout, sys.stderr, logging.getLogger().handlers[:], logging.getLogger("trainers").level)


def test_a_wrong_format_string_and_an_endless_line_do_no_harm() -> None:
    said: list[tuple[str, str]] = []
    with captured(lambda level, text: said.append((level, text))):
        # Not through a logger: pytest's own handler is stricter than a run's.
        logging.getLogger().handlers[-1].handle(
            logging.LogRecord("trainers", logging.WARNING, "", 0, "%d items", ("many",), None)
        )
        for _ in range(200):
            sys.stdout.write("x" * 1000)
        try:
            raise KeyError("lost")
        except KeyError:
            logging.getLogger("trainers").exception("it broke")
    assert "not formatted" in said[0][1]
    assert sum(len(text) for level, text in said if text.startswith("x")) == 200_000
    assert any(level == "error" and "it broke" in text and "KeyError" in text for level, text in said)
