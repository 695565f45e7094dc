"""The withheld method: a unigram language model over pieces, pruned until it fits (Kudo, 2018).

All frequent substrings begin as pieces. Their probabilities are fitted by expectation maximisation over all ways to
split all words; then a part of those that add least to the likelihood is dropped, again and again. A word is split in
its likeliest way. Merges never come back on a boundary that they have crossed; this model never had to cross it.
"""  # researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import math
from collections import Counter

from pieces.methods import Split, Vocabulary


__all__ = ["METHOD", "Unigram"]

_LONGEST = 6
_BEGIN_WITH = 2500
_KEPT = 0.7
_NEVER = -1e9
# Pieces that are expected less often are dropped at once.
_RARE = 0.5


class Unigram:
    """Pieces with their probabilities."""

    def learn(self, texts: list[str], size: int, seed: int) -> Vocabulary:
        """Return letters, and the pieces that words are likeliest made of."""
        del seed
        words = Counter(word for text in texts for word in text.split())
        found = Counter[str]()
        for word, count in words.items():
            for start in range(len(word)):
                for end in range(start + 1, min(len(word), start + _LONGEST) + 1):
                    found[word[start:end]] += count
        letters = {piece for piece in found if len(piece) == 1}
        ranked = sorted(found, key=lambda piece: (-found[piece] * len(piece), piece))
        chosen = sorted(letters.union(ranked[:_BEGIN_WITH]))
        model = _normalised({piece: float(found[piece]) for piece in chosen}, letters)
        while True:
            for _ in range(2):
                model = _normalised(_expected(words, model), letters)
            if len(model) <= size:
                return model
            loss = _losses(words, model)
            keep = max(size, int(len(model) * _KEPT)) - len(letters)
            others = sorted(model.keys() - letters, key=lambda piece: (-loss[piece], piece))
            model = {piece: model[piece] for piece in sorted(letters.union(others[:keep]))}

    def split(self, vocabulary: Vocabulary, word: str) -> Split:
        """Return the likeliest split."""
        return _best(vocabulary, word)[1]


def _best(model: Vocabulary, word: str, without: str = "") -> tuple[float, Split]:
    best: list[tuple[float, Split]] = [(0.0, [])]
    for end in range(1, len(word) + 1):
        options = []
        for start in range(max(0, end - _LONGEST), end):
            piece = word[start:end]
            if piece != without and (piece in model or end - start == 1):
                score, parts = best[start]
                options.append((score + model.get(piece, _NEVER), [*parts, piece]))
        best.append(max(options))
    return best[-1]


def _expected(words: Counter[str], model: Vocabulary) -> dict[str, float]:
    """Return how often each piece is expected, over all ways to split all words."""
    powers = {piece: math.exp(value) for piece, value in model.items()}
    expected = dict.fromkeys(model, 0.0)
    for word, count in words.items():
        size = len(word)
        edges = [
            (start, end, word[start:end])
            for end in range(1, size + 1)
            for start in range(max(0, end - _LONGEST), end)
            if word[start:end] in powers
        ]
        ahead, behind = [1.0] + [0.0] * size, [0.0] * size + [1.0]
        for start, end, piece in edges:
            ahead[end] += ahead[start] * powers[piece]
        for start, end, piece in reversed(edges):
            behind[start] += behind[end] * powers[piece]
        for start, end, piece in edges:
            expected[piece] += count * ahead[start] * powers[piece] * behind[end] / ahead[size]
    return expected


def _losses(words: Counter[str], model: Vocabulary) -> dict[str, float]:
    """Return how much likelihood is lost without each piece: how often it is used, times what its best split costs."""
    used = Counter[str]()
    for word, count in words.items():
        for piece in _best(model, word)[1]:
            used[piece] += count
    others = [piece for piece in model if len(piece) > 1]
    return {piece: used[piece] * (model[piece] - _best(model, piece, piece)[0]) for piece in others}


def _normalised(counts: dict[str, float], letters: set[str]) -> Vocabulary:
    kept = {piece: max(count, 0.01) for piece, count in counts.items() if count > _RARE or piece in letters}
    total = sum(kept.values())
    return {piece: math.log(count / total) for piece, count in kept.items()}


METHOD = Unigram()
