"""What pieces are good for: texts are sorted by topic, from the pieces that they are made of.

The classifier is multinomial naive Bayes with add-one smoothing, so that what differs between methods is the pieces.
"""

from __future__ import annotations

import math
from collections import Counter

from pieces.methods import Split


__all__ = ["Scores", "scores", "sorted_by_topic"]

Scores = dict[str, float]


def sorted_by_topic(training: list[Split], topics: list[int], test: list[Split]) -> list[int]:
    """Return the likeliest topic of each text of the test part."""
    counts: dict[int, Counter[str]] = {topic: Counter() for topic in sorted(set(topics))}
    for pieces, topic in zip(training, topics, strict=True):
        counts[topic].update(pieces)
    known = set().union(*counts.values())
    likely = {}
    for topic, counted in counts.items():
        total = counted.total() + len(known)
        likely[topic] = {piece: math.log((counted[piece] + 1) / total) for piece in known}
    share = {topic: math.log(topics.count(topic) / len(topics)) for topic in counts}
    return [
        max(counts, key=lambda topic: share[topic] + sum(likely[topic].get(piece, 0.0) for piece in pieces))
        for pieces in test
    ]


def scores(predicted: list[int], topics: list[int]) -> Scores:
    """Return the F1 of topics in per cent: the mean over topics, and that of all texts together (the accuracy)."""
    each = []
    for topic in sorted(set(topics)):
        hits = sum(one == other == topic for one, other in zip(predicted, topics, strict=True))
        each.append(200 * hits / (predicted.count(topic) + topics.count(topic)))
    right = sum(one == other for one, other in zip(predicted, topics, strict=True))
    return {"Macro-F1": sum(each) / len(each), "Micro-F1": 100 * right / len(topics)}
