"""How long made-up sessions take by the order of their environments, and by whether workers share what is left.

Prints each as a multiple of what no order could do better: all work divided by the workers, or the longest environment
with its longest probe, whichever is longer. Lengths are drawn from log-normal distributions: agents at work for 11
minutes in the middle, up to some two hours, probes for half a minute. Nothing waits for anything but what is modelled.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean

from pytest_researchenv.scheduling import Dispatch, in_order


__all__ = ["Site"]

#: Environments and workers.
_SESSIONS = ((1, 6), (4, 8), (44, 8), (44, 32), (200, 32))


@dataclass
class Site:
    """Workers as xdist's are: each begins with a test once it has the next one, or was told that there is none.

    The first test of an environment builds it; whoever begins with another one meanwhile waits until it is built.
    """

    builds: Sequence[float]
    probes: Sequence[Sequence[float]]
    workers: int
    dies: tuple[int, int] | None = None
    spread: bool = True
    now: float = 0.0
    ran: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    ended: list[float] = field(default_factory=list)
    waited_s: float = 0.0
    built: dict[int, float] = field(default_factory=dict)
    built_by: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.tests = [(number, seconds) for number, some in enumerate(self.probes) for seconds in some]
        groups: dict[int, list[int]] = defaultdict(list)
        for test, (environment, _) in enumerate(self.tests):
            groups[environment].append(test)
        self._queues: dict[int, list[int]] = {worker: [] for worker in range(self.workers)}
        self._ended: set[int] = set()
        self._busy: dict[int, int] = {}
        self._events: list[tuple[float, int]] = []
        self.dispatch = Dispatch(list(groups.values()), send=self._send, end=self._ended.add, spread=self.spread)

    def _send(self, worker: int, tests: list[int]) -> None:
        if worker in self._ended:
            raise RuntimeError(f"worker {worker} was given tests after it had been told that there are no more")
        self._queues[worker] += tests

    def _begin(self) -> None:
        for worker, queue in self._queues.items():
            if worker not in self._busy and (len(queue) > 1 or (queue and worker in self._ended)):
                test = queue.pop(0)
                environment, seconds = self.tests[test]
                if environment not in self.built:
                    self.built[environment] = self.now + self.builds[environment]
                    self.built_by[environment].append(worker)
                begins = max(self.now, self.built[environment])
                self.waited_s += begins - self.now if self.built_by[environment][-1] != worker else 0.0
                self._busy[worker] = test
                heapq.heappush(self._events, (begins + seconds, worker))

    def run(self) -> float:
        """Return how long it took; every test was run once, but for the one at which a worker died."""
        for worker in self._queues:
            self.dispatch.join(worker)
        self.dispatch.deal()
        self._begin()
        while self._events:
            self.now, worker = heapq.heappop(self._events)
            test = self._busy.pop(worker)
            if self.dies == (worker, len(self.ran[worker])):
                self._die(worker)
            else:
                self.ran[worker].append(test)
                self.ended.append(self.now)
                self.dispatch.done(worker, test)
            self._begin()
        if self.dispatch.waiting or any(self._queues.values()):
            raise RuntimeError("tests were never begun")
        return self.now

    def _die(self, worker: int) -> None:
        self._queues.pop(worker)
        # xdist puts a new one in its place.
        new = 1 + max(self._queues, default=worker)
        self.dispatch.leave(worker)
        self._queues[new] = []
        self.dispatch.join(new)
        self.dispatch.deal()


def _session(environments: int, workers: int, rng: random.Random) -> list[float]:
    """Return what the four ways take, as multiples of the bound."""
    builds = [rng.lognormvariate(6.5, 0.8) for _ in range(environments)]
    probes = [[rng.lognormvariate(3.5, 0.9) for _ in range(6)] for _ in range(environments)]
    longest = max(build + max(some) for build, some in zip(builds, probes, strict=True))
    bound = max((sum(builds) + sum(map(sum, probes))) / workers, longest)
    names = [str(number) for number in range(environments)]
    expected = {name: builds[int(name)] + sum(probes[int(name)]) for name in names}
    ordered = [int(name) for name in in_order({name: [] for name in names}, trials={}, expected=expected)]
    return [
        Site([builds[one] for one in order], [probes[one] for one in order], workers, spread=spread).run() / bound
        for order in (range(environments), ordered)
        for spread in (False, True)
    ]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="sessions of each size (default: 20)")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)  # noqa: S311 - no secret depends on it
    print("| environments | workers | as collected | and shared | longest first | and shared |")
    print("| --- | --- | --- | --- | --- | --- |")
    for environments, workers in _SESSIONS:
        sessions = [_session(environments, workers, rng) for _ in range(arguments.times)]
        figures = " | ".join(f"{mean(figures):.2f}" for figures in zip(*sessions, strict=True))
        print(f"| {environments} | {workers} | {figures} |")


if __name__ == "__main__":
    _main()
