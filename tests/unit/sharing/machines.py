"""Machines on which parts of a run were made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.cli import main
from pytest_researchenv.model import Cause, Environment, Tier, TierResult, Verdict
from pytest_researchenv.provenance import digest_of
from pytest_researchenv.store import Attempt, Store


__all__ = ["BASE", "IMAGE", "Machine"]

#: Whole: an engine takes the beginning of an id for the one image whose id begins so.
IMAGE, BASE = "sha256:" + "1" * 64, "sha256:" + "0" * 64

_TEXT = b"".join(b"line %06d\n" % number for number in range(2000))


@dataclass
class Machine:
    """A results folder, and what is done in it."""

    folder: Path

    @property
    def results(self) -> Path:
        """Its results."""
        return self.folder / "results"

    def build(self, repository: str = "suite/repo", *, agent: str = "agent", session: str = "") -> Attempt:
        """Record an environment with a transcript that is worth being packed."""
        attempt = Store(self.results, "default").begin(agent, repository, session or f"session of {self.folder.name}")
        with attempt.log(attempt.transcript) as write:
            write(_TEXT)
        attempt.save_report(b"{}")
        attempt.save_changes(())
        attempt.save_environment(
            Environment(
                key=attempt.key,
                image=IMAGE,
                base_image=BASE,
                workdir="/workspace/repo",
                report=None,
                report_problem="it is empty",
                changed=(),
                inputs={"source": "abc"},
                telemetry={"wall_s": 1.5},
                ended="exited with code 0",
                created="2026-01-01T00:00:00+00:00",
            )
        )
        return attempt

    def judge(self, attempt: Attempt, tier: Tier, verdict: Verdict = Verdict.PASSED) -> None:
        """Record a verdict, with its log."""
        log = attempt.next_log(tier)
        with attempt.log(log) as write:
            write(f"{tier} on {self.folder.name}\n".encode())
        cause = Cause.NONE if verdict is Verdict.PASSED else Cause.EXIT_CODE
        result = TierResult(
            tier,
            verdict,
            cause,
            log=log.name,
            snapshot=IMAGE,
            base_image=BASE,
            created="2026-01-01T00:00:00+00:00",
            log_digest=digest_of(log),
        )
        attempt.save_result(log, result)

    def export(self, name: str = "run.tar.gz") -> Path:
        """Export the run."""
        target = self.folder / name
        assert main(["export", "run", "--results", str(self.results), "-o", str(target)]) == 0
        return target

    def attempt(self, number: int, repository: str = "suite/repo") -> Path:
        """Folder of an attempt."""
        return self.results / f"default/agent/{repository}/attempt-{number:03d}"
