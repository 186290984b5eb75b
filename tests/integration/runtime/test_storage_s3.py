"""Storage and journals on an S3 server (moto), with the server there, gone, and back."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from trainers.runtime.journal import Journal
from trainers.runtime.segments import Shipper, read_segments
from trainers.storage import Storage, StorageError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def storage(server: Any) -> Storage:
    import s3fs

    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    # A bucket for each test: moto's servers of one process share what they hold.
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3fs.S3FileSystem(client_kwargs={"endpoint_url": endpoint}).mkdir(bucket)
    return Storage(f"s3://{bucket}/tuneyard?endpoint_url={endpoint}")


def test_objects_behave_as_in_a_folder(storage: Storage) -> None:
    storage.put_bytes("a/b", b"hello")
    assert (storage.get_bytes("a/b"), storage.size("a/b")) == (b"hello", 5)
    assert [storage.exists(key) for key in ("a/b", "a", "a/c")] == [True, False, False]
    first, second = (storage.put_content(io.BytesIO(b"x" * (9 << 20))) for _ in range(2))
    assert first == second and first[2] == 9 << 20
    assert list(storage.list()) == ["a/b", first[0]]
    with storage.open_read("a/b") as stream:
        assert (stream.read(2), list(stream)) == (b"he", [b"llo"])
    storage.delete("a/b")
    storage.delete("a/b")
    with pytest.raises(StorageError, match=r"a/b is not in s3://bucket-\w+/tuneyard") as caught:
        storage.get_bytes("a/b")
    assert caught.value.kind == "missing"
    assert storage.uri("a/b") == storage.url.partition("?")[0] + "/a/b"


def test_a_folder_comes_back_verified(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "s" / "sub").mkdir(parents=True)
    (tmp_path / "s" / "sub" / "w").write_bytes(b"123")
    (tmp_path / "s" / "empty").write_bytes(b"")
    files = storage.put_folder(tmp_path / "s", "c/1")
    assert storage.fetch_folder("c/1", tmp_path / "copy") == files
    assert (tmp_path / "copy/sub/w").read_bytes() == b"123"
    storage.put_bytes("c/1/sub/w", b"124")
    with pytest.raises(StorageError, match="damaged"):
        storage.fetch_folder("c/1", tmp_path / "other")
    storage.delete_folder("c/1")
    assert list(storage.list()) == []


def test_a_journal_is_shipped_and_read_back(storage: Storage, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", sync_interval=0.001)
    shipper = Shipper(journal, storage, "journals/1/1", interval=0.01, segment_bytes=1)
    shipper.start()
    for step in range(200):
        journal.append("metric", step=step, values={"loss": 1.0}, tokens=0, active_s=0.0)
        if step % 40 == 0:
            journal.flush()
    journal.close()
    assert shipper.finish(60)
    assert list(storage.list("journals")) == ["journals/1/1/000000000001-000000000200.jsonl"]
    assert list(read_segments(storage, "journals/1/1", 20)) == journal.read(20)


@pytest.mark.full
def test_a_server_or_bucket_that_is_not_there_is_named(storage: Storage, server: Any) -> None:
    lost = Storage(storage.url.replace("bucket-", "other-"))
    with pytest.raises(StorageError) as caught:
        lost.put_bytes("a", b"x")
    assert caught.value.kind == "missing"
    server.stop()
    for call in (storage.exists, storage.get_bytes, lambda key: storage.put_bytes(key, b"x")):
        with pytest.raises(StorageError, match=r"does not answer .* Check STORAGE_URL") as caught:
            call("a")
        assert caught.value.kind == "unreachable"
