"""Vocabularies that grow by merging two neighbours at a time: what two of the baselines share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

from pieces.methods import Vocabulary
from pieces.methods.letters import METHOD as LETTERS


__all__ = ["Pair", "Worth", "grown", "merged"]

Pair = tuple[str, str]
# What a pair is worth, from its count and those of its two parts.
Worth = Callable[[int, int, int], float]


def grown(texts: list[str], size: int, seed: int, worth: Worth) -> Vocabulary:
    """Return letters, and what comes of merging the pair worth most again and again; values are ranks."""
    words = Counter(word for text in texts for word in text.split())
    splits = {word: list(word) for word in words}
    vocabulary = LETTERS.learn(texts, size, seed)
    pairs: Counter[Pair] = Counter()
    pieces: Counter[str] = Counter()
    holding: defaultdict[Pair, set[str]] = defaultdict(set)

    def count(word: str, sign: int) -> None:
        parts = splits[word]
        for piece in parts:
            pieces[piece] += sign * words[word]
        for pair in pairwise(parts):
            pairs[pair] += sign * words[word]
            holding[pair].add(word)

    for word in words:
        count(word, 1)
    while len(vocabulary) < size:
        best = max(pairs, key=lambda pair: (worth(pairs[pair], pieces[pair[0]], pieces[pair[1]]), pair), default=None)
        if best is None or not pairs[best]:
            break
        vocabulary.setdefault("".join(best), float(len(vocabulary)))
        for word in sorted(holding.pop(best)):
            count(word, -1)
            splits[word] = merged(splits[word], best)
            count(word, 1)
        pairs = +pairs
    return vocabulary


def merged(parts: list[str], pair: Pair) -> list[str]:
    """Return parts with all occurrences of a pair made one, from left to right."""
    together: list[str] = []
    for part in parts:
        if together and (together[-1], part) == pair:
            together[-1] += part
        else:
            together.append(part)
    return together
