"""Leases under load: many processes, tasks of 1, 2 and 8 devices, random deaths. Prints throughput, use and waits.

The devices are made up. Whether two tasks ever had the same one is told by a witness that knows nothing of leases: each
task locks a file for each of its devices, and the kernel lets go of it when the task dies.

Two shares are printed. *Of all device time* is what tasks used of devices times time. First come, first served cannot
use all of it: while a task of 8 devices is at the front, those that fall idle are kept for it. So the second, *of what
the rule allows*, compares with a replay of the same tasks in which everything but the tasks themselves takes no time.
"""

from __future__ import annotations

import argparse
import fcntl
import heapq
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from pytest_researchenv.leases.desk import Desk, Wanted, since_start


__all__ = ["DEVICES", "Outcome", "Plan", "ideal_s", "simulate"]

DEVICES = tuple(f"FAKE-{number}" for number in range(8))

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work: so many devices for so many seconds."""

    devices: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A simulation.

    Attributes:
        processes: how many work at once.
        tasks: how many there are altogether.
        deaths: how many processes are killed, whatever they are doing.
        mean_s: mean time that a task holds its devices, in seconds; from half to one and a half of it.
        shares: how often tasks want 1, 2 and 8 devices.
        seed: of the random numbers.
    """

    processes: int = 24
    tasks: int = 2000
    deaths: int = 100
    mean_s: float = 0.2
    shares: tuple[int, int, int] = (1, 1, 1)
    seed: int = 1

    def work(self) -> list[list[Task]]:
        """Each process's tasks."""
        rng = random.Random(self.seed)  # noqa: S311 - a simulation's
        wanted = rng.choices((1, 2, 8), self.shares, k=self.tasks)
        tasks = [Task(devices, rng.uniform(0.5, 1.5) * self.mean_s) for devices in wanted]
        return [tasks[number :: self.processes] for number in range(self.processes)]


@dataclass(frozen=True, slots=True)
class Held:
    """One time that a task had its devices.

    Attributes:
        process: number of the process.
        ticket: place in the line.
        task: what was done.
        asked: when, in seconds since the host's start.
        served: when it was its turn, likewise.
        began: when it noticed and began, likewise.
        ended: likewise; when it was killed, where it was.
    """

    process: int
    ticket: int
    task: Task
    asked: float
    served: float
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a simulation.

    Attributes:
        plan: what was simulated.
        held: every time that a task had devices, in the order of tickets.
        done: tasks that came to their end.
        doubles: devices that two tasks had at once, by the witness.
        died: how many processes were killed: while they held devices, and altogether.
        took_s: from the first question to the last end, in seconds.
        left: tickets in the line once all had ended.
    """

    plan: Plan
    held: tuple[Held, ...]
    done: int
    doubles: tuple[str, ...]
    died: tuple[int, int]
    took_s: float
    left: int

    @property
    def overtaken(self) -> int:
        """How many tasks were served later than one with a higher ticket. All want the same devices."""
        last, count = float("inf"), 0
        for one in reversed(self.held):
            count += one.served > last
            last = min(last, one.served)
        return count

    @property
    def longest(self) -> tuple[float, int]:
        """The longest wait in seconds, and how many were before it or held devices when it began."""
        wait, one = max((one.served - one.asked, number) for number, one in enumerate(self.held))
        return wait, self.before(self.held[one])

    def before(self, one: Held) -> int:
        """How many had a lower ticket and had not ended when this one was drawn."""
        return sum(other.ticket < one.ticket and other.ended > one.asked for other in self.held)

    @property
    def late(self) -> float:
        """The longest that anybody waited beyond what those before took one after another, in seconds."""
        longest = max(map(_lasted, self.held))
        return max(one.served - one.asked - self.before(one) * longest for one in self.held)

    @property
    def used(self) -> float:
        """Share of all device time that was used."""
        return self._device_s / (len(DEVICES) * self.took_s)

    @property
    def used_of_possible(self) -> float:
        """Share of what first come, first served allows."""
        return self.ideal_s / self.took_s

    @property
    def ideal_s(self) -> float:
        """How long all would take if nothing but the tasks took time."""
        work: list[list[Task]] = [[] for _ in range(self.plan.processes)]
        for one in sorted(self.held, key=lambda one: one.served):
            work[one.process].append(Task(one.task.devices, _lasted(one)))
        return ideal_s(work, len(DEVICES))

    @property
    def _device_s(self) -> float:
        return sum(one.task.devices * _lasted(one) for one in self.held)


def _lasted(one: Held) -> float:
    """Seconds that a task really took: on a busy machine, sleeping for a second takes longer."""
    return max(0.0, one.ended - one.began)


def ideal_s(work: Sequence[Sequence[Task]], devices: int) -> float:
    """Replay tasks, first come, first served, without any time between them; return the seconds that it takes."""
    line = list(range(len(work)))
    following = [iter(tasks) for tasks in work]
    wanted = {number: next(tasks, None) for number, tasks in enumerate(following)}
    line = [number for number in line if wanted[number]]
    running: list[tuple[float, int, int]] = []
    now, free = 0.0, devices
    while line or running:
        while line and (task := wanted[line[0]]) and task.devices <= free:
            heapq.heappush(running, (now + task.seconds, line.pop(0), task.devices))
            free -= task.devices
        now, number, freed = heapq.heappop(running)
        free += freed
        wanted[number] = next(following[number], None)
        if wanted[number]:
            line.append(number)
    return now


# --- the real thing ---------------------------------------------------------------------------------------


def simulate(plan: Plan, folder: Path) -> Outcome:
    """Run a simulation in real processes."""
    work = plan.work()
    for device in DEVICES:
        (folder / device).touch()
    begun = [0] * plan.processes
    running = {number: _start(folder, number, work[number]) for number in range(plan.processes)}
    rng = random.Random(plan.seed + 1)  # noqa: S311 - likewise
    began, killed = since_start(), list[tuple[int, float]]()
    while any(process.is_alive() for process in running.values()):
        time.sleep(0.01)
        done = sum(begun)
        alive = [number for number, process in running.items() if process.is_alive()]
        begun = [_done(folder, number) for number in range(plan.processes)]
        # Spread over the whole of it.
        if alive and len(killed) < plan.deaths and done >= len(killed) * plan.tasks / (plan.deaths + 1):
            # Every other one while it has devices; most wait.
            holders = [number for number in alive if _holds(folder, number)] if len(killed) % 2 else []
            number = rng.choice(holders or alive)
            _kill(running[number])
            killed.append((number, since_start()))
            running[number] = _start(folder, number, work[number][_done(folder, number) :])
    codes = [process.exitcode for process in running.values()]
    if any(codes):
        raise RuntimeError(f"a process of the simulation ended with {codes}")
    return _outcome(plan, folder, killed, began)


def _start(folder: Path, number: int, tasks: Sequence[Task]) -> BaseProcess:
    process = _FORK.Process(target=_work, args=(folder, number, tasks))
    process.start()
    return process


def _kill(process: BaseProcess) -> None:
    if process.pid:
        os.kill(process.pid, signal.SIGKILL)
    process.join()


def _work(folder: Path, number: int, tasks: Sequence[Task]) -> None:
    desk = Desk(folder / "line")
    log = os.open(folder / f"log-{number}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for task in tasks:
        with desk.lease(Wanted(f"task of {number}", task.devices, DEVICES)) as lease, _witnessed(folder, lease.devices):
            _note(log, "had", lease.number, task.devices, task.seconds, lease.asked, lease.served, since_start())
            time.sleep(task.seconds)
            ended = since_start()
        _note(log, "done", lease.number, ended)


@contextmanager
def _witnessed(folder: Path, devices: tuple[str, ...]) -> Iterator[None]:
    with ExitStack() as stack:
        for device in devices:
            file = stack.enter_context((folder / device).open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                (folder / f"double-{device}-{os.getpid()}").touch()
        yield


def _note(log: int, *words: str | float) -> None:
    os.write(log, f"{json.dumps(words)}\n".encode())


def _notes(folder: Path, number: int) -> list[list[str | float]]:
    path = folder / f"log-{number}"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _done(folder: Path, number: int) -> int:
    path = folder / f"log-{number}"
    return path.read_text().count('["done"') if path.exists() else 0


def _holds(folder: Path, number: int) -> bool:
    notes = _notes(folder, number)
    return bool(notes) and notes[-1][0] == "had"


def _outcome(plan: Plan, folder: Path, killed: list[tuple[int, float]], began: float) -> Outcome:
    held: list[Held] = []
    ended: dict[float, float] = {}
    for number in range(plan.processes):
        notes = _notes(folder, number)
        ended |= {float(note[1]): float(note[2]) for note in notes if note[0] == "done"}
        for kind, ticket, *values in notes:
            if kind == "had":
                devices, seconds, asked, served, started = map(float, values)
                deaths = [moment for process, moment in killed if process == number and moment >= served]
                end = ended.get(float(ticket)) or min(deaths)
                held.append(Held(number, int(ticket), Task(int(devices), seconds), asked, served, started, end))
    held.sort(key=lambda one: one.ticket)
    line = Desk(folder / "line").line()
    return Outcome(
        plan=plan,
        held=tuple(held),
        done=len(ended),
        doubles=tuple(path.name for path in folder.glob("double-*")),
        died=(len(held) - len(ended), len(killed)),
        took_s=max(one.ended for one in held) - min(began, *(one.asked for one in held)),
        left=len(line.tickets),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--deaths", type=int, default=100)
    parser.add_argument("--mean", type=float, default=0.2, help="seconds that a task takes, on average (default: 0.2)")
    parser.add_argument("--shares", default="1:1:1", help="how often 1, 2 and 8 devices are wanted (default: 1:1:1)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    one, two, eight = map(int, given.shares.split(":"))
    plan = Plan(given.processes, given.tasks, given.deaths, given.mean, (one, two, eight), given.seed)
    with tempfile.TemporaryDirectory() as folder:
        outcome = simulate(plan, Path(folder))
        idle = _idle(Path(folder) / "idle")
    waits = sorted(one.served - one.asked for one in outcome.held)
    longest, before = outcome.longest
    print(f"tasks done                        {outcome.done} of {plan.tasks}, by {plan.processes} processes")
    print(f"killed                            {outcome.died[1]}, {outcome.died[0]} of them with devices")
    print(f"devices that two had at once      {len(outcome.doubles)}")
    print(f"tasks that were overtaken         {outcome.overtaken}")
    print(f"tickets left in the line          {outcome.left}")
    print(
        f"time                              {outcome.took_s:.1f} s, {outcome.done / outcome.took_s:.1f} tasks a second"
    )
    print(f"used of all device time           {outcome.used:.1%}")
    print(f"used of what the rule allows      {outcome.used_of_possible:.1%} ({outcome.ideal_s:.1f} s)")
    print(f"waits: median, longest            {waits[len(waits) // 2]:.2f} s, {longest:.2f} s with {before} before it")
    print(f"waited beyond those before        {max(0.0, outcome.late):.2f} s at most")
    print(f"a lease that nobody else wants    {idle * 1000:.1f} ms, given back")


def _idle(folder: Path, times: int = 200) -> float:
    desk = Desk(folder)
    began = time.perf_counter()
    for _ in range(times):
        with desk.lease(Wanted("nothing", 1, DEVICES)):
            pass
    return (time.perf_counter() - began) / times


if __name__ == "__main__":
    main()
