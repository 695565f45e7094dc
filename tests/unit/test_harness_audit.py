"""The harness and the audit: when an environment is audited, and which passes are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.integrity.protocol import Signs, Snapshot
from pytest_researchenv.model import (
    Cause,
    Examination,
    Finding,
    Sign,
    Tier,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from tests.unit.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with nothing in it."""
    return Lab(tmp_path)


class FakeCheck:
    """A check that sees what it is told to, and counts how often it was asked."""

    def __init__(self, signs: Signs, error: Exception | None = None) -> None:
        self.signs = signs
        self.error = error
        self.asked = 0

    def __call__(self, task: ProbeTask, snapshot: Snapshot) -> Signs:
        """Look."""
        del task, snapshot
        self.asked += 1
        if self.error:
            raise self.error
        return self.signs


STUB = Signs((Finding(Sign.STUB, "tinydep", "a distribution's", "nobody's"),), modules={"tinydep": "nobody's"})


def test_an_environment_is_audited_once_before_any_tier(lab: Lab) -> None:
    """A tier is judged knowing what the audit found; the audit of a frozen image holds for later sessions, too."""
    check = FakeCheck(Signs(blanked={"/usr/lib/python3/sitecustomize.py": ""}))
    lab.checks = (check,)

    first = lab.session().judge("fake", lab.repository, Tier.C1)
    lab.session().judge("fake", lab.repository, Tier.C1)

    assert check.asked == 1
    known = [task.audit for task in lab.probe.tasks]
    assert all(audit is not None and audit.blanked == check.signs.blanked for audit in known)
    assert all(audit is not None and audit.result.snapshot == first.result.snapshot for audit in known)
    assert first.result.verdict is Verdict.PASSED


def test_the_audits_own_test_looks_again(lab: Lab) -> None:
    """Chosen on the command line it is made anew, as tiers are, unless the run is continued."""
    check = FakeCheck(Signs())
    lab.checks = (check,)

    for continued in (False, False, True):
        judged = lab.session(continued=continued).judge("fake", lab.repository, Examination.INTEGRITY)
        assert judged.result.verdict is Verdict.PASSED

    assert check.asked == 2
    assert judged.folder is not None
    assert sorted(path.name for path in judged.folder.glob("integrity-*.json")) == [
        "integrity-001.json",
        "integrity-002.json",
    ]


def test_a_pass_that_could_be_forged_is_none(lab: Lab) -> None:
    """The tier fails as tampered, the audit fails with the finding, and what the probe said is kept."""
    lab.checks = (FakeCheck(STUB),)
    session = lab.session()

    tier = session.judge("fake", lab.repository, Tier.C1).result
    found = session.judge("fake", lab.repository, Examination.INTEGRITY).result

    assert (tier.verdict, tier.cause) == (Verdict.FAILED, Cause.TAMPERED)
    assert tier.evidence["probe_verdict"] == "passed"
    assert (found.verdict, found.cause, found.findings) == (Verdict.FAILED, Cause.TAMPERED, STUB.findings)


def test_a_defect_of_the_audit_is_an_error_and_no_verdict(lab: Lab) -> None:
    """A check that breaks gives neither passes nor failures; it is recorded, and the next session looks again."""
    lab.checks = (FakeCheck(Signs(), ValueError("a defect")),)

    with pytest.raises(InfrastructureError, match="unexpected ValueError: a defect"):
        lab.session().judge("fake", lab.repository, Tier.C1)
    lab.checks = (FakeCheck(Signs()),)
    again = lab.session().judge("fake", lab.repository, Tier.C1)

    assert again.result.verdict is Verdict.PASSED
    assert len(lab.probe.tasks) == 1


def test_a_standing_verdict_falls_when_the_audit_would_look_otherwise(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continued run judges again what rests on an audit by other checks."""
    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)
    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)
    assert len(lab.probe.tasks) == 1

    monkeypatch.setattr("pytest_researchenv.harness.audit_basis", lambda _: "other checks")
    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)

    assert len(lab.probe.tasks) == 2
