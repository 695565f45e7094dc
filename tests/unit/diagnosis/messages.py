"""Real messages with the rule that knows each, from the TOML files beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from pytest_researchenv.model import Cause, Environment, EnvironmentKey, SelfReport, Tier, TierResult, Verdict
from pytest_researchenv.probes.evidence import decisive_line


@dataclass(frozen=True)
class Sample:
    """One message, and the record that goes with it.

    Attributes:
        rule: name of the rule that must win.
        source: an issue, or the tool and version that printed it.
        log: what was printed.
        verdict: the record's.
        tier: the record's.
        cause: the record's.
        reason: the record's.
        decisive: the record's; found in the log when empty, as probes do.
        missing: what C0 misses.
        ended: how the agent's work ended.
        repository: short name of what was judged.
    """

    rule: str
    source: str
    log: str = ""
    verdict: Verdict = Verdict.FAILED
    tier: Tier = Tier.C1
    cause: Cause = Cause.EXIT_CODE
    reason: str = "the probe exited with code 1"
    decisive: str = ""
    missing: tuple[str, ...] = ()
    ended: str = "finished"
    repository: str = "repo"

    @property
    def result(self) -> TierResult:
        """The record."""
        # Without a self-report nothing was run, and the log is the agent's.
        ran = self.cause is not Cause.NO_REPORT
        return TierResult(
            self.tier,
            self.verdict,
            self.cause,
            self.reason,
            self.decisive or (decisive_line(self.log) if ran else ""),
            evidence={"missing": list(self.missing)} if self.missing else {},
        )

    @property
    def environment(self) -> Environment:
        """What was judged."""
        return environment(ended=self.ended, repository=self.repository)


def environment(*, ended: str = "finished", repository: str = "repo") -> Environment:
    """An environment that nothing is wrong with."""
    key = EnvironmentKey("run", "agent", f"suite/{repository}", 1)
    report = SelfReport(python_path="/opt/venv/bin/python")
    return Environment(key, "sha256:1", "sha256:0", f"/workspace/{repository}", report, "", (), {}, {}, ended, "")


def samples() -> list[Sample]:
    """Every sample."""
    return list(_samples())


def _samples() -> Iterator[Sample]:
    adapter = TypeAdapter(list[Sample])
    for path in sorted((Path(__file__).parent / "samples").glob("*.toml")):
        yield from adapter.validate_python(tomllib.loads(path.read_text("utf-8"))["samples"])
