"""Your method.

Fill in the two functions; the interface is described in `pieces.methods.Method`. Other modules may be added beside this
one. What is handed in is the Python files below `pieces/methods/`.
"""

from __future__ import annotations

from pieces.methods import Split, Vocabulary


__all__ = ["METHOD", "Own"]


class Own:
    """Empty so far."""

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return at most `size` pieces."""
        raise NotImplementedError

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Return the pieces that a word is made of."""
        raise NotImplementedError


METHOD = Own()
