"""One place for everything that outlives a run: datasets, journals, checkpoints, models, reports.

``Storage(url)`` speaks fsspec to a folder (``file:///var/lib/tuneyard``, or a plain path) or to an object store
(``s3://bucket/prefix?endpoint_url=https://…``; credentials come from the environment, never from the URL). A key
appears whole or not at all: local writes go to a temporary file that is synced and renamed, object stores put
atomically, and the size of what arrived is checked. Every failure is a :class:`StorageError` in plain words.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, TypedDict, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import fsspec

CHUNK = 1 << 20
MANIFEST = "manifest.json"
TEMP_PREFIX = ".tmp-"
MAX_KEY_BYTES = 900
MAX_PART_BYTES = 200

ErrorKind = Literal["missing", "full", "denied", "unreachable", "damaged", "bad_key", "bad_url", "other"]
Result = TypeVar("Result")


class StorageError(Exception):
    """Storage could not do what was asked; ``kind`` says why, the message what to do."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.message)


class StoredFile(TypedDict):
    """One file of a stored folder; ``name`` is its path inside the folder."""

    name: str
    size: int
    sha256: str


StoredFiles = list[StoredFile]  # named here because ``Storage.list`` hides the built-in from annotations


class Storage:
    """A folder or bucket, addressed by relative keys such as ``objects/ab/abcdef``. Safe to use from many threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._protocol, self._root, self._options = _parse_url(url)
        self._local = self._protocol == "file"
        self._client: Any = None
        self._client_pid = 0

    def __repr__(self) -> str:
        return f"Storage({self.url!r})"

    def uri(self, key: str) -> str:
        """The full address of a key, for people and for other programs (without the options of the URL)."""
        return f"{self._protocol}://{self._path(key)}"

    def put_bytes(self, key: str, data: bytes) -> None:
        """Store ``data`` whole under ``key``, in place of what was there."""
        path = self._path(key)
        with self._named(key):
            if self._local:
                self._write_local(path, lambda file: file.write(data))
            else:
                self._fs.pipe_file(path, data)
            self._check_size(key, path, len(data))

    def put_file(self, key: str, local: Path) -> int:
        """Store a local file under ``key`` and return its size in bytes."""
        path = self._path(key)
        with self._named(key):
            size = local.stat().st_size
            if self._local:
                with local.open("rb") as source:
                    self._write_local(path, lambda file: shutil.copyfileobj(source, file, CHUNK))
            else:
                self._fs.put_file(str(local), path)
            self._check_size(key, path, size)
        return size

    def put_folder(self, local: Path, prefix: str) -> StoredFiles:
        """Store every regular file below ``local`` and, last, a ``manifest.json`` naming size and SHA-256 of each.

        A folder counts as stored once its manifest is there. Symbolic links are left out.
        """
        files: StoredFiles = []
        for path in sorted(local.rglob("*")):
            if path.is_symlink() or not path.is_file() or path.name == MANIFEST:
                continue
            name = path.relative_to(local).as_posix()
            digest, size = hash_file(path)
            if self.put_file(f"{prefix}/{name}", path) != size:
                raise StorageError("damaged", f"{name} changed while it was being stored; store it again.")
            files.append({"name": name, "size": size, "sha256": digest})
        self.put_bytes(f"{prefix}/{MANIFEST}", json.dumps({"files": files}, indent=1).encode())
        return files

    def put_content(self, source: IO[bytes]) -> tuple[str, str, int]:
        """Store a stream under its hash, equal bytes once: ``(key "objects/ab/abcdef…", sha256, size)``."""
        with self._named("the upload"), tempfile.NamedTemporaryFile(prefix="tuneyard-", delete=False) as spool:
            try:
                digest, size = hashlib.sha256(), 0
                while block := source.read(CHUNK):
                    digest.update(block)
                    size += len(block)
                    spool.write(block)
                spool.close()
                sha256 = digest.hexdigest()
                key = f"objects/{sha256[:2]}/{sha256}"
                if not (self.exists(key) and self.size(key) == size):
                    self.put_file(key, Path(spool.name))
                return key, sha256, size
            finally:
                Path(spool.name).unlink(missing_ok=True)

    def get_bytes(self, key: str) -> bytes:
        """The whole content of ``key``."""
        with self._named(key):
            data: bytes = self._fs.cat_file(self._path(key))
            return data

    def open_read(self, key: str) -> IO[bytes]:
        """A binary, seekable stream of ``key``; close it."""
        with self._named(key):
            stream: IO[bytes] = self._fs.open(self._path(key), "rb")
            return stream

    def fetch_file(self, key: str, local: Path, sha256: str | None = None, size: int | None = None) -> Path:
        """Copy ``key`` to a local file, checking hash and size when they are given; nothing half-written is left."""
        local.parent.mkdir(parents=True, exist_ok=True)
        temp = local.with_name(f"{TEMP_PREFIX}{uuid.uuid4().hex}")
        digest, count = hashlib.sha256(), 0
        try:
            with self._named(key), self.open_read(key) as source, temp.open("wb") as target:
                while block := source.read(CHUNK):
                    digest.update(block)
                    count += len(block)
                    target.write(block)
            if (sha256 is not None and digest.hexdigest() != sha256) or (size is not None and count != size):
                raise StorageError("damaged", f"{key} in storage is damaged: its content is not what was stored.")
            temp.replace(local)
        finally:
            temp.unlink(missing_ok=True)
        return local

    def fetch_folder(self, prefix: str, local: Path, files: Sequence[StoredFile] | None = None) -> StoredFiles:
        """Copy a stored folder to ``local`` (new or empty), verifying every hash; it appears whole or not at all.

        ``files`` is what ``put_folder`` returned; without it the stored manifest is read.
        """
        wanted = list(files) if files is not None else self.read_manifest(prefix)
        if local.exists() and any(local.iterdir()):
            raise StorageError("other", f"{local} is not empty; choose a new folder to copy into.")
        local.parent.mkdir(parents=True, exist_ok=True)
        temp = local.with_name(f"{TEMP_PREFIX}{uuid.uuid4().hex}")
        try:
            temp.mkdir()
            for item in wanted:
                name = check_key(item["name"])
                self.fetch_file(f"{prefix}/{name}", temp / name, item["sha256"], item["size"])
            if local.exists():
                local.rmdir()
            temp.replace(local)
        finally:
            shutil.rmtree(temp, ignore_errors=True)
        return wanted

    def read_manifest(self, prefix: str) -> StoredFiles:
        """The files of a stored folder. A folder without a manifest was never stored to its end: kind ``missing``."""
        try:
            return [
                {"name": check_key(item["name"]), "size": int(item["size"]), "sha256": str(item["sha256"])}
                for item in json.loads(self.get_bytes(f"{prefix}/{MANIFEST}"))["files"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError("damaged", f"The manifest of {prefix} in storage is damaged.") from error

    def exists(self, key: str) -> bool:
        with self._named(key):
            try:
                return bool(self._fs.info(self._path(key))["type"] == "file")
            except (FileNotFoundError, NotADirectoryError):
                return False

    def size(self, key: str) -> int:
        """Bytes of ``key``."""
        with self._named(key):
            return self._stored_size(self._path(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        """Keys below the folder ``prefix``, sorted; temporary files are not shown."""
        base = self._path(prefix) if prefix else self._root
        with self._named(prefix or "the storage"):
            self._fs.invalidate_cache()
            found = sorted(self._fs.find(base))
        for path in found:
            key = str(path)[len(self._root) :].lstrip("/")
            if not key.rpartition("/")[2].startswith(TEMP_PREFIX):
                yield key

    def delete(self, key: str) -> None:
        """Remove ``key``; one that is not there is no error."""
        with self._named(key), suppress(FileNotFoundError):
            self._fs.rm_file(self._path(key))

    def delete_folder(self, prefix: str) -> None:
        """Remove everything below ``prefix``; the manifest goes first, so that no half-removed folder counts."""
        self.delete(f"{prefix}/{MANIFEST}")
        for key in list(self.list(prefix)):
            self.delete(key)

    @property
    def _fs(self) -> Any:
        # An object-store client has its own thread, which does not survive a fork.
        if self._client is None or self._client_pid != os.getpid():
            self._client = fsspec.filesystem(self._protocol, **self._options)
            self._client_pid = os.getpid()
        return self._client

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _write_local(self, path: str, write: Callable[[IO[bytes]], object]) -> None:
        folder = Path(path).parent
        folder.mkdir(parents=True, exist_ok=True)
        temp = folder / f"{TEMP_PREFIX}{uuid.uuid4().hex}"
        try:
            with self._fs.open(str(temp), "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temp.replace(path)
            sync_folder(folder)
        finally:
            temp.unlink(missing_ok=True)

    def _stored_size(self, path: str) -> int:
        self._fs.invalidate_cache()
        return int(self._fs.info(path)["size"])

    def _check_size(self, key: str, path: str, size: int) -> None:
        stored = self._stored_size(path)
        if stored != size:
            raise StorageError("damaged", f"{key} was stored with {stored} of {size} bytes; store it again.")

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except Exception as error:
            raise explain(error, what, self.url.partition("?")[0]) from error


def check_key(key: str) -> str:
    """Return ``key`` if it is a plain relative path; otherwise raise ``StorageError("bad_key")``."""
    parts = key.split("/")
    bad = any(
        part in ("", ".", "..")
        or part.startswith(TEMP_PREFIX)
        or len(part.encode("utf-8", "surrogatepass")) > MAX_PART_BYTES
        or not part.isprintable()
        or "\\" in part
        for part in parts
    )
    if bad or parts[0].startswith("~") or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        shown = key if len(key) <= 80 else key[:80] + "…"
        raise StorageError(
            "bad_key", f"{shown!r} is not a storage key: use a relative path without '..' or odd characters."
        )
    return key


def hash_file(path: Path) -> tuple[str, int]:
    """SHA-256 (hex) and size of a local file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in ``folder`` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED_NAMES = {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"}
_UNREACHABLE_NAMES = {"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError"}


def explain(error: Exception, what: str, url: str) -> StorageError:
    """What an exception of the operating system or of an object store means, as a :class:`StorageError`."""
    code = error.errno if isinstance(error, OSError) else None
    name = type(error).__name__
    if code in _FULL:
        return StorageError(
            "full", f"The disk of {url} is full: {what} could not be stored. Free space, then try again."
        )
    if isinstance(error, PermissionError) or code in _DENIED or name in _DENIED_NAMES:
        return StorageError(
            "denied", f"No permission for {what} in {url}. Check the owner of the folder or the credentials."
        )
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return StorageError("missing", f"{what} is not in {url}.")
    if isinstance(error, ConnectionError | TimeoutError) or name in _UNREACHABLE_NAMES:
        return StorageError("unreachable", f"{url} does not answer ({error}). Check STORAGE_URL and the network.")
    return StorageError("other", f"{what} in {url}: {name}: {error}")


def _parse_url(url: str) -> tuple[str, str, dict[str, Any]]:
    """Protocol, root path without trailing slash, and options of the file system."""
    split = urlsplit(url)
    if split.scheme in ("", "file"):
        if split.netloc not in ("", "localhost"):
            raise StorageError("bad_url", f"STORAGE_URL {url!r}: write file:///folder, with three slashes.")
        path = unquote(split.path) if split.scheme else url
        if not path or not Path(path).is_absolute():
            raise StorageError(
                "bad_url", f"STORAGE_URL {url!r}: name an absolute folder, such as file:///var/lib/tuneyard."
            )
        return "file", str(Path(path)).rstrip("/"), {"auto_mkdir": False}
    if split.scheme != "s3":
        raise StorageError("bad_url", f"STORAGE_URL begins with {split.scheme}://; use file:// or s3://.")
    if "@" in split.netloc or not split.netloc:
        raise StorageError("bad_url", "STORAGE_URL: write s3://bucket/prefix; credentials belong in the environment.")
    known = dict(parse_qsl(split.query))
    if unknown := set(known) - {"endpoint_url", "region_name"}:
        raise StorageError(
            "bad_url", f"STORAGE_URL has the unknown option {sorted(unknown)[0]!r}; use endpoint_url or region_name."
        )
    timeouts = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}}
    options: dict[str, Any] = {"use_listings_cache": False, "config_kwargs": timeouts}
    if known:
        options["client_kwargs"] = known
    return "s3", f"{split.netloc}{unquote(split.path)}".rstrip("/"), options
