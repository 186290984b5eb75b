"""How the commands print: plain text that a pipe can read, tables and bars on a terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuneyard.catalog import Progress
from tuneyard.client import Client


def client_of(arguments: argparse.Namespace) -> Client:
    return Client(url=arguments.url, project=getattr(arguments, "project", None))


def say(line: str = "") -> None:
    """One line of text from the server or from us; control characters of the former never reach the terminal."""
    print(clean(line), flush=True)  # noqa: T201


def warn(line: str) -> None:
    print(clean(line), file=sys.stderr, flush=True)  # noqa: T201


def clean(text: str) -> str:
    """Text without characters that steer a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def as_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))  # noqa: T201


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """A table without frames; numbers to the right. ``empty`` is said when there are no rows."""
    body = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not body:
        say(empty)
        return
    console = Console()
    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        numeric = all(row[index].replace(".", "").replace(",", "").isdigit() for row in body)
        out.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=not console.is_terminal)
    for row in body:
        out.add_row(*(Text(clean(cell)) for cell in row))
    if not console.is_terminal:
        console = Console(width=max(80, *(sum(len(cell) + 2 for cell in row) for row in body)))
    console.print(out)


@contextmanager
def bytes_bar(what: str) -> Iterator[Progress]:
    """A bar for bytes sent or fetched; silent where the output is no terminal."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task(clean(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
