"""Letters: each one is a piece."""

from __future__ import annotations

from pieces.methods import Split, Vocabulary


__all__ = ["METHOD", "Letters"]


class Letters:
    """The smallest vocabulary that there is."""

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return the letters."""
        del seed
        return dict.fromkeys(sorted({letter for text in texts for letter in text if letter != " "})[:size], 0.0)

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Return the letters of a word."""
        del vocabulary
        return list(word)


METHOD = Letters()
