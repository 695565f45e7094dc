"""Your method.

Fill in the three functions; the interface is described in `continual.methods.Method`. Other modules may be added beside
this one. What is handed in is the Python files below `continual/methods/`.
"""

from __future__ import annotations

from continual.methods import Floats, Labels, State


__all__ = ["METHOD", "Own"]


class Own:
    """Empty so far."""

    def begin(self, seed: int) -> State:
        """Return the state before the first step."""
        raise NotImplementedError

    def learn(self, state: State, x: Floats, y: Labels) -> State:
        """Return the state after a step."""
        raise NotImplementedError

    def predict(self, state: State, x: Floats) -> Labels:
        """Return a class for each row."""
        raise NotImplementedError


METHOD = Own()
