"""Trained models: list them, and fetch one whole and verified."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
import uuid
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from tuneyard.catalog import Items, Json, Progress, pages
from tuneyard.errors import ConnectionFailed, DownloadError, NotFound, ServerError
from tuneyard.http import TRIES, pause

if TYPE_CHECKING:
    from tuneyard.client import Client

FORMATS = ("adapter", "merged")
MOST_FILES = 10_000
MERGE_LOOK_S = 1.0


class Models:
    def __init__(self, client: Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def list(self, project: str | None = None) -> Items:
        """The models of a project, each with its versions."""
        return pages(self._client, "/models", {"project": self._client.project_id(project)})

    def get(self, model_id: str) -> Json:
        answer: Json = self._client.http.get(f"/models/{model_id}")
        return answer

    def version(self, version_id: str) -> Json:
        """One version with its files: ``{"formats": {"adapter": {"size", "files": [...]}, "merged": ... or None}}``."""
        answer: Json = self._client.http.get(f"/model-versions/{version_id}")
        return answer

    def find(self, text: str, project: str | None = None) -> Json:
        """The version that a person means by ``name``, ``name@number``, or an id. Without a number, the newest."""
        try:
            return self.version(str(uuid.UUID(text)))
        except ValueError:
            pass
        name, _, number = text.rpartition("@") if re.search(r"@v?\d+$", text) else (text, "", "")
        models = self.list(project)
        for model in models:
            if model["name"].lower() == name.lower():
                for version in model["versions"]:
                    if not number or version["number"] == int(number.lstrip("v")):
                        return self.version(version["id"])
                raise NotFound(f"The model {name!r} has no version {number or 'yet'}.", status=404)
        known = ", ".join(str(model["name"]) for model in models) or "none yet"
        raise NotFound(f"There is no model {name!r} in this project. There are: {known}.", status=404)

    def merge(self, version_id: str, timeout: float = 1800.0) -> Json:
        """Have the merged weights made, wait until they are, and return the version.

        Raises :class:`DownloadError` when they could not be made, ``TimeoutError`` when that takes longer.
        """
        deadline = time.monotonic() + timeout
        version: Json = self._client.http.call("POST", f"/model-versions/{version_id}/merge")
        while version["merged"] == "making":
            if time.monotonic() > deadline:
                raise TimeoutError("The merged weights are not ready yet; they are being made without this program.")
            self._sleep(MERGE_LOOK_S)
            version = self.version(version_id)
        if version["formats"]["merged"] is None:
            raise DownloadError(f"The merged weights could not be made: {version['merged_error']}")
        return version

    def download(
        self,
        version_id: str,
        target: str | PathLike[str] | None = None,
        *,
        format: str = "adapter",
        progress: Progress | None = None,
    ) -> Path:
        """Fetch a version into a new folder and return it; ``adapter`` is for PEFT, ``merged`` for transformers.

        Merged weights that nobody has asked for yet are made first. Every file is checked against its SHA-256, a
        broken connection is taken up where it broke, and the folder appears under its name only once all of it is
        there. ``progress`` is called with (bytes so far, bytes in all).
        Raises :class:`DownloadError`.
        """
        if format not in FORMATS:
            raise DownloadError(f"There is no format {format!r}; there are: {', '.join(FORMATS)}.")
        version = self.version(version_id)
        if format == "merged" and version["formats"]["merged"] is None:
            version = self.merge(version_id)
        part = version["formats"][format]
        files = _checked_files(part["files"])
        folder = Path(fspath(target)) if target is not None else Path(_folder_name(version, format))
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DownloadError(f"{folder} exists already and is not an empty folder; choose another place with --to.")
        draft = folder.absolute().with_name(f".{folder.absolute().name}.{uuid.uuid4().hex[:8]}.part")
        meter = _Meter(sum(size for _, size, _ in files), progress)
        try:
            draft.mkdir(parents=True)
            for name, size, sha256 in files:
                address = f"/model-versions/{version['id']}/files/{format}/{quote(name)}"
                self._fetch(address, draft / name, name, size, sha256, meter)
            if folder.exists():
                folder.rmdir()
            draft.replace(folder)
        except OSError as error:
            raise DownloadError(f"{folder} cannot be written: {error.strerror or error}.") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return folder

    def _fetch(self, address: str, file: Path, name: str, size: int, sha256: str, meter: _Meter) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        digest, got = hashlib.sha256(), 0
        with file.open("wb") as out:
            for attempt in range(TRIES):
                try:
                    with self._client.http.stream(address, offset=got) as response:
                        if got and response.status_code != 206:
                            # A server that cannot continue sends the file from its beginning.
                            out.seek(0)
                            out.truncate()
                            meter.add(-got)
                            digest, got = hashlib.sha256(), 0
                        for block in response.iter_raw():
                            out.write(block)
                            digest.update(block)
                            got += len(block)
                            meter.add(len(block))
                            if got > size:
                                raise DownloadError(f"{name} is longer than the {size} bytes it should have.")
                    if got == size:
                        break
                    problem: Exception = DownloadError(f"{name} broke off after {got} of {size} bytes.")
                except (ConnectionFailed, ServerError, httpx.StreamError) as error:
                    problem = error
                if attempt == TRIES - 1:
                    raise DownloadError(f"{name} could not be fetched: {problem}") from problem
                self._sleep(pause(attempt))
        if digest.hexdigest() != sha256:
            raise DownloadError(f"{name} did not arrive as it was stored (its SHA-256 differs); fetch it again.")


class _Meter:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._done, self._progress = total, 0, progress

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)


def _checked_files(files: Any) -> list[tuple[str, int, str]]:
    """Name, size and hash of each file; a name that would leave the folder is refused."""
    if not isinstance(files, list) or not 0 < len(files) <= MOST_FILES:
        raise DownloadError("The server lists no files for this model.")
    checked = []
    for item in files:
        name = str(item["name"])
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.parts:
            raise DownloadError(f"The server named a file {name!r}, which would lie outside of the folder.")
        checked.append((name, int(item["size"]), str(item["sha256"])))
    return checked


def _folder_name(version: Json, format: str) -> str:
    name = re.sub(r"[^\w.-]+", "-", str(version["name"])).strip("-.") or "model"
    return f"{name[:80]}-v{version['number']}-{format}"
