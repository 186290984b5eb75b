"""Prompts as tokens, kept for the next run on the same rows: rendering and tokenising them takes seconds by the
thousand, reading them back milliseconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainers.cache import ContentCache
from trainers.engine.engine import Engine
from trainers.recipes.chat import prompt_tokens
from trainers.recipes.context import Message

CACHE_BYTES = 1 << 30
_FORMAT = 1
_FEWEST = 64  # below this, looking is not worth it


class TokenCache:
    """Prompts by content: the same messages under the same template and tokenizer. ``folder``: None keeps nothing."""

    def __init__(self, engine: Engine, folder: Path | None) -> None:
        self._engine = engine
        self.cache = ContentCache(folder / "tokens", CACHE_BYTES) if folder is not None else None

    def prompts(self, chats: Sequence[Sequence[Message]]) -> list[list[int]]:
        """The tokens of each chat, as the model reads it before it answers."""
        if self.cache is None or len(chats) < _FEWEST:
            return [prompt_tokens(self._engine, chat) for chat in chats]
        key = self._key(chats)
        kept = self.cache.get(key)
        if kept is not None and (found := unpacked(kept, len(chats))) is not None:
            return found
        made = [prompt_tokens(self._engine, chat) for chat in chats]
        self.cache.put(key, packed(made))
        return made

    def _key(self, chats: Sequence[Sequence[Message]]) -> str:
        tokenizer = self._engine.tokenizer
        digest = hashlib.sha256(f"prompts {_FORMAT}\n{tokenizer.chat_template}\n".encode())
        digest.update(tokenizer.backend_tokenizer.to_str().encode())
        for chat in chats:
            digest.update(json.dumps([[message["role"], message["content"]] for message in chat]).encode() + b"\n")
        return digest.hexdigest()


def packed(rows: Sequence[Sequence[int]]) -> bytes:
    """Lists of whole numbers as bytes: how long each is, then all of them, four bytes each."""
    lengths = np.array([len(row) for row in rows], dtype="<u4")
    tokens = np.fromiter((token for row in rows for token in row), dtype="<u4", count=int(lengths.sum()))
    return lengths.tobytes() + tokens.tobytes()


def unpacked(data: bytes, count: int) -> list[list[int]] | None:
    """The lists again; None for bytes that are not ``count`` of them."""
    if len(data) % 4 or len(data) < 4 * count:
        return None
    numbers = np.frombuffer(data, dtype="<u4")
    lengths, tokens = numbers[:count], numbers[count:]
    ends = np.cumsum(lengths, dtype=np.int64)
    if (int(ends[-1]) if count else 0) != len(tokens):
        return None
    return [part.tolist() for part in np.split(tokens, ends[:-1])] if count else []
