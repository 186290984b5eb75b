from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainers.cache import ContentCache, content_key


def key(name: str) -> str:
    return content_key({"name": name})


def test_equal_values_have_equal_keys_whatever_their_order() -> None:
    assert content_key({"a": 1, "b": [2]}) == content_key({"b": [2], "a": 1}) != content_key({"a": 1, "b": [3]})


def test_what_was_put_is_found_again_by_another_process(tmp_path: Path) -> None:
    ContentCache(tmp_path, 1000).put(key("a"), b"x")
    again = ContentCache(tmp_path, 1000)
    assert again.get(key("a")) == b"x" and again.get(key("b")) is None
    assert (again.hits, again.misses, again.hit_rate) == (1, 1, 0.5)


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 1000)
    for age, name in enumerate(("a", "b", "c", "d")):
        cache.put(key(name), bytes(240))
        os.utime(cache._path(key(name)), (1000 + age, 1000 + age))
    assert cache.get(key("a")) is not None
    cache.put(key("e"), bytes(240))
    assert [name for name in "abcde" if cache.get(key(name)) is not None] == ["a", "d", "e"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 1000


def test_one_entry_does_not_push_out_all_others(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, 1000)
    cache.put(key("a"), bytes(300))
    assert cache.get(key("a")) is None and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    cache = ContentCache(blocked / "below", 1000)
    cache.put(key("a"), b"x")
    assert cache.get(key("a")) is None


def test_a_key_is_never_a_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no key"):
        ContentCache(tmp_path, 10).get("../../etc/passwd")
