"""Stop strings: ending a completion with the token that completes one of them in its text."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

_MARGIN = 4  # tokens read before the longest possible match, so that how a text begins does not matter


class StopStrings:
    """Looks for strings at the end of what has been generated. A match may begin and end in the middle of a token."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, strings: Sequence[str]) -> None:
        self.tokenizer, self.strings = tokenizer, tuple(strings)
        # Every token adds at least one byte to the text, so a match ends within so many tokens.
        self.reach = max(len(string.encode()) for string in strings) + _MARGIN

    def ended(self, tokens: Sequence[int]) -> bool:
        """Whether the last of the tokens completes a stop string."""
        tail = list(tokens[-self.reach :])
        text = self._text(tail)
        found = [string for string in self.strings if string in text]
        if not found:
            return False
        before = self._text(tail[:-1])
        return any(text.count(string) > before.count(string) for string in found)

    def _text(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False))
