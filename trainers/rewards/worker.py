"""The processes, pipes and folders of one sandbox worker."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from trainers.rewards.exchange import START_SECONDS, Exchange, SandboxError

OUTPUT_BYTES = 1 << 20
_JAIL = Path(__file__).parent
_LAUNCH = "import sys; sys.path.append({!r}); from jail.main import main; sys.path.pop(); main()"
_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
# A fixed seed: the order of a set must not decide a reward.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "HOME": "/scratch", "TMPDIR": "/scratch"}


@dataclass(frozen=True, slots=True)
class Tool:
    """A module of :mod:`trainers.rewards.jail` with tasks of our own, and the packages that it needs."""

    module: str
    distributions: tuple[str, ...] = ()


class Worker:
    """A started worker. Raises :class:`SandboxError` when it does not come up."""

    def __init__(self, python: str, without: frozenset[str], user: int | None, tools: Sequence[Tool]) -> None:
        self.folder = tempfile.mkdtemp(prefix="tuneyard-sandbox-")
        packages = self.packages = linked_packages(tools)
        if user is not None:
            os.chown(self.folder, user, user)
        lifeline, self._lifeline = os.pipe()
        control, told = os.pipe()
        config = {
            "folder": self.folder,
            "lifeline": lifeline,
            "control": told,
            "without": sorted(without),
            "tools": [tool.module for tool in tools],
            "packages": packages,
        }
        try:
            self.process = subprocess.Popen(
                [python, *_FLAGS, "-c", _LAUNCH.format(str(_JAIL)), json.dumps(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(lifeline, told),
                start_new_session=True,
                env=_ENVIRONMENT,
                cwd="/",
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        except OSError as error:
            for descriptor in (self._lifeline, control):
                os.close(descriptor)
            _clear(self.folder, packages)
            raise SandboxError(f"The sandbox's worker does not start: {error}.") from error
        finally:
            os.close(lifeline)
            os.close(told)
        self.control: Any = io.FileIO(control)
        self._finish = weakref.finalize(self, _end, self.process, self._lifeline, self.control, self.folder, packages)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.tasks: Any = self.process.stdin
        self.results: Any = self.process.stdout
        self.prints: Any = self.process.stderr
        for stream in (self.tasks, self.results, self.prints, self.control):
            os.set_blocking(stream.fileno(), False)
        try:
            self.report = self._await_report()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._finish()

    def _await_report(self) -> dict[str, Any]:
        outcome = Exchange(self, 0, START_SECONDS, OUTPUT_BYTES, 1).run(b"")
        for message in outcome.messages:
            if isinstance(report := message.get("ready"), dict):
                return report
        reason = outcome.printed.strip() or outcome.failure or "it ended without a word"
        raise SandboxError(f"The sandbox's worker does not start: {reason}")


def linked_packages(tools: Sequence[Tool]) -> str | None:
    """A folder of links to the packages of some tools, so that nothing else that is installed can be imported."""
    names = [name for tool in tools for name in tool.distributions]
    if not names:
        return None
    folder = Path(tempfile.mkdtemp(prefix="tuneyard-sandbox-packages-"))
    folder.chmod(0o755)
    for name in names:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            (folder / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return str(folder)


def _end(process: subprocess.Popen[bytes], lifeline: int, control: Any, *folders: str | None) -> None:
    """Cut the lifeline, at which the keeper kills the worker; then wait for it, and clear its folders away."""
    os.close(lifeline)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()  # the server dies with its keeper (PDEATHSIG)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr, control):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    _clear(*folders)


def _clear(*folders: str | None) -> None:
    for folder in folders:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
