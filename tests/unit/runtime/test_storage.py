"""Storage on a local folder: whole or not at all, verified, and plain words when it fails."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.storage import Storage, StorageError, check_key


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(f"file://{tmp_path}/store")


def _files(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def test_what_is_put_can_be_read_listed_and_deleted(storage: Storage) -> None:
    storage.put_bytes("reports/a.html", b"one")
    storage.put_bytes("reports/deep/b.html", "zwölf 数".encode())
    storage.put_bytes("other", b"")
    assert storage.get_bytes("reports/a.html") == b"one"
    assert storage.size("reports/deep/b.html") == len("zwölf 数".encode())
    assert list(storage.list("reports")) == ["reports/a.html", "reports/deep/b.html"]
    assert list(storage.list()) == ["other", "reports/a.html", "reports/deep/b.html"]
    with storage.open_read("reports/a.html") as stream:
        assert stream.read(2) == b"on"
    storage.delete("reports/a.html")
    storage.delete("reports/a.html")
    assert not storage.exists("reports/a.html")
    assert list(storage.list("nothing/here")) == []


def test_a_write_that_fails_leaves_the_old_content_and_no_rest(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put_bytes("a/b", b"old")

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainers.storage.os.fsync", refuse)
    with pytest.raises(StorageError, match=r"disk of file://.* is full: a/b could not be stored") as caught:
        storage.put_bytes("a/b", b"new")
    assert caught.value.kind == "full"
    assert storage.get_bytes("a/b") == b"old"
    assert _files(tmp_path / "store") == ["a/b"]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/./b",
        "a\\b",
        "a\nb",
        "~root/x",
        "a/" + "x" * 201,
        "x/" * 500 + "y",
        ".tmp-1",
    ],
)
def test_it_refuses_keys_that_could_leave_the_store(storage: Storage, key: str) -> None:
    for call in (storage.get_bytes, storage.exists, storage.delete, lambda k: storage.put_bytes(k, b"x")):
        with pytest.raises(StorageError) as caught:
            call(key)
        assert caught.value.kind == "bad_key"


@given(st.text(max_size=60))
def test_an_accepted_key_always_stays_below_the_root(key: str) -> None:
    try:
        check_key(key)
    except StorageError as error:
        assert error.kind == "bad_key"
    else:
        root = Path("/store/root")
        assert root in Path(os.path.normpath(root / key)).parents


def test_equal_content_is_kept_once_under_its_hash(storage: Storage, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    sha = hashlib.sha256(data).hexdigest()
    first = storage.put_content(io.BytesIO(data))
    second = storage.put_content(io.BytesIO(data))
    assert first == second == (f"objects/{sha[:2]}/{sha}", sha, len(data))
    assert _files(tmp_path / "store") == [first[0]]


def test_a_folder_comes_back_verified(storage: Storage, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a.json").write_text("{}")
    (source / "sub" / "w.safetensors").write_bytes(os.urandom(1000))
    (source / "link").symlink_to("/etc/passwd")
    files = storage.put_folder(source, "checkpoints/1/final")
    assert [item["name"] for item in files] == ["a.json", "sub/w.safetensors"]
    assert storage.fetch_folder("checkpoints/1/final", tmp_path / "copy") == files
    assert (tmp_path / "copy/sub/w.safetensors").read_bytes() == (source / "sub/w.safetensors").read_bytes()
    assert _files(tmp_path / "copy") == ["a.json", "sub/w.safetensors"]


def test_a_damaged_folder_is_not_delivered(storage: Storage, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "w").write_bytes(b"12345")
    files = storage.put_folder(source, "c")
    (tmp_path / "store/c/w").write_bytes(b"12346")
    with pytest.raises(StorageError, match="c/w in storage is damaged") as caught:
        storage.fetch_folder("c", tmp_path / "copy", files)
    assert caught.value.kind == "damaged"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source", "store"]


def test_a_folder_without_its_manifest_does_not_count(storage: Storage, tmp_path: Path) -> None:
    storage.put_bytes("c/w", b"1")
    with pytest.raises(StorageError) as caught:
        storage.fetch_folder("c", tmp_path / "copy")
    assert caught.value.kind == "missing"


def test_a_hostile_manifest_cannot_write_outside(storage: Storage, tmp_path: Path) -> None:
    storage.put_bytes("c/manifest.json", b'{"files": [{"name": "../../evil", "size": 1, "sha256": "00"}]}')
    with pytest.raises(StorageError) as caught:
        storage.fetch_folder("c", tmp_path / "copy")
    assert caught.value.kind == "bad_key"


def test_a_deleted_folder_is_gone(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "w").write_bytes(b"1")
    storage.put_folder(tmp_path / "s", "c/1")
    storage.put_folder(tmp_path / "s", "c/10")
    storage.delete_folder("c/1")
    assert list(storage.list("c")) == ["c/10/manifest.json", "c/10/w"]


def test_a_missing_object_is_named(storage: Storage) -> None:
    for call in (storage.get_bytes, storage.open_read, storage.size):
        with pytest.raises(StorageError, match="objects/no is not in file://") as caught:
            call("objects/no")
        assert caught.value.kind == "missing"


def test_a_folder_in_the_way_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        Storage(f"file://{tmp_path}/file").put_bytes("a", b"x")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://x/y", "use file:// or s3://"),
        ("file://relative/path", "three slashes"),
        ("relative", "absolute folder"),
        ("s3://key:secret@bucket", "credentials belong in the environment"),
        ("s3:///prefix", "s3://bucket/prefix"),
        ("s3://bucket?secret=1", "unknown option 'secret'"),
    ],
)
def test_it_refuses_a_wrong_url_in_words(url: str, words: str) -> None:
    with pytest.raises(StorageError, match=words):
        Storage(url)


def test_addresses_are_written_out_in_full(tmp_path: Path) -> None:
    assert Storage(f"file://{tmp_path}").uri("a/b") == f"file://{tmp_path}/a/b"
    assert Storage(str(tmp_path)).uri("a") == f"file://{tmp_path}/a"
    assert Storage("s3://bucket/pre?endpoint_url=http://127.0.0.1:1").uri("a") == "s3://bucket/pre/a"


def _put_in_child(storage: Storage) -> None:
    storage.put_bytes("from/child", b"x")


def test_it_works_after_a_fork(storage: Storage) -> None:
    storage.put_bytes("from/parent", b"x")
    child = multiprocessing.get_context("fork").Process(target=_put_in_child, args=(storage,))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert list(storage.list("from")) == ["from/child", "from/parent"]
