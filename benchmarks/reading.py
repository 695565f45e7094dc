"""How fast a run is read, and what is said of it worked out.

Makes a run of 5 agents with 5 attempts each at 44 repositories, six results and an audit to an attempt, each with as
much evidence as a usual C0; prints seconds, best of three, and the memory that it takes.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from pytest_researchenv.model import (
    Audit,
    Cause,
    Environment,
    EnvironmentKey,
    Examination,
    SelfReport,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.report.figures import statistics_tables
from pytest_researchenv.runs.reading import read_run
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.tries import agent_runs


_T = TypeVar("_T")
_CHOOSE = random.Random(0)  # noqa: S311 - a benchmark
_ENVIRONMENT = TypeAdapter(Environment)
_RESULT = TypeAdapter(TierResult)
_AUDIT = TypeAdapter(Audit)


def result(tier: Tier | Examination) -> TierResult:
    """Make a result, of which six in ten pass."""
    passed = _CHOOSE.random() < 0.6  # noqa: PLR2004 - any share
    missing = [f"module_{number}" for number in range(_CHOOSE.randrange(30))]
    return TierResult(
        tier,
        Verdict.PASSED if passed else Verdict.FAILED,
        Cause.NONE if passed else Cause.EXIT_CODE,
        reason="something about it " * 5,
        duration_s=12.5,
        evidence={
            "missing": missing,
            "published_ratio": f"{len(missing)}/65",
            "total": 65,
            "stand_ins": [],
            "unparsable": ["a/b.py"],
        },
        basis="0" * 64,
        audit="0" * 64,
        dataset="0" * 64,
        session="session",
        created="2026-01-02T03:04:05+00:00",
        snapshot="sha256:" + "0" * 64,
        base_image="sha256:" + "0" * 64,
        harness="0.1.0 " + "0" * 64,
        log_digest="0" * 64,
        accelerator="cuda",
        settings={"c0_max_missing": 0.0},
        seal="0" * 64,
    )


def environment(key: EnvironmentKey) -> Environment:
    """Make an environment with what its agent used."""
    return Environment(
        key,
        "sha256:" + "0" * 64,
        "sha256:" + "0" * 64,
        "/workspace/x",
        SelfReport(python_path="/usr/bin/python3", python_version="3.11.2"),
        "",
        (),
        {"source": "GitSource(...)", "prompt": "0" * 16, "image": "base"},
        {
            "wall_s": _CHOOSE.uniform(60, 3600),
            "tokens_in": 1e6,
            "tokens_out": 2e4,
            "requests": 80,
            "cost_usd": _CHOOSE.uniform(0.1, 3),
            "added_image_bytes": 5e9,
        },
        "finished",
        "2026-01-02T03:04:05+00:00",
        refused=("GET https://example.org/x",) * 10,
        records=dict.fromkeys(("report.json", "transcript.log", "trajectory.json"), "0" * 64),
    )


def make(root: Path, *, agents: int, repositories: int, attempts: int) -> int:
    """Write the run; return how many results of tiers it holds."""
    for agent in range(agents):
        for repository in range(repositories):
            for number in range(1, attempts + 1):
                name, key = f"agent-{agent}", f"researchenvbench/repository-{repository:02d}"
                folder = root / name / key / f"attempt-{number:03d}"
                folder.mkdir(parents=True)
                made = environment(EnvironmentKey(root.name, name, key, number))
                (folder / "attempt.json").write_text(json.dumps({"session": "session"}))
                (folder / "environment.json").write_bytes(_ENVIRONMENT.dump_json(made, indent=2))
                for tier in Tier:
                    found = replace(result(tier), log=f"{tier}-001.log")
                    (folder / f"{tier}-001.json").write_bytes(_RESULT.dump_json(found, indent=2))
                    (folder / f"{tier}-001.log").write_bytes(b"")
                audit = Audit(result(Examination.INTEGRITY))
                (folder / "integrity-001.json").write_bytes(_AUDIT.dump_json(audit, indent=2))
    return agents * repositories * attempts * len(Tier)


def best(work: Callable[[], _T]) -> tuple[float, _T]:
    """Return the least wall time of three, in seconds, and what came of it."""
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--repositories", type=int, default=44)
    parser.add_argument("--attempts", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "run")
        count = make(root, **vars(arguments))
        seconds, run = best(lambda: read_run(root))
        print(f"read: {count} results of {len(run.attempts)} attempts in {seconds:.2f} s")
        seconds, tables = best(lambda: statistics_tables(map(AgentStatistics.of, agent_runs(run))))
        print(f"worked out: {len(tables)} tables, {sum(len(table.rows) for table in tables)} rows in {seconds:.2f} s")
        tracemalloc.start()
        kept = read_run(root)
        print(f"memory: {tracemalloc.get_traced_memory()[0] / 2**20:.0f} MiB for {len(kept.attempts)} attempts")


if __name__ == "__main__":
    main()
