"""Methods: each learns one step after another, and keeps what it knows in a state of bounded size."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


__all__ = ["METHODS", "STATE_BYTES", "Floats", "Labels", "Method", "State", "method_named"]

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]
State = dict[str, NDArray[Any]]

# All that a method carries from one step to the next, as `numpy.savez` writes it.
STATE_BYTES = 48 * 1024

METHODS = {
    "finetune": "continual.methods.finetune",
    "ewc": "continual.methods.ewc",
    "lwf": "continual.methods.lwf",
    "nearest-mean": "continual.methods.nearest_mean",
    "lda": "continual.methods.lda",
    "own": "continual.methods.own",
}


class Method(Protocol):
    """What a method has to offer.

    Each call may come in a new process: what is not in the state is lost.
    """

    def begin(self, seed: int) -> State:
        """Return the state before the first step."""
        ...

    def learn(self, state: State, x: Floats, y: Labels) -> State:
        """Return the state after a step: rows of 64 features, and their classes, none of which came before."""
        ...

    def predict(self, state: State, x: Floats) -> Labels:
        """Return a class for each row, from those that were learned; a row's must not depend on the other rows."""
        ...


def method_named(name: str) -> Method:
    """Return a method by its name."""
    if name not in METHODS:
        raise SystemExit(f"no method {name!r}; there are {', '.join(METHODS)}")
    method: Method = import_module(METHODS[name]).METHOD
    return method
