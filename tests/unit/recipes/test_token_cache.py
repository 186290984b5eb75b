"""Prompts that were tokenised before are read back, and are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainers.engine.engine import Engine
from trainers.recipes.chat import prompt_tokens
from trainers.recipes.token_cache import TokenCache, packed, unpacked


@pytest.fixture(scope="module")
def engine(tiny_folder: Path) -> Engine:
    return Engine.load(tiny_folder, threads=1)


CHATS = [[{"role": "user", "content": f"What is {n} + 1? " * (n % 3 + 1)}] for n in range(100)]


def test_a_second_run_reads_what_the_first_has_made(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [prompt_tokens(engine, chat) for chat in CHATS]
    first = TokenCache(engine, tmp_path)
    assert first.prompts(CHATS) == plain and first.cache is not None and first.cache.hits == 0
    monkeypatch.setattr("trainers.recipes.token_cache.prompt_tokens", lambda *_: pytest.fail("tokenised again"))
    second = TokenCache(engine, tmp_path)
    assert second.prompts(CHATS) == plain and second.cache is not None and second.cache.hit_rate == 1


def test_other_words_or_another_template_are_other_tokens(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TokenCache(engine, tmp_path).prompts(CHATS)
    other = TokenCache(engine, tmp_path)
    changed = [*CHATS[:-1], [{"role": "user", "content": "else"}]]
    assert (
        other.prompts(changed)[-1] == prompt_tokens(engine, changed[-1])
        and other.cache is not None
        and other.cache.hits == 0
    )
    template = "{% for m in messages %}{{ m.content }}!{% endfor %}"
    monkeypatch.setattr(engine.tokenizer, "chat_template", template)
    assert (
        other.prompts(CHATS)[0] == prompt_tokens(engine, CHATS[0]) and other.cache is not None and other.cache.hits == 0
    )


def test_a_damaged_entry_is_made_again(engine: Engine, tmp_path: Path) -> None:
    TokenCache(engine, tmp_path).prompts(CHATS)
    [entry] = [path for path in tmp_path.rglob("*") if path.is_file()]
    entry.write_bytes(entry.read_bytes()[:-8])
    assert TokenCache(engine, tmp_path).prompts(CHATS) == [prompt_tokens(engine, chat) for chat in CHATS]


@pytest.mark.parametrize("rows", [[], [[]], [[1], [], [2, 3]], [[0xFFFFFFFF] * 5]])
def test_numbers_come_back_as_they_went(rows: list[list[int]]) -> None:
    assert unpacked(packed(rows), len(rows)) == rows


@pytest.mark.parametrize("data", [b"", b"\1", b"\2\0\0\0\1\0\0\0", b"\0\0\0\0\1\0\0\0"])
def test_what_is_no_such_list_is_refused(data: bytes) -> None:
    assert unpacked(data, 1) is None
