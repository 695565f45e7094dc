"""Evaluation of tokenizers: pieces of hidden languages, and how well texts are sorted by them.

The handed-in code sees texts without topics, and words; it returns a vocabulary, and splits. Sorting is done here.
"""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import json
import random
import sys
from pathlib import Path


_TASK = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TASK.parent / "_shared"), str(_TASK / "code")]

from judging.calls import Broken, Calls  # noqa: E402
from judging.flow import main  # noqa: E402
from judging.problem import Hidden, Metrics  # noqa: E402
from pieces.downstream import scores, sorted_by_topic  # noqa: E402
from pieces.language import Corpus, draw, public_key  # noqa: E402


__all__ = ["PROBLEM", "MorphemeTokens"]

_SIZES = {"pieces100": 100, "pieces150": 150, "pieces200": 200}
_LONGEST_PIECE = 64
_LARGEST = 1e300


class MorphemeTokens:
    """The task, for the judge."""

    folder = _TASK
    package = "pieces"
    data = ""
    deadline_s = 60.0

    def setting(self, subtask: str) -> dict[str, int]:
        """Return the size of the vocabulary."""
        return {"size": _SIZES[subtask]}

    def public(self, seed: int) -> str:
        """Return the key of a public language."""
        return public_key(seed)

    def measure(self, calls: Calls, method: str, hidden: Hidden) -> Metrics:
        """Return both F1 scores on a hidden language."""
        corpus = draw(hidden.key)
        words = _words(corpus, hidden)
        vocabulary = _learned(calls, method, corpus, hidden)
        splits = dict(zip(words, _split(calls, method, vocabulary, words), strict=True))
        training, test = (
            [[piece for word in text.split() for piece in splits[word]] for text in texts]
            for texts in (corpus.training, corpus.test)
        )
        predicted = sorted_by_topic(training, corpus.training_topics, test)
        if len(set(predicted)) == 1:
            raise Broken("constant", "its pieces say nothing: all texts come under one topic")
        return scores(predicted, corpus.test_topics)

    def inspect(self, calls: Calls, other: Calls, method: str, hidden: Hidden) -> None:
        """Look whether the same comes out in another environment, and for words in another order."""
        corpus = draw(hidden.key)
        words = _words(corpus, hidden)
        vocabulary = _learned(calls, method, corpus, hidden)
        splits = _split(calls, method, vocabulary, words)
        if _learned(other, method, corpus, hidden) != vocabulary or _split(other, method, vocabulary, words) != splits:
            raise Broken(
                "conditions", "the same call yields something else when it is made again in another environment"
            )
        known = dict(zip(words, splits, strict=True))
        # Drawn, since a method that counts calls can be in step with any fixed order.
        some = random.Random(f"some {hidden.key}").sample(words, len(words) // 2)  # noqa: S311
        if _split(calls, method, vocabulary, some) != [known[word] for word in some]:
            raise Broken("batch", "how a word is split depends on the other words")


def _words(corpus: Corpus, hidden: Hidden) -> list[str]:
    """Return all words of a corpus, in an order that does not tell where they stand in it."""
    words = sorted({word for text in (*corpus.training, *corpus.test) for word in text.split()})
    random.Random(hidden.key).shuffle(words)  # noqa: S311
    return words


def _learned(calls: Calls, method: str, corpus: Corpus, hidden: Hidden) -> dict[str, float]:
    size = _SIZES[hidden.subtask]
    request = {"action": "learn", "method": method, "texts": corpus.training, "size": size, "seed": hidden.seed}
    vocabulary = _called(calls, request, "vocabulary.json")
    if not isinstance(vocabulary, dict) or len(vocabulary) > size:
        raise Broken("predictions", f"the vocabulary is {_shown(vocabulary)}, not an object of at most {size} pieces")
    for piece, value in vocabulary.items():
        if not piece or " " in piece or len(piece) > _LONGEST_PIECE:
            raise Broken("predictions", f"{_shown(piece)} is no piece: no blanks, and 1 to {_LONGEST_PIECE} letters")
        if type(value) not in {int, float} or not abs(value) <= _LARGEST:
            raise Broken("predictions", f"the number of piece {_shown(piece)} is {_shown(value)}")
    return vocabulary


def _split(calls: Calls, method: str, vocabulary: dict[str, float], words: list[str]) -> list[list[str]]:
    splits = _called(
        calls, {"action": "split", "method": method, "vocabulary": vocabulary, "words": words}, "splits.json"
    )
    if not isinstance(splits, list) or len(splits) != len(words):
        raise Broken("predictions", f"splits are {_shown(splits)}, not a list of {len(words)}")
    for word, split in zip(words, splits, strict=True):
        fine = isinstance(split, list) and all(isinstance(one, str) for one in split) and "".join(split) == word
        if not fine or not all(piece in vocabulary or len(piece) == 1 for piece in split):
            raise Broken(
                "predictions", f"{word!r} is split into {_shown(split)}: not the word in pieces of the vocabulary"
            )
    return splits


def _called(calls: Calls, request: object, name: str) -> object:
    files = {"request.json": json.dumps(request).encode()}
    try:
        return json.loads(calls.run("pieces.worker", files, "{folder}", outputs=(name,))[name])
    except (ValueError, RecursionError) as error:
        raise Broken("predictions", f"{name} is no JSON: {str(error)[:200]}") from error


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.80}"


PROBLEM = MorphemeTokens()

if __name__ == "__main__":
    main(PROBLEM)
