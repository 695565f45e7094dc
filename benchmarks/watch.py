"""What it costs to watch a run, and to be watched: `python -m benchmarks.watch [--results N]`.

Makes the folder of a run that goes on: so many results (20,000), seven to an attempt, and sixteen workers at work, each
with an output that grows. Prints seconds of processor time: the first look, which reads all there is; a look when
nothing is new; one when every worker has said something and a test has ended; a picture, and drawing it; memory; and
what a test pays for saying what it does.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console

from benchmarks.reading import environment
from pytest_researchenv.manifest import Host, Manifest
from pytest_researchenv.model import Environment, EnvironmentKey, Examination, Tier
from pytest_researchenv.progress import Phase
from pytest_researchenv.recording.activity import ActivityLine, ActivityWriter, Opened, Working
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Began, Collected, Finished, Line
from pytest_researchenv.recording.manifest import save_manifest
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.watching.drawing import drawn
from pytest_researchenv.watching.watched import WatchedRun


_WORKERS = 16
_SUBJECTS = (*Tier, *Examination)
_SESSION = "20261101T000000-bench"
_JOURNAL: TypeAdapter[Began | Collected | Finished] = TypeAdapter(Line)
_ACTIVITY: TypeAdapter[Opened | Working] = TypeAdapter(ActivityLine)
_ENVIRONMENT = TypeAdapter(Environment)
_LOG = "something that a probe printed\n" * 100


class MadeRun:
    """The folder, and what goes on in it."""

    def __init__(self, root: Path, results: int) -> None:
        self.folder = root / "run"
        self._journal = self.folder / f"journal-{_SESSION}.jsonl"
        owner = Owner.current("")
        host = Host(owner.host, "Linux", "x86_64", 2, 1)
        started = "2026-11-01T00:00:00+00:00"
        save_manifest(
            self.folder, Manifest(_SESSION, "run", ("pytest",), started, ("agent-0",), "h", "3.11", {}, host, None)
        )
        self._opened(owner)
        with self._journal.open("ab") as journal:
            journal.write(_JOURNAL.dump_json(Collected(results * 2, {"suite": "0"})) + b"\n")
            for number in range(results // len(_SUBJECTS)):
                self._attempt(number)
                for subject in _SUBJECTS:
                    journal.write(self._began(number, subject, "gw0") + self._finished(number, subject))
            for worker in range(_WORKERS):
                self._attempt(10**6 + worker, over=False)
                journal.write(self._began(10**6 + worker, Tier.C0, f"gw{worker}"))

    def go_on(self, tick: int) -> None:
        """Have every worker say something, and one of them finish a test and begin another."""
        for worker in range(_WORKERS):
            phase = Working(time.time(), "agent-0", f"repository-{worker}", f"phase {tick}", 3600.0)
            self._say(f"gw{worker}", _ACTIVITY.dump_json(phase))
            attempt = self._folder(10**6 + worker)
            with (attempt / "transcript.log").open("a") as log:
                log.write("another line of output\n" * 50)
            with (attempt / "requests.jsonl").open("a") as requests:
                call = {"kind": "call", "usage": {"tokens_in": 900, "tokens_out": 100}, "cost_usd": 0.1}
                requests.write(json.dumps(call | {"charged_usd": 0.1}) + "\n")
        with self._journal.open("ab") as journal:
            journal.write(self._finished(10**6, Tier.C0) + self._began(10**6, Tier.C0, "gw0"))

    def _folder(self, number: int) -> Path:
        return self.folder / "agent-0" / "suite" / f"repository-{number}" / "attempt-001"

    def _attempt(self, number: int, *, over: bool = True) -> None:
        folder = self._folder(number)
        folder.mkdir(parents=True)
        (folder / "attempt.json").write_text(json.dumps({"session": _SESSION, "created": "2026-11-01T00:00:00+00:00"}))
        if over:
            made = environment(EnvironmentKey("run", "agent-0", f"suite/repository-{number}", 1))
            (folder / "environment.json").write_bytes(_ENVIRONMENT.dump_json(made, indent=2))

    def _opened(self, owner: Owner) -> None:
        for worker in ("main", *(f"gw{number}" for number in range(_WORKERS))):
            self._say(worker, _ACTIVITY.dump_json(Opened(time.time(), worker, owner.host, owner.process, 15.0)))

    def _say(self, worker: str, line: bytes) -> None:
        with (self.folder / f"activity-{_SESSION}-{worker}.jsonl").open("ab") as file:
            file.write(line + b"\n")

    def _began(self, number: int, subject: Tier | Examination, worker: str) -> bytes:
        about = ("agent-0", f"suite/repository-{number}", str(subject))
        return _JOURNAL.dump_json(Began(f"test_{subject}[{number}]", time.time(), *about, worker=worker)) + b"\n"

    def _finished(self, number: int, subject: Tier | Examination) -> bytes:
        about = {"agent": "agent-0", "key": f"suite/repository-{number}", "tier": str(subject), "reason": "because"}
        properties = tuple((f"researchenv_{name}", value) for name, value in about.items())
        test = f"test_{subject}[{number}]"
        entry = Entry(test, Outcome.FAILED, time.time(), 3.0, "failed", "details", properties, log=_LOG)
        return _JOURNAL.dump_json(Finished(entry)) + b"\n"


def cost(work: Callable[[], object]) -> float:
    """Return the processor time of something, in seconds."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def draw(run: WatchedRun) -> None:
    """Draw a picture, as for a terminal."""
    console = Console(file=Path(os.devnull).open("w"), width=120, height=40, force_terminal=True)  # noqa: SIM115
    console.print(drawn(run.picture(), width=120, height=40))


def measure(root: Path, results: int) -> None:
    """Make a run, and watch it."""
    made = MadeRun(root, results)
    run = WatchedRun(made.folder)
    begin = time.process_time()
    events = run.look()
    first = time.process_time() - begin
    size = sum(path.stat().st_size for path in made.folder.glob("journal-*")) / 2**20
    print(f"first look: {first:.2f} s for {results} results, {len(events)} events, a journal of {size:.0f} MiB")
    idle = min(cost(run.look) for _ in range(5))
    print(f"a look when nothing is new: {1000 * idle:.1f} ms")
    busy = []
    for tick in range(5):
        made.go_on(tick)
        busy.append(cost(run.look))
    print(f"a look when all {_WORKERS} workers have said something: {1000 * max(busy):.1f} ms")
    pictured = min(cost(run.picture) for _ in range(5))
    drawing = min(cost(lambda: draw(run)) for _ in range(5))
    print(f"a picture: {1000 * pictured:.1f} ms; with drawing it: {1000 * drawing:.1f} ms")
    refresh = max(busy) + drawing
    print(f"a refresh each second takes {100 * refresh:.1f} % of a processor, {refresh / first:.3f} of the first look")
    tracemalloc.start()
    again = WatchedRun(made.folder)
    again.look()
    print(f"memory: {tracemalloc.get_traced_memory()[0] / 2**20:.0f} MiB")
    tracemalloc.stop()


def watched_cost(root: Path) -> None:
    """What a test pays for saying what it does."""
    writer = ActivityWriter(root / "watched", "s", "")
    writer.start()
    count = 100_000
    begin = time.perf_counter()
    for number in range(count):
        writer.hear(Phase("agent", "repository", f"phase {number}"))
    took = time.perf_counter() - begin
    writer.close()
    print(
        f"to say a phase: {1e6 * took / count:.1f} microseconds; {writer.path.stat().st_size} bytes for {count} of them"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.results)
        watched_cost(Path(folder))


if __name__ == "__main__":
    main()
