"""Build and judge small environments for hours, and watch what must not grow.

    python -m benchmarks.soak --hours 2 --output docs/soak.md

One session works at the two repositories of `fixtures/suites/tiny`, each in there several times by names of its own,
with `noop` and `oracle`, again and again, and removes each environment once it is judged. Meanwhile memory and open
files of pytest's processes are looked at, and what the container engine holds. The session is ended by Ctrl-C. The page
gets a table, and a drawing beside it (needs matplotlib).

What is flat: over the last three quarters, the straight line that fits best grows by less than a twentieth of the mean,
and no container is left once the session is over. The controller's memory holds the outcome of every test, for pytest's
summary: it is told for each environment. The exit code is 1 where something grows.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from docker import DockerClient
from scipy import stats

from benchmarks.processes import family, resident_mib
from benchmarks.sessions import PYTEST
from pytest_researchenv.sandbox.daemon import connect


_ROOT = Path(__file__).parents[1]
_MIB = 1024**2

#: Of the mean, by which something may seem to grow.
_FLAT = 0.05

#: How often each repository is in the suite, and each agent works at it: 2376 environments, of which as many are worked
#: at as there is time for.
_COPIES, _ATTEMPTS = 6, 99


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment.

    Attributes:
        hours: since the start.
        environments: how many were judged or are being judged.
        controller_mib: resident memory of pytest's first process.
        workers_mib: of its workers, together.
        files: open files of all of them.
        containers: that the engine has, running or not.
        images: likewise.
        volumes: likewise.
        engine_mib: what the engine's images and volumes take on its disk.
        records_mib: what the results folder takes; it grows by what is recorded.
    """

    hours: float
    environments: int
    controller_mib: float
    workers_mib: float
    files: int
    containers: int
    images: int
    volumes: int
    engine_mib: float
    records_mib: float


#: What must not grow; memory of the controller is told apart.
_STEADY = ("workers_mib", "files", "containers", "images", "volumes", "engine_mib")


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _is_worker(pid: int) -> bool:
    # How execnet starts Python.
    return b"exec(eval(sys.stdin" in Path(f"/proc/{pid}/cmdline").read_bytes()


def sampled(process: int, client: DockerClient, results: Path, started: float) -> Sample:
    """Look at everything once."""
    controller, *others = family(process)
    workers = []
    for pid in others:
        try:
            if _is_worker(pid):
                workers.append((resident_mib(pid), _open_files(pid)))
        except FileNotFoundError:
            continue
    disk = client.df()
    volumes = disk["Volumes"] or []
    return Sample(
        hours=(time.monotonic() - started) / 3600,
        environments=sum(1 for _ in results.glob("*/*/*/*/attempt-*")),
        controller_mib=resident_mib(controller),
        workers_mib=sum(memory for memory, _ in workers),
        files=sum(files for _, files in workers) + _open_files(controller),
        containers=len(disk["Containers"] or []),
        images=len(disk["Images"] or []),
        volumes=len(volumes),
        engine_mib=(disk["LayersSize"] + sum(max(one["UsageData"]["Size"], 0) for one in volumes)) / _MIB,
        records_mib=sum(path.lstat().st_size for path in results.rglob("*") if path.is_file()) / _MIB,
    )


def suite(folder: Path) -> Path:
    """Make a suite that has each repository of the tiny one several times."""
    fixtures = _ROOT / "fixtures"
    shutil.copytree(fixtures / "repos", folder / "repos")
    made = folder / "suites/tiny"
    for name in ("needy", "plain"):
        for copy in range(_COPIES):
            one = shutil.copytree(fixtures / "suites/tiny" / name, made / f"{name}-{copy}")
            toml = (one / "repo.toml").read_text(encoding="utf-8")
            toml = re.sub(r'^name = "(.*)"$', rf'name = "\1-{copy}"', toml, count=1, flags=re.MULTILINE)
            (one / "repo.toml").write_text(toml, encoding="utf-8")
    for name in ("suite.toml", "test_pyramid.py"):
        shutil.copy(fixtures / "suites/tiny" / name, made)
    return made


def watched(hours: float, every_s: float, folder: Path, client: DockerClient) -> list[Sample]:
    """Run the session and look at it until the time is over."""
    results = folder / "results"
    command = [
        *(*PYTEST, "-q", "-n", "2", "--tb=no", "--color=no"),
        *(f"--researchenv-suite={suite(folder)}", "--researchenv-agent=noop", "--researchenv-agent=oracle"),
        *(f"--researchenv-attempts={_ATTEMPTS}", f"--researchenv-results={results}", "--researchenv-keep=none"),
    ]
    process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL)
    started = time.monotonic()
    samples = []
    try:
        while (time.monotonic() - started) / 3600 < hours:
            time.sleep(every_s)
            if process.poll() is not None:
                raise SystemExit(f"the session ended by itself, with code {process.returncode}")
            samples.append(sampled(process.pid, client, results, started))
            print(" ".join(f"{value:.4g}" for value in astuple(samples[-1])), flush=True)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=600)
    return samples


def growth(samples: Sequence[Sample], name: str) -> float:
    """By how much something grows over the last three quarters, as a share of its mean."""
    late = samples[len(samples) // 4 :]
    hours = [sample.hours for sample in late]
    values = [float(getattr(sample, name)) for sample in late]
    mean = sum(values) / len(values)
    line = stats.linregress(hours, values)
    return float(line.slope) * (hours[-1] - hours[0]) / mean if mean else 0.0


def page(samples: Sequence[Sample], left: int) -> tuple[str, bool]:
    """The page, and whether everything was flat.

    Args:
        samples: in the order of time.
        left: how many containers there are now beyond those before.
    """
    steady = {name: growth(samples, name) for name in _STEADY}
    flat = all(value < _FLAT for value in steady.values()) and not left
    first, last = samples[len(samples) // 4], samples[-1]
    judged = last.environments - first.environments
    per_environment = 1024 * (last.controller_mib - first.controller_mib) / max(judged, 1)
    names = [field.name for field in fields(Sample)]
    shown = samples[:: max(len(samples) // 12, 1)]
    rows = ["| " + " | ".join(f"{value:.4g}" for value in astuple(sample)) + " |\n" for sample in shown]
    grown = ", ".join(f"`{name}` {100 * value:+.1f} %" for name, value in steady.items())
    lines = [
        "# Hours of work",
        "",
        f"Written by `benchmarks/soak.py` on {datetime.now(UTC).date()}, {os.cpu_count()} cores.",
        f"{last.environments} environments in {last.hours:.2f} hours, two at a time: each was built, frozen, judged,",
        "recorded and removed.",
        "",
        f"{'Nothing grew.' if flat else '**Something grew.**'} Over the last three quarters, as a share of the mean:",
        f"{grown}. Containers left once the session had ended: {left}.",
        f"The controller's memory grew by {per_environment:.0f} KiB for each environment: what pytest keeps of its",
        "tests for the summary.",
        "",
        "![Memory, open files, containers and disk over time](images/soak.svg)",
        "",
        f"| {' | '.join(names)} |",
        f"|{' --- |' * len(names)}",
    ]
    return "\n".join(lines) + "\n" + "".join(rows), flat


def draw(samples: Sequence[Sample], place: Path) -> None:
    """Draw what was seen over time."""
    from matplotlib.figure import Figure  # type: ignore[import-not-found]  # noqa: PLC0415 - only who measures needs it.

    figure = Figure(figsize=(9, 9), layout="constrained")
    axes = figure.subplots(4, 1, sharex=True)
    hours = [sample.hours for sample in samples]
    parts = (
        ("memory, MiB", ("controller_mib", "workers_mib")),
        ("open files", ("files",)),
        ("in the engine", ("containers", "images", "volumes")),
        ("disk, MiB", ("engine_mib", "records_mib")),
    )
    for part, (label, names) in zip(axes, parts, strict=True):
        for name in names:
            part.plot(hours, [getattr(sample, name) for sample in samples], label=name)
        part.set_ylabel(label)
        part.set_ylim(bottom=0)
        part.legend(loc="lower right")
    axes[-1].set_xlabel("hours")
    figure.savefig(place)


def main() -> None:
    """Work, look, and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two looks (default: 30)")
    parser.add_argument("--output", type=Path, default=_ROOT / "docs/soak.md")
    given = parser.parse_args()
    # What is ignored, as by what shells start in the background, the session would ignore too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    client = connect()
    before = len(client.containers.list(all=True))
    with tempfile.TemporaryDirectory() as folder:
        samples = watched(given.hours, given.every, Path(folder), client)
    left = len(client.containers.list(all=True)) - before
    text, flat = page(samples, left)
    given.output.write_text(text, encoding="utf-8")
    draw(samples, given.output.parent / "images/soak.svg")
    sys.exit(not flat)


if __name__ == "__main__":
    main()
