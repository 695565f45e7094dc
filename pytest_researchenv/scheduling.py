"""Which worker does which test next.

An environment is built by the first of its tests. Until that test has ended, all its others stay with the same worker,
since another one would only wait for the environment's lock. Afterwards they are for any worker that has nothing to
build. So workers build as long as there is something to build, the longest first, and then share the probes that are
left, instead of watching the last of them do one after the other.

Nothing here knows of pytest-xdist, but for one habit of its workers: they begin with a test only when they have been
given the next one, or told that there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, final


__all__ = ["Dispatch", "in_order"]

_W = TypeVar("_W", bound=Hashable)

#: Tests that a worker must have to begin with the first of them.
_AT_LEAST = 2


@dataclass(slots=True)
class _Group(Generic[_W]):
    """The tests of one environment.

    Attributes:
        waiting: those that no worker has.
        first: the one that builds it; None while no worker has any.
        builder: who has that one.
        built: whether that one has ended.
    """

    waiting: deque[int]
    first: int | None = None
    builder: _W | None = None
    built: bool = False


@final
@dataclass(slots=True)
class Dispatch(Generic[_W]):
    """Deals tests out to workers.

    Args:
        groups: the tests of each environment, by number; those that come first are begun first.
        send: gives tests to a worker.
        end: tells a worker that there are no more.
        spread: whether workers may judge environments that others have built.
    """

    groups: Sequence[Sequence[int]]
    send: Callable[[_W, list[int]], object]
    end: Callable[[_W], object]
    spread: bool = True
    pending: dict[_W, list[int]] = field(default_factory=dict)
    _groups: list[_Group[_W]] = field(init=False)
    _group_of: dict[int, _Group[_W]] = field(init=False)
    _at: dict[_W, _Group[_W]] = field(init=False, default_factory=dict)
    _ended: set[_W] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._groups = [_Group(deque(tests)) for tests in self.groups]
        self._group_of = {test: group for group in self._groups for test in group.waiting}

    @property
    def waiting(self) -> bool:
        """Whether there are tests that no worker has."""
        return any(group.waiting for group in self._groups)

    def join(self, worker: _W) -> None:
        """Count a worker in. It is given work by `deal`."""
        self.pending.setdefault(worker, [])

    def deal(self) -> None:
        """Give every worker what it needs to go on, and tell them when nothing is left."""
        # One each before anybody has two: the last tests are then done side by side.
        for wanted in range(1, _AT_LEAST + 1):
            for worker in self._living():
                while len(self.pending[worker]) < wanted and (test := self._next(worker)) is not None:
                    self._give(worker, test)
        for worker in self._living():
            # Where nothing of others is for it, a worker is told to do its last test when its own are done.
            if not self.waiting or (not self.spread and self._next(worker) is None):
                self._ended.add(worker)
                self.end(worker)

    def done(self, worker: _W, test: int) -> None:
        """Take note that a worker has finished a test."""
        self.pending[worker].remove(test)
        group = self._group_of[test]
        if test == group.first:
            group.built = True
        self.deal()

    def again(self, test: int) -> None:
        """Have a test done once more."""
        self._group_of[test].waiting.appendleft(test)
        self.deal()

    def leave(self, worker: _W) -> int | None:
        """Count a worker out; return the test that it was at, which nobody is given again.

        Raises:
            KeyError: it was not counted in.
        """
        left = self.pending.pop(worker)
        self._at.pop(worker, None)
        self._ended.discard(worker)
        crashed = left.pop(0) if left else None
        for test in reversed(left):
            self._group_of[test].waiting.appendleft(test)
        for group in self._groups:
            if group.builder == worker and not group.built:
                # Whoever is given the next of its tests builds it.
                group.first, group.builder = None, None
        self.deal()
        return crashed

    def _living(self) -> list[_W]:
        return [worker for worker in self.pending if worker not in self._ended]

    def _give(self, worker: _W, test: int) -> None:
        group = self._group_of[test]
        group.waiting.remove(test)
        if group.first is None:
            group.first, group.builder = test, worker
        if group.builder == worker:
            self._at[worker] = group
        self.pending[worker].append(test)
        self.send(worker, [test])

    def _next(self, worker: _W) -> int | None:
        """The test that a worker is best given next; None where it had better wait."""
        at = self._at.get(worker)
        if at is not None and at.waiting:
            return at.waiting[0]
        if begun := next((group for group in self._groups if group.waiting and group.first is None), None):
            return begun.waiting[0]
        # From the other end than its builder takes them.
        if built := self._fullest(group for group in self._groups if group.built and self._is_for_all(group)):
            return built.waiting[-1]
        # A worker with one test waits for another. One of an environment that is being built will do: it is not begun
        # until there is a next one, by when the environment is there.
        held = self.spread and len(self.pending[worker]) == 1
        return building.waiting[-1] if held and (building := self._fullest(self._groups)) else None

    def _is_for_all(self, group: _Group[_W]) -> bool:
        return self.spread or group.builder not in self.pending

    @staticmethod
    def _fullest(groups: Iterable[_Group[_W]]) -> _Group[_W] | None:
        return max((group for group in groups if group.waiting), key=lambda group: len(group.waiting), default=None)


def in_order(
    groups: Mapping[str, Sequence[int]], *, trials: Mapping[str, int], expected: Mapping[str, float]
) -> list[str]:
    """Return environments in the order in which they are best begun.

    Earlier attempts at all repositories come before later ones, so that a run that is stopped early has something of
    all. Among those, the longest come first: what is begun last decides how long workers stand idle in the end. What
    nothing is known of comes before them all: it may take as long as an agent may work, and what is begun too early
    costs little, what is begun too late its whole length.

    Args:
        groups: name of each environment → its tests, in the order in which they were collected.
        trials: its name → which of the attempts that were asked for.
        expected: its name → seconds, as far as they are known.
    """
    unknown = float("inf")
    return sorted(groups, key=lambda name: (trials.get(name, 1), -expected.get(name, unknown)))
