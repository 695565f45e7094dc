"""Methods: each learns a vocabulary from texts without labels, and then splits words by it."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol


__all__ = ["METHODS", "Method", "Split", "Vocabulary", "method_named"]

# Piece -> a number that the method needs for splitting, such as a rank or a logarithm of a probability.
Vocabulary = dict[str, float]
Split = list[str]

METHODS = {
    "letters": "pieces.methods.letters",
    "words": "pieces.methods.words",
    "bpe": "pieces.methods.bpe",
    "wordpiece": "pieces.methods.wordpiece",
    "own": "pieces.methods.own",
}


class Method(Protocol):
    """What a method has to offer.

    Each call may come in a new process: what is not in the vocabulary is lost.
    """

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return at most `size` pieces: texts are words, separated by blanks; pieces hold no blank."""
        ...

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Return pieces of the vocabulary that make up the word; a letter that is no piece may stay."""
        ...


def method_named(name: str) -> Method:
    """Return a method by its name."""
    if name not in METHODS:
        raise SystemExit(f"no method {name!r}; there are {', '.join(METHODS)}")
    method: Method = import_module(METHODS[name]).METHOD
    return method
