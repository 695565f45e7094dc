"""What packed logs save, and how long a run takes to leave one machine and to come to another.

Writes a made-up run through the store once (44 repositories, 5 agents, 5 attempts, 6 tiers), with transcripts of a
given size, made of the given text or of this package's sources, and prints what lies on disk, and what `researchenv
export` and `import` take in processes of their own.

    python -m benchmarks.sharing [--attempts K] [--transcript KB] [--text FILE]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest_researchenv
from benchmarks.synthetic import AGENTS, make_run
from pytest_researchenv.packedlogs import log_place, pack_log
from pytest_researchenv.suite import find_suite, load_suite


_RUN = "made-up"


def filled(results: Path, text: bytes, size: int) -> None:
    """Give each attempt a transcript of so many bytes, and pack it; prints what that takes and saves."""
    content = (text * (size // len(text) + 1))[:size]
    plain = packed = 0
    took = 0.0
    for attempt in (results / _RUN).rglob("attempt-*"):
        log = attempt / "transcript.log"
        log_place(log).unlink(missing_ok=True)
        log.write_bytes(content)
        began = time.perf_counter()
        pack_log(log)
        took += time.perf_counter() - began
        plain += size
        packed += log_place(log).stat().st_size
    print(f"transcripts: {plain / 1e6:.0f} MB, packed {packed / 1e6:.0f} MB ({plain / packed:.1f} times less)")
    print(f"packed in {took:.1f} s, {plain / 1e6 / took:.0f} MB/s")


def measured(what: str, *arguments: str) -> None:
    """Run the command, and print what it took."""
    command = [sys.executable, "-m", "pytest_researchenv.cli", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    # An import ends with 1: that these transcripts are none that were recorded is told.
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode not in {0, 1}:
        raise SystemExit(f"{what}: failed")
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what} in {took:.1f} s, of which the processor was busy for {busy:.1f} s; ", end="")
    print(f"peak memory so far {after.ru_maxrss / 1024:.0f} MiB")


def main() -> None:
    """Make, pack, export, import."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("--attempts", type=int, default=5)
    parser.add_argument("--transcript", type=int, default=200, metavar="KB")
    parser.add_argument("--text", type=Path, help="what transcripts are made of")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results, archive = Path(folder, "results"), Path(folder, "run.tar.gz")
        repositories = load_suite(find_suite("researchenvbench")).repositories
        make_run(results, _RUN, repositories, agents=AGENTS, attempts=arguments.attempts, every_tier=True)
        sources = sorted(Path(pytest_researchenv.__file__).parent.rglob("*.py"))
        text = b"".join(path.read_bytes() for path in ([arguments.text] if arguments.text else sources))
        filled(results, text, arguments.transcript * 1000)
        files = [path for path in (results / _RUN).rglob("*") if path.is_file()]
        print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB")
        measured("exported", "export", "run", _RUN, "--results", str(results), "-o", str(archive))
        print(f"archive {archive.stat().st_size / 1e6:.0f} MB")
        for what in ("imported", "imported again"):
            measured(what, "import", str(archive), "--results", str(Path(folder, "here")), "--json")


if __name__ == "__main__":
    main()
