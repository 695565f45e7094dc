"""WordPiece (Schuster and Nakajima, 2012): the pair that is likeliest together is merged."""

from __future__ import annotations

from pieces.methods import Split, Vocabulary
from pieces.methods._merging import grown


__all__ = ["METHOD", "WordPiece"]

# A pair that came up less often is not looked at; without a limit the rarest letters are merged first. Of 5, 10, 20,
# 40, 80, 160 and 320 the best on the public languages with 200 pieces.
_AT_LEAST = 160


class WordPiece:
    """The pair's count, divided by those of its parts, decides."""

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return letters and merges."""

        def worth(pair: int, left: int, right: int) -> float:
            return pair / (left * right) if pair >= _AT_LEAST else pair * 1e-12

        return grown(texts, size, seed, worth)

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Take the longest piece that fits, from left to right."""
        parts = []
        start = 0
        while start < len(word):
            ends = (end for end in range(len(word), start, -1) if word[start:end] in vocabulary)
            end = next(ends, start + 1)
            parts.append(word[start:end])
            start = end
        return parts


METHOD = WordPiece()
