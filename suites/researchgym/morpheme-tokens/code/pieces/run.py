"""Run a method on public languages, and write what it reached.

python -m pieces.run --method bpe --size 200 --seeds 0 1 2 3 4 --out results/pieces200.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pieces.downstream import Scores, scores, sorted_by_topic
from pieces.language import draw, public_key
from pieces.methods import METHODS, Split, method_named


__all__ = ["main", "reached"]


def reached(method: str, size: int, seed: int) -> Scores:
    """Return the scores of a method on the public language of a seed."""
    corpus = draw(public_key(seed))
    known = method_named(method)
    vocabulary = known.learn(corpus.training, size, seed)
    if len(vocabulary) > size:
        raise SystemExit(f"the vocabulary has {len(vocabulary)} pieces; {size} are allowed")

    def split(text: str) -> Split:
        return [piece for word in text.split() for piece in known.split(vocabulary, word)]

    training, test = ([split(text) for text in texts] for texts in (corpus.training, corpus.test))
    return scores(sorted_by_topic(training, corpus.training_topics, test), corpus.test_topics)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=sorted(METHODS), required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    records = [
        {"method": given.method, "size": given.size, "seed": seed}
        | {name: round(value, 4) for name, value in reached(given.method, given.size, seed).items()}
        for seed in given.seeds
    ]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    for name in ("Macro-F1", "Micro-F1"):
        print(name, round(sum(float(one[name]) for one in records) / len(records), 2))  # noqa: T201


if __name__ == "__main__":
    main()
