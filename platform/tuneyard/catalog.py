"""Projects, datasets, rewards and base models of a server."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tuneyard.errors import TaskError
from tuneyard.rewards import reward_spec

if TYPE_CHECKING:
    from tuneyard.client import Client

Json = dict[str, Any]
Items = list[Json]  # named here because the methods called ``list`` hide the built-in from annotations
Progress = Callable[[int, int], None]
CHUNK = 1 << 20


class Projects:
    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Items:
        return pages(self._client, "/projects", {})

    def create(self, name: str, description: str = "") -> Json:
        answer: Json = self._client.http.call(
            "POST", "/projects", json={"name": name, "description": description}, repeat=False
        )
        return answer


class Datasets:
    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, project: str | None = None) -> Items:
        return pages(self._client, "/datasets", {"project": self._client.project_id(project)})

    def get(self, dataset_id: str) -> Json:
        """One dataset with all its versions and the report of the newest."""
        answer: Json = self._client.http.get(f"/datasets/{dataset_id}")
        return answer

    def upload(
        self,
        path: str | PathLike[str],
        *,
        name: str | None = None,
        project: str | None = None,
        columns: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Json:
        """Register a local file and return its version, with ``source`` as a task names it, and ``uploaded``.

        ``columns`` says which column plays which part (``{"prompt": "题目"}``) where their names alone do not tell. A
        file whose very bytes the project has under that name is not sent again, so repeating is harmless.
        ``progress`` is called with (bytes sent, bytes in all). Raises :class:`TaskError` for a file that cannot be
        read, :class:`InvalidRequest` for one that holds no usable rows.
        """
        file = Path(fspath(path)).expanduser()
        digest, size = _hash(file)
        project_id = self._client.project_id(project)
        name = name or file.stem or file.name
        parts = {part: column for part, column in (columns or {}).items() if column}
        found = self._find(project_id, digest, name, parts)
        if found is not None:
            return {**found, "uploaded": False}
        with file.open("rb") as stream:
            reader = _Counted(stream, size, progress)
            fields = {"project": project_id, "name": name}
            if parts:
                fields["columns"] = json.dumps(parts)
            answer: Json = self._client.http.upload("/datasets", fields=fields, file=(file.name, reader))
        return {**answer, "uploaded": True}

    def _find(self, project_id: str, digest: str, name: str, parts: Mapping[str, str]) -> Json | None:
        answer = self._client.http.get("/datasets", params={"project": project_id, "sha256": digest, "limit": 200})
        for dataset in answer["items"]:
            if dataset["name"].lower() == name.lower():
                for version in dataset["versions"]:
                    if version["sha256"] == digest and parts.items() <= version["columns"].items():
                        return dict(version)
        return None


class Rewards:
    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, project: str | None = None) -> Items:
        return pages(self._client, "/rewards", {"project": self._client.project_id(project)})

    def create(self, name: str, reward: Any, *, project: str | None = None) -> Json:
        """Register a reward, written as for ``RLTask``, and return its version with ``source``."""
        body = {"project": self._client.project_id(project), "name": name, "spec": reward_spec(reward)}
        answer: Json = self._client.http.call("POST", "/rewards", json=body, repeat=False)
        return answer


class BaseModels:
    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Items:
        return pages(self._client, "/base-models", {})


def pages(client: Client, path: str, params: Json, at_most: int | None = None) -> Items:
    """The items of a listing, page after page, at most ``at_most`` of them."""
    items: Items = []
    cursor: str | None = None
    while True:
        answer = client.http.get(path, params={**params, "cursor": cursor})
        items += answer["items"]
        cursor = answer.get("next")
        if not cursor or (at_most is not None and len(items) >= at_most):
            return items[:at_most]


def _hash(file: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    try:
        with file.open("rb") as stream:
            while True:
                block = stream.read(CHUNK)
                if not block:
                    return digest.hexdigest(), size
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise TaskError(
            "env_config.dataset_path",
            f"{file} cannot be read ({error.strerror or error}); it is looked for from the folder you are in",
        ) from None


class _Counted(io.RawIOBase):
    """A file that tells how much of it has been read, and shows its length so that it is sent with one."""

    def __init__(self, stream: BinaryIO, size: int, progress: Progress | None) -> None:
        self._stream, self._size, self._progress = stream, size, progress

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        if self._progress is not None and data:
            self._progress(self._stream.tell(), self._size)
        return data
