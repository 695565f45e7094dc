"""How long a report takes, how much memory, how large it is, and how fast it opens.

Writes a made-up run through the store once (44 repositories, 5 agents, 5 attempts, 6 tiers: 6600 results), and then
prints what `researchenv report` takes in a process of its own, and Chromium to open the page.

    python -m benchmarks.report [--folder FOLDER] [--attempts K]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.browsing import browser, missing
from benchmarks.processes import family, together_mib
from benchmarks.synthetic import AGENTS, make_run
from pytest_researchenv.suite import find_suite, load_suite


_RUN = "made-up"

#: How often memory is looked at.
_LOOK_S = 0.05


def made(results: Path, attempts: int) -> None:
    """Write the run, unless it is there."""
    if (results / _RUN).exists():
        return
    repositories = load_suite(find_suite("researchenvbench")).repositories
    began = time.perf_counter()
    make_run(results, _RUN, repositories, agents=AGENTS, attempts=attempts, every_tier=True)
    print(f"made in {time.perf_counter() - began:.1f} s")


def built(results: Path, report: Path) -> None:
    """Build the report in a process of its own."""
    command = [sys.executable, "-m", "pytest_researchenv.cli", "report", _RUN, "--results", str(results)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, peak = time.perf_counter(), 0.0
    with subprocess.Popen([*command, "--output", str(report)], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, together_mib(family(process.pid)))
            time.sleep(_LOOK_S)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"the report was not built: exit code {process.returncode}")
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    pages = list(report.rglob("*.html"))
    total = sum(page.stat().st_size for page in pages)
    print(f"built in {took:.1f} s, of which the processor was busy for {busy:.1f} s")
    print(f"peak memory {peak:.0f} MiB, all of its processes together")
    print(f"page of the run {(report / 'index.html').stat().st_size / 1e6:.2f} MB")
    print(f"{len(pages)} pages, {total / 1e6:.1f} MB in all")


def opened(report: Path) -> None:
    """Open the page of the run three times."""
    if problem := missing():
        print(f"not opened: {problem}")
        return
    with browser() as chrome:
        for _ in range(3):
            chrome.get((report / "index.html").as_uri())
            loaded = chrome.execute_script(
                "const [one] = performance.getEntriesByType('navigation'); return one.loadEventEnd / 1000"
            )
            print(f"opened in {loaded:.2f} s")


def main() -> None:
    """Make, build, open."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("--folder", type=Path, help="where the made-up run is kept for the next time")
    parser.add_argument("--attempts", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        results = folder / "results"
        made(results, arguments.attempts)
        found = len(list((results / _RUN).rglob("C[0-5]-*.json")))
        print(f"{found} results of {len(list((results / _RUN).rglob('attempt.json')))} attempts")
        built(results, folder / "report")
        opened(folder / "report")


if __name__ == "__main__":
    main()
