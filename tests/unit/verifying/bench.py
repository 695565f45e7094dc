"""A finished run over a fake engine, and what verifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pytest_researchenv.engine import Engine
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Examination, Tier
from pytest_researchenv.provenance import seal_of
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.suite import load_suite
from pytest_researchenv.verifying.attempts import Chosen, Verified, attempts_of, verified
from pytest_researchenv.verifying.rejudging import Again, Rejudging
from tests.unit.lab import Lab


__all__ = ["Bench", "again", "only", "sole"]

_REPO = """name = "owner/thing"

[source]
path = "../../repo"

[tiers.C1]
argv = ["x"]
timeout_s = {timeout}
evidence = {{ output = ["x"] }}

[tiers.C2]
"""


class Bench:
    """A run with one attempt, of which C1 and the audit are judged."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(folder)
        self.suite = folder / "suite"
        (self.suite / "thing").mkdir(parents=True)
        (self.suite / "suite.toml").write_text('name = "mine"\n')
        self.describe(timeout=60)
        self.lab.folder = folder / "results/default/fake/mine/thing"
        self.results = folder / "results"
        self.attempt = self.lab.folder / "attempt-001"

    def describe(self, *, timeout: int) -> None:
        """Write the repository's description, and read it."""
        (self.suite / "thing/repo.toml").write_text(_REPO.format(timeout=timeout))
        self.lab.repository = load_suite(self.suite).repositories[0]

    def run(self, *, rebuild: bool = False) -> None:
        """Have an environment built where there is none, and judged."""
        harness = self.lab.session(rebuild=rebuild)
        for subject in (Tier.C1, Examination.INTEGRITY):
            harness.judge("fake", self.lab.repository, subject)

    def verify(self, *, rejudge: bool = True, tiers: Collection[Tier | Examination] = ()) -> list[Verified]:
        """Verify all of it."""
        chosen = Chosen(tiers=tiers)
        return list(
            verified(
                attempts_of(self.results, "default", chosen),
                chosen,
                sandbox=self.lab.sandbox,
                rejudging=self.rejudging() if rejudge else None,
            )
        )

    def check(self) -> list[Verified]:
        """Check the records alone."""
        return self.verify(rejudge=False)

    def rejudging(self) -> Rejudging:
        """What judges again, knowing the suite as it is now."""

        def engine(accelerator: Accelerator, image: str) -> Engine:
            assert accelerator is Accelerator.CPU
            return Engine(self.lab.sandbox, image, "", (), {}, Mount("tools", "/researchenv/tools"))

        return Rejudging(
            engine,
            {repository.key: repository for repository in load_suite(self.suite).repositories},
            probes={self.lab.probe.tier: self.lab.probe},
            cache=self.lab.settings.cache,
            redactor=lambda: Redactor(()),
            checks=self.lab.checks,
        )

    def edit(self, name: str, change: Callable[[dict[str, Any]], object], *, seal: bool = False) -> None:
        """Edit a record of the attempt, and seal it again if that is wanted."""
        path = self.attempt / name
        record = json.loads(path.read_text())
        change(record)
        if seal:
            place = record.get("result", record)
            place["seal"] = seal_of(record)
        path.write_text(json.dumps(record))

    def files(self) -> dict[str, str]:
        """Every file of the results → its digest."""
        return {
            str(path.relative_to(self.results)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.results.rglob("*")
            if path.is_file()
        }


def only(every: list[Verified]) -> Verified:
    """The only attempt."""
    assert len(every) == 1
    return every[0]


def again(one: Verified) -> dict[str, Again]:
    """What became of each verdict of an attempt when it was judged again."""
    return {str(verdict.stored.tier): verdict.again for verdict in one.verdicts}


def sole(one: Verified) -> str:
    """The only thing that was altered."""
    assert len(one.altered) == 1, one.altered
    return one.altered[0]
