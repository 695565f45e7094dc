"""What one of our tasks says about itself for its evaluation."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from judging.calls import Calls


__all__ = ["Hidden", "Metrics", "Problem"]

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Which hidden data a method is measured on.

    Attributes:
        subtask: the sub-task.
        key: what the data are drawn from: it is made of the evaluation's secret.
        seed: the seed that the method is given.
    """

    subtask: str
    key: str
    seed: int


class Problem(Protocol):
    """One task.

    Attributes:
        folder: of the task: it holds `task.toml` and `code`.
        package: name of the code's package.
        data: folder of the public data in the code, or empty; code that is measured on hidden data does not get it.
        deadline_s: seconds that one call of a method may take.
    """

    folder: Path
    package: str
    data: str
    deadline_s: float

    def setting(self, subtask: str) -> dict[str, int]:
        """Return what the runner is told of a sub-task, as it also stands in each record."""
        ...

    def public(self, seed: int) -> str:
        """Return what the public data of a seed are drawn from."""
        ...

    def measure(self, calls: Calls, method: str, hidden: Hidden) -> Metrics:
        """Measure a method on hidden data.

        Raises:
            Broken: what it returned is no result.
        """
        ...

    def inspect(self, calls: Calls, other: Calls, method: str, hidden: Hidden) -> None:
        """Look whether a method does what it may not.

        Args:
            calls: calls as all others.
            other: calls in another environment, which must make no difference.
            method: name of the method.
            hidden: the data to look at.

        Raises:
            Broken: it does.
        """
        ...
