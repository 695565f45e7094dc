"""Made-up languages: words of a prefix, one or two roots and suffixes, and texts on topics.

A language is drawn from a key, and from nothing else: its morphemes, its topics and its texts.
So words, morphemes and topics of one language say nothing about those of another.

Topics differ in which roots and affixes their words are made of. There are far more words than texts hold, so that most
words of a text are new; what stays the same is what they are made of.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


__all__ = ["TOPICS", "Corpus", "draw", "public_key"]

TOPICS = 6
_TRAINING = 240
_TEST = 480
_WORDS = 14
_ROOTS = 110
_PREFIXES = 14
_SUFFIXES = 22
_CONSONANTS = "bdfgklmnprst"
_VOWELS = "aeiou"
# Share of words with a prefix.
_PREFIXED = 0.5
# How much likelier a topic's own morphemes are than others.
_OWN = 3.0


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts and their topics: some to train on, others to test."""

    training: list[str]
    training_topics: list[int]
    test: list[str]
    test_topics: list[int]


@dataclass(frozen=True, slots=True)
class _Language:
    roots: list[str]
    prefixes: list[str]
    suffixes: list[str]
    # For each topic, weights of roots, prefixes and suffixes.
    weights: list[tuple[list[float], list[float], list[float]]]


def public_key(seed: int) -> str:
    """Return the key of the language that the runner uses for a seed."""
    return f"public {seed}"


def draw(key: str) -> Corpus:
    """Draw a language, and texts in it."""
    # Drawn from the key's SHA-512, the same on every machine.
    chance = random.Random(key)  # noqa: S311
    language = _language(chance)
    parts = []
    for count in (_TRAINING, _TEST):
        topics = [index % TOPICS for index in range(count)]
        chance.shuffle(topics)
        parts.append(([_text(language, topic, chance) for topic in topics], topics))
    return Corpus(*parts[0], *parts[1])


def _language(chance: random.Random) -> _Language:
    taken: set[str] = set()
    kinds = (
        [_morpheme(chance, taken, "cvcvc", "cvcv", "cvccv", "vcvc") for _ in range(_ROOTS)],
        [_morpheme(chance, taken, "cv", "vc", "cvc") for _ in range(_PREFIXES)],
        [_morpheme(chance, taken, "vc", "vcv", "cvc", "v") for _ in range(_SUFFIXES)],
    )
    weights = []
    for _ in range(TOPICS):
        own = [[_OWN if chance.random() < 1 / 3 else 1.0 for _ in kind] for kind in kinds]
        weights.append((own[0], own[1], own[2]))
    return _Language(*kinds, weights)


def _morpheme(chance: random.Random, taken: set[str], *shapes: str) -> str:
    while True:
        shape = chance.choice(shapes)
        made = "".join(chance.choice(_CONSONANTS if sort == "c" else _VOWELS) for sort in shape)
        if made not in taken or len(made) == 1:
            taken.add(made)
            return made


def _text(language: _Language, topic: int, chance: random.Random) -> str:
    return " ".join(_word(language, topic, chance) for _ in range(_WORDS))


def _word(language: _Language, topic: int, chance: random.Random) -> str:
    roots, prefixes, suffixes = language.weights[topic]
    word = "".join(chance.choices(language.roots, roots, k=chance.choice((1, 1, 2))))
    if chance.random() < _PREFIXED:
        word = chance.choices(language.prefixes, prefixes)[0] + word
    return word + "".join(chance.choices(language.suffixes, suffixes, k=chance.choice((0, 1, 1, 2))))
