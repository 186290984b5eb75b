"""Trained models: list them, and fetch one whole and verified."""

from __future__ import annotations

import builtins
import hashlib
import re
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
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
        """The version that a person means by ``name``, ``name@number``, ``name@alias``, or an id.

        Without a number or alias, the newest.
        """
        try:
            return self.version(str(uuid.UUID(text)))
        except ValueError:
            pass
        models = list(self.list(project))
        names = {str(model["name"]).lower(): model for model in models}
        # A name may hold an @ of its own.
        whole = names.get(text.lower())
        name, at, which = (text, "", "") if whole else text.rpartition("@")
        model = whole or names.get(name.lower() if at else text.lower())
        if model is None:
            raise _no_model(name or text, models)
        for version in model["versions"]:
            if not which or which.lower() in (str(version["number"]), f"v{version['number']}", *version["aliases"]):
                return self.version(version["id"])
        raise NotFound(f"The model {name!r} has no version {which or 'yet'}.", status=404)

    def named(self, name: str, project: str | None = None) -> Json:
        """The model of this name, or with this id."""
        models = list(self.list(project))
        for model in models:
            if name.lower() in (str(model["name"]).lower(), str(model["id"])):
                return model
        raise _no_model(name, models)

    def alias(self, model_id: str, name: str, number: int, *, expected: int | None = None) -> Json:
        """Point the alias ``name`` to a version, and return the model. The move is atomic and kept in the history.

        With ``expected`` it moves only if it points to that version now (0: if it is new).
        """
        body = {"version": number, "expected": expected}
        answer: Json = self._client.http.call("PUT", f"/models/{model_id}/aliases/{quote(name, safe='')}", json=body)
        return answer

    def unalias(self, model_id: str, name: str) -> Json:
        """Take an alias away, and return the model."""
        answer: Json = self._client.http.call("DELETE", f"/models/{model_id}/aliases/{quote(name, safe='')}")
        return answer

    def alias_moves(self, model_id: str) -> builtins.list[Json]:
        """Who moved which alias when, from where and to where; the last move first."""
        answer: builtins.list[Json] = self._client.http.get(f"/models/{model_id}/alias-moves")["items"]
        return answer

    def describe(self, model_id: str, *, description: str | None = None, tags: Sequence[str] | None = None) -> Json:
        """Change what is said of a model (Markdown), or its tags; what is left out stays."""
        body = {"description": description, "tags": None if tags is None else [*tags]}
        answer: Json = self._client.http.call("PATCH", f"/models/{model_id}", json=body)
        return answer

    def note(self, version_id: str, notes: str) -> Json:
        """Change the notes of a version (Markdown)."""
        answer: Json = self._client.http.call("PATCH", f"/model-versions/{version_id}", json={"notes": notes})
        return answer

    def delete(self, version_id: str) -> None:
        """Delete a version and its files. Refused while an alias points to it or a job goes on from it."""
        self._client.http.call("DELETE", f"/model-versions/{version_id}", repeat=False)

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


def _no_model(name: str, models: Sequence[Json]) -> NotFound:
    known = ", ".join(str(model["name"]) for model in models) or "none yet"
    return NotFound(f"There is no model {name!r} in this project. There are: {known}.", status=404)


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
