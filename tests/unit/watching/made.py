"""Folders of runs that go on, made up: the records are real, what they tell of is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from pytest_researchenv.manifest import Host, Manifest
from pytest_researchenv.model import Environment
from pytest_researchenv.recording.activity import ActivityLine, Closed, Opened, Working
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Began, Collected, Finished, Journal
from pytest_researchenv.recording.manifest import save_manifest
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.store import Attempt, Store


__all__ = ["NOW", "MadeRun", "dead_process"]

#: When everything happens, in seconds since 1970.
NOW = 1_800_000_000.0
_BEGAN = "2027-01-15T07:00:00+00:00"
_LINE: TypeAdapter[Opened | Working | Closed] = TypeAdapter(ActivityLine)


def dead_process() -> str:
    """What identifies a process of this machine that has lived."""
    code = "from pytest_researchenv.sandbox.labels import Owner; print(Owner.current('').process)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class MadeRun:
    """The folder of a run with one session, which this process works for."""

    def __init__(
        self, folder: Path, session: str = "20270115T070000-abc", agents: tuple[str, ...] = ("codex",)
    ) -> None:
        self.folder = folder
        self.session = session
        self.store = Store(folder.parent, folder.name)
        self.journal = Journal(folder, session)
        self.owner = Owner.current("")
        host = Host(self.owner.host, "Linux", "x86_64", 2, 1)
        self.manifest = Manifest(session, folder.name, ("pytest",), _BEGAN, agents, "h", "3.11", {}, host, None)
        save_manifest(folder, self.manifest)

    def activity(self, line: Opened | Working | Closed, worker: str = "main", *, at: float | None = None) -> Path:
        """Have a process say something, and renew its sign of life."""
        path = self.folder / f"activity-{self.session}-{worker}.jsonl"
        with path.open("ab") as file:
            file.write(_LINE.dump_json(line) + b"\n")
        os.utime(path, None if at is None else (at, at))
        return path

    def opened(self, worker: str = "main", *, at: float = NOW, limit: float | None = None, **other: str) -> Path:
        """Have a process begin."""
        who = {"host": self.owner.host, "process": self.owner.process} | other
        return self.activity(Opened(at, worker, who["host"], who["process"], 15.0, limit), worker, at=at)

    def collected(self, tests: int) -> None:
        """Say how many tests there are."""
        self.journal.append(Collected(tests, {"mine": "0" * 64}))

    def began(self, repository: str, tier: str, at: float = NOW, *, worker: str = "", trial: int = 1) -> str:
        """Have a test begin; returns its id."""
        test = f"test_{tier}[codex-{repository}-{trial}]"
        self.journal.append(Began(test, at, "codex", f"mine/{repository}", tier, trial, worker))
        return test

    def finished(
        self,
        test: str,
        outcome: Outcome = Outcome.PASSED,
        *,
        at: float = NOW,
        took_s: float = 1.0,
        message: str = "",
        **facts: str,
    ) -> None:
        """Have it finish."""
        repository, trial = test.partition("[codex-")[2].removesuffix("]").rsplit("-", 1)
        tier = test.partition("[")[0].removeprefix("test_")
        about = {"agent": "codex", "key": f"mine/{repository}", "tier": tier, "trial": trial, **facts}
        properties = tuple((f"researchenv_{name}", value) for name, value in about.items())
        self.journal.append(Finished(Entry(test, outcome, at - took_s, took_s, message, properties=properties)))

    def attempt(self, repository: str) -> Attempt:
        """Begin an attempt."""
        return self.store.begin("codex", f"mine/{repository}", self.session)

    def freeze(self, attempt: Attempt, **telemetry: float) -> None:
        """Have it leave an environment."""
        attempt.save_environment(
            Environment(
                attempt.key,
                "sha256:1",
                "sha256:0",
                "/workspace/x",
                None,
                "none",
                (),
                {},
                telemetry,
                "exited with code 0",
                "2027-01-15T08:00:00+00:00",
            )
        )

    def asked(self, attempt: Attempt, *, tokens: int = 1000, usd: float = 0.01) -> None:
        """Have it ask its model something."""
        usage = {"tokens_in": tokens - 100, "cache_read": 50, "cache_write": 0, "tokens_out": 50, "reasoning": 9}
        said = {"kind": "call", "usage": usage, "cost_usd": usd, "charged_usd": usd, "model": "m"}
        with attempt.requests.open("a") as file:
            file.write(json.dumps(said) + "\n")

    def end(self, exit_status: int = 0, **outcomes: int) -> None:
        """End the session."""
        ended = "2027-01-15T09:00:00+00:00"
        save_manifest(self.folder, replace(self.manifest, ended=ended, exit_status=exit_status, outcomes=outcomes))
