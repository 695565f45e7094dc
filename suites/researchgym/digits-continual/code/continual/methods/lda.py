"""Streaming linear discriminant analysis (Hayes and Kanan, 2020): class means, and one covariance for all classes."""

from __future__ import annotations

import numpy as np

from continual.methods import Floats, Labels, State
from continual.methods.nearest_mean import NearestMean


__all__ = ["METHOD", "StreamingLda"]

# Of the covariance, towards the unit matrix: what the authors use.
_SHRINKAGE = 1e-4


class StreamingLda(NearestMean):
    """The nearest mean, in the metric of the covariance within classes."""

    def begin(self, seed: int) -> State:
        """Return neither means nor covariance."""
        return {**super().begin(seed), "scatter": np.zeros((64, 64), np.float32), "rows": np.zeros(1, np.int64)}

    def learn(self, state: State, x: Floats, y: Labels) -> State:
        """Add the means of the new classes, and how their rows scatter about them."""
        after = {**state, **super().learn(state, x, y)}
        away = np.concatenate([x[y == label] - x[y == label].mean(axis=0) for label in np.unique(y)])
        return {**after, "scatter": state["scatter"] + away.T @ away, "rows": state["rows"] + len(x)}

    def predict(self, state: State, x: Floats) -> Labels:
        """Return the class with the largest discriminant."""
        covariance = (1 - _SHRINKAGE) * state["scatter"] / state["rows"] + _SHRINKAGE * np.eye(64)
        weights = np.linalg.solve(covariance, state["means"].T)
        offsets = 0.5 * (state["means"].T * weights).sum(axis=0)
        return state["classes"][(x @ weights - offsets).argmax(axis=1)]


METHOD = StreamingLda()
