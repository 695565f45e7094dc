"""Ways to look on while a repository's code works, and to let a model learn something small."""
# pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import logging
import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from probekit import finite, on_device


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self


def options(**named: object) -> list[str]:
    """Write options as command lines have them: `--name=value`."""
    return [f"--{name}={value}" for name, value in named.items()]


class Watch:
    """Looks at what modules give, by a hook of torch, and changes nothing.

    Attributes:
        calls: name of a class → how often a module of it was called.
        elsewhere: how many of their results were on another device than the tier's, or not finite.
    """

    def __init__(self, *names: str, note: Callable[[torch.nn.Module, tuple, object], object] | None = None) -> None:
        """Watch modules of these classes; `note`, if given, gets each with its inputs and its output."""
        self.calls: Counter[str] = Counter()
        self.elsewhere = 0
        self._names, self._note = names, note
        self._hook = torch.nn.modules.module.register_module_forward_hook(self._look)

    def __enter__(self) -> Self:
        """Go on looking."""
        return self

    def __exit__(self, *_: object) -> None:
        """Look no longer."""
        self._hook.remove()

    def _look(self, module: torch.nn.Module, inputs: tuple, output: object) -> None:
        name = type(module).__name__
        if name in self._names:
            self.calls[name] += 1
            self.elsewhere += not all(
                on_device(one) and (one.dtype.is_complex or finite(one)) for one in _tensors(output)
            )
            if self._note:
                self._note(module, inputs, output)


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """The tensors in a result, at whatever depth."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


@contextmanager
def logged(name: str, pattern: str, level: int = logging.INFO) -> Iterator[list[float]]:
    """Collect the numbers that a logger's messages give as the first group of a pattern."""
    found: list[float] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.extend(map(float, re.findall(pattern, record.getMessage())))

    logger, collector = logging.getLogger(name), Collector(level)
    logger.addHandler(collector)
    logger.setLevel(level)
    try:
        yield found
    finally:
        logger.removeHandler(collector)


def fit(
    loss: Callable[[], torch.Tensor], weights: Iterable[torch.Tensor], *, steps: int, rate: float, method: str = "Adam"
) -> list[float]:
    """Train weights by an optimizer of torch, and return the loss before each step."""
    optimizer = getattr(torch.optim, method)(weights, lr=rate)
    losses = []
    for _ in range(steps):
        losses.append(loss())
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return [one.item() for one in losses]


def fingerprint(model: torch.nn.Module) -> list[float]:
    """Sum up each of a model's weights: equal weights give equal sums."""
    return [weight.detach().double().sum().item() for weight in model.parameters()]


def apart(prints: list[list[float]]) -> float:
    """The largest difference between the fingerprints of several models and the first one's."""
    return max(abs(one - other) for print_ in prints for one, other in zip(print_, prints[0], strict=True))


def told(name: str, tell: Callable[[torch.nn.Module, tuple, dict, object], object]) -> None:
    """Tell of each call of the first module of a class, with the named arguments: hooks for all modules get none."""

    def meet(module: torch.nn.Module, _: tuple) -> None:
        if type(module).__name__ == name:
            watching.remove()
            module.register_forward_hook(tell, with_kwargs=True)

    watching = torch.nn.modules.module.register_module_forward_pre_hook(meet)
