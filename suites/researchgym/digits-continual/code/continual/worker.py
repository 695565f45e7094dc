"""One call of a method: what is needed comes in files, and so does what comes out.

    python -m continual.worker FOLDER

`FOLDER/request.json` says what to do. The evaluation calls methods in no other way, each call in a new process.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np

from continual.methods import STATE_BYTES, Floats, Labels, State, method_named


__all__ = ["learned", "main", "predicted"]


def learned(method: str, state: bytes, x: Floats, y: Labels, seed: int) -> bytes:
    """Return a method's state after a step, as bytes; no bytes stand for the state before the first step."""
    known = method_named(method)
    after = known.learn(_unpacked(state) if state else known.begin(seed), x, y)
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **after)
    if len(packed.getvalue()) > STATE_BYTES:
        raise SystemExit(f"the state has {len(packed.getvalue())} bytes; {STATE_BYTES} are allowed")
    return packed.getvalue()


def predicted(method: str, state: bytes, x: Floats) -> list[int]:
    """Return a method's predictions."""
    labels: list[int] = np.asarray(method_named(method).predict(_unpacked(state), x)).tolist()
    return labels


def main(folder: Path) -> None:
    """Do what a request says."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    method = request["method"]
    if request["action"] == "learn":
        x, y = _rows(folder / "x.npy"), _labels(folder / "y.npy")
        state = (folder / "state.npz").read_bytes() if request["begun"] else b""
        (folder / "out" / "state.npz").write_bytes(learned(method, state, x, y, request["seed"]))
    else:
        state = (folder / "state.npz").read_bytes()
        asked = [_rows(folder / f"x-{number}.npy") for number in range(request["asked"])]
        answers = [predicted(method, state, rows) for rows in asked]
        (folder / "out" / "predictions.json").write_text(json.dumps(answers), encoding="utf-8")


def _rows(path: Path) -> Floats:
    rows: Floats = np.load(path, allow_pickle=False)
    return rows


def _labels(path: Path) -> Labels:
    labels: Labels = np.load(path, allow_pickle=False)
    return labels


def _unpacked(state: bytes) -> State:
    with np.load(io.BytesIO(state), allow_pickle=False) as held:
        return dict(held)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
