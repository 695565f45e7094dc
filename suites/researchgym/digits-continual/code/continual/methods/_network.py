"""A network with one hidden layer, trained by gradient descent: what three of the baselines share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from continual.methods import Floats, State


__all__ = ["HIDDEN", "begin", "forward", "gradients", "softmax", "train"]

HIDDEN = 64
_CLASSES = 10
_FEATURES = 64
_EPOCHS = 20
_BATCH = 32
_RATE = 0.05
_MOMENTUM = 0.9

Array = Floats
Weights = dict[str, Array]
LogitGradient = Callable[[Array, NDArray[np.intp]], Array]
WeightGradient = Callable[[Weights], Weights]


def begin(seed: int) -> State:
    """Return a network with random weights, and no class learned."""
    chance = np.random.default_rng(seed)
    return {
        "w1": (chance.normal(size=(_FEATURES, HIDDEN)) / np.sqrt(_FEATURES)).astype(np.float32),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": (chance.normal(size=(HIDDEN, _CLASSES)) / np.sqrt(HIDDEN)).astype(np.float32),
        "b2": np.zeros(_CLASSES, np.float32),
        "seen": np.zeros(_CLASSES, bool),
        "draws": np.array([seed, 0], np.int64),
    }


def forward(weights: Weights, x: Floats) -> tuple[Array, Array]:
    """Return what the hidden layer and the last layer yield."""
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
    return hidden, hidden @ weights["w2"] + weights["b2"]


def softmax(logits: Array) -> Array:
    """Return probabilities."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def gradients(weights: Weights, x: Floats, hidden: Array, by_logits: Array) -> Weights:
    """Return the gradients of the weights, from that of the logits."""
    by_hidden = (by_logits @ weights["w2"].T) * (hidden > 0)
    return {"w1": x.T @ by_hidden, "b1": by_hidden.sum(0), "w2": hidden.T @ by_logits, "b2": by_logits.sum(0)}


def train(state: State, x: Floats, by_logits: LogitGradient, pull: WeightGradient | None = None) -> State:
    """Train by gradient descent with momentum.

    Args:
        state: a network.
        x: the rows.
        by_logits: the loss's gradient, from logits and the numbers of the rows that they belong to.
        pull: what is added to the weights' gradients.
    """
    weights = {name: state[name].astype(np.float32) for name in ("w1", "b1", "w2", "b2")}
    speed = {name: np.zeros_like(value) for name, value in weights.items()}
    chance = np.random.default_rng(state["draws"].tolist())
    for _ in range(_EPOCHS):
        for rows in np.array_split(chance.permutation(len(x)), -(-len(x) // _BATCH)):
            hidden, logits = forward(weights, x[rows])
            slopes = gradients(weights, x[rows], hidden, by_logits(logits, rows))
            added = pull(weights) if pull else {}
            for name in weights:
                speed[name] = _MOMENTUM * speed[name] - _RATE * (slopes[name] + added.get(name, 0))
                weights[name] += speed[name]
    return {**state, **weights, "draws": state["draws"] + np.array([0, 1])}
