"""Run a method on public streams, and write what it reached.

python -m continual.run --method nearest-mean --steps 5 --seeds 0 1 2 3 4 --out results/steps5.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from continual.methods import METHODS
from continual.stream import FEATURES, Digits, Examples, Stream, accuracy, draw, public_key, read_digits
from continual.worker import learned, predicted


__all__ = ["accuracies", "main"]

DATA = Path(__file__).parents[1] / "data" / "digits.csv.gz"


def accuracies(method: str, stream: Stream, seed: int) -> list[float]:
    """Return the accuracy over all classes so far, after each step."""
    found, state = [], b""
    for step, examples in enumerate(stream.training):
        state = learned(method, state, _rows(examples), np.array(examples.labels), seed)
        test = stream.test_after(step)
        found.append(accuracy(predicted(method, state, _rows(test)), test.labels))
    return found


def record(method: str, digits: Digits, steps: int, seed: int) -> dict[str, object]:
    """Return the record of one seed, as it stands in the file."""
    found = accuracies(method, draw(digits, public_key(seed), steps), seed)
    return {
        "method": method,
        "steps": steps,
        "seed": seed,
        "accuracies": [round(one, 4) for one in found],
        "Acc": round(found[-1], 4),
        "AAA": round(sum(found) / len(found), 4),
    }


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=sorted(METHODS), required=True)
    parser.add_argument("--steps", type=int, choices=(2, 5, 10), required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    digits = read_digits(DATA)
    records = [record(given.method, digits, given.steps, seed) for seed in given.seeds]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    for name in ("Acc", "AAA"):
        print(name, round(sum(float(str(one[name])) for one in records) / len(records), 2))  # noqa: T201


def _rows(examples: Examples) -> np.ndarray:
    return np.frombuffer(examples.values, np.float32).reshape(-1, FEATURES)


if __name__ == "__main__":
    main()
