"""Byte-pair encoding (Sennrich et al., 2016): the most frequent pair is merged, and so in words."""

from __future__ import annotations

from itertools import pairwise

from pieces.methods import Split, Vocabulary
from pieces.methods._merging import grown, merged


__all__ = ["METHOD", "BytePairs"]


class BytePairs:
    """The pair's count decides."""

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return letters and merges."""
        return grown(texts, size, seed, lambda pair, _left, _right: pair)

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Merge neighbours, what was merged first in training first."""
        parts = list(word)
        while True:
            known = [pair for pair in pairwise(parts) if "".join(pair) in vocabulary]
            if not known:
                return parts
            parts = merged(parts, min(known, key=lambda pair: vocabulary["".join(pair)]))


METHOD = BytePairs()
