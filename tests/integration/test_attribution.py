"""Whatever an agent does to its environment is a failure, never an error and never a pass, and the run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.model import UNFREEZABLE, Cause, FindingKind, Repository, Tier, Verdict
from pytest_researchenv.sandbox.protocol import Limits
from tests.choosing import mostly_slow


if TYPE_CHECKING:
    from tests.integration.conftest import Workshop


#: An honest report of a bare environment comes first.
PROLOGUE = """
report /usr/bin/python3 system ""
cd /
"""

PATH = {FindingKind.PATH}
NONE: set[FindingKind] = set()

#: What an agent may do → the categories of false claims that come of it.
SABOTAGE = {
    "interpreter deleted": ("rm -f /usr/bin/python3*", PATH),
    "interpreter a folder": ("rm /usr/bin/python3 && mkdir /usr/bin/python3", PATH),
    "working directory a file": ("rm -rf /workspace/needy && touch /workspace/needy", NONE),
    "repository a dangling link": ("rm -rf /workspace/needy && ln -s /nowhere /workspace/needy", NONE),
    "tracked folder a dangling link": ("rm -rf /workspace/needy/needy && ln -s /no /workspace/needy/needy", NONE),
    "workspace a link": ("mv /workspace /elsewhere && ln -s /elsewhere /workspace", NONE),
    "workspace a file": ("rm -rf /workspace && touch /workspace", NONE),
    "probes' folder a link": ("ln -s /nowhere /researchenv/probes", NONE),
    "libc removed": ("rm /lib/*/libc.so.6", PATH),
    "no programs": ("rm -rf /usr/bin/* /usr/sbin/* /usr/local/bin/*", PATH),
    "accounts FIFOs": ("rm /etc/passwd /etc/group && mkfifo /etc/passwd /etc/group", NONE),
    "accounts a folder": ("rm /etc/passwd && mkdir /etc/passwd", PATH),
    "preloaded garbage": ("echo garbage > /garbage && echo /garbage > /etc/ld.so.preload", NONE),
    "interpreter a link to itself": ("ln -sf python3 /usr/bin/python3", PATH),
    "interpreter a FIFO": ("rm /usr/bin/python3 && mkfifo /usr/bin/python3", PATH),
    "interpreter not executable": ("chmod 000 /usr/bin/python3.11", PATH),
    "working directory a FIFO": ("rm -rf /workspace/needy && mkfifo /workspace/needy", NONE),
    "repository a link to itself": ("rm -rf /workspace/needy && ln -s needy /workspace/needy", NONE),
    "workspace a dangling link": ("rm -rf /workspace && ln -s /nowhere /workspace", NONE),
    "probes' folder a file": ("touch /researchenv/probes", NONE),
    "loader removed": ("rm /lib64/*", PATH),
    "no usr": ("rm -rf /usr/* || :", PATH),
    "no etc": ("rm -rf /etc/* || :", NONE),
    "no accounts": ("rm /etc/passwd /etc/group /etc/shadow", NONE),
    "accounts a link to a FIFO": ("mkfifo /x && ln -sf /x /etc/passwd && ln -sf passwd /etc/group", NONE),
    "accounts without an end": ("ln -sf /dev/zero /etc/passwd", NONE),
    "name services FIFOs": ("cd /etc && rm -f nsswitch.conf localtime && mkfifo nsswitch.conf localtime", NONE),
    "nothing executable": ("chmod -R 000 / 2>/dev/null || :", PATH),
    "200 000 files": ("mkdir /many && cd /many && seq 200000 | xargs touch", NONE),
    "tmp a file": ("rm -rf /tmp && touch /tmp", NONE),
}

#: What every change is tried with.
ALWAYS = {
    "interpreter deleted",
    "working directory a file",
    "workspace a link",
    "libc removed",
    "no programs",
    "preloaded garbage",
}


@pytest.mark.parametrize("name", mostly_slow(SABOTAGE, but=ALWAYS))
def test_sabotage_fails_and_is_no_error(workshop: Workshop, needy: Repository, name: str) -> None:
    """C0 and C1 fail as they do without it, or because of it; C5 fails where the report has become untrue."""
    script, findings = SABOTAGE[name]

    environment = workshop.build(needy, PROLOGUE + script)

    for tier in (Tier.C0, Tier.C1):
        result = workshop.judge(environment, needy, tier)
        assert result.verdict is Verdict.FAILED, f"{tier}: {result}"
        assert result.reason
    c5 = workshop.judge(environment, needy, Tier.C5)
    assert {finding.kind for finding in c5.findings} == findings, c5
    assert c5.verdict is (Verdict.FAILED if findings else Verdict.PASSED)


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf /researchenv && ln -s /nowhere /researchenv",
        "rm -rf /researchenv && touch /researchenv",
        "rm -rf /researchenv && ln -s researchenv /researchenv",
        "rm -rf /researchenv",
    ],
    ids=["dangling", "file", "loop", "gone"],
)
def test_a_lost_report_folder_is_a_lost_report(workshop: Workshop, needy: Repository, script: str) -> None:
    """Without a report no tier passes, and each says why."""
    environment = workshop.build(needy, PROLOGUE + script)

    for tier in (Tier.C0, Tier.C1, Tier.C5):
        result = workshop.judge(environment, needy, tier)
        assert result.verdict is Verdict.FAILED
        assert result.cause in {Cause.NO_REPORT, Cause.INVALID_REPORT}, result
        assert "report" in result.reason


def test_folders_nested_deeper_than_a_path_may_be_long_are_no_error(workshop: Workshop, needy: Repository) -> None:
    """They can be frozen, probed and removed, although no process can name them."""
    deep = (
        "i=0; n=$(printf 'd%.0s' $(seq 200)); while [ $i -lt 40 ]; do mkdir $n && cd -P $n; i=$((i+1)); done; touch x"
    )

    environment = workshop.build(needy, f"{PROLOGUE}\n{deep}\n cd -P /workspace/needy; {deep}")

    assert environment.report is not None
    assert workshop.judge(environment, needy, Tier.C0).verdict is Verdict.FAILED
    assert workshop.judge(environment, needy, Tier.C1).verdict is Verdict.FAILED


def test_a_sparse_file_fills_no_disk(workshop: Workshop, needy: Repository) -> None:
    """It would be written out in full: nothing is frozen, each tier fails and says why."""
    environment = workshop.build(needy, f"{PROLOGUE}\ntruncate -s 1T /big")

    for tier in (Tier.C0, Tier.C1, Tier.C5):
        result = workshop.judge(environment, needy, tier)
        assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
        assert UNFREEZABLE in result.reason
        assert "1099511" in result.reason


def test_an_agent_that_ends_its_own_container_fails(workshop: Workshop, needy: Repository) -> None:
    """Killing the idle process ends the agent's own work, and no more."""
    environment = workshop.build(needy, PROLOGUE + "kill -9 -1")

    assert environment.report is not None
    assert workshop.judge(environment, needy, Tier.C1).verdict is Verdict.FAILED


def test_a_deadline_with_the_accounts_gone_hangs_nothing(workshop: Workshop, needy: Repository) -> None:
    """At the deadline the container is started again, which must not wait for a FIFO."""
    script = PROLOGUE + "rm /etc/passwd; mkfifo /etc/passwd; sleep 60"

    environment = workshop.build(needy, script, timeout_s=3)

    assert "timed out" in environment.ended
    assert workshop.judge(environment, needy, Tier.C1).verdict is Verdict.FAILED


def test_a_full_disk_quota_is_said(workshop: Workshop, needy: Repository) -> None:
    """What an agent wrote beyond its limit is not frozen."""
    workshop.limits = Limits(disk_bytes=50_000_000)

    environment = workshop.build(needy, PROLOGUE + "head -c 80000000 /dev/zero > /big")

    assert "80" in environment.report_problem
    assert workshop.judge(environment, needy, Tier.C1).cause is Cause.BROKEN_ENVIRONMENT


def test_an_engine_that_is_at_fault_is_an_error(workshop: Workshop, needy: Repository) -> None:
    """The other way round: without the base image to compare with, nobody is blamed."""
    environment = workshop.build(needy, PROLOGUE)
    workshop.engine.sandbox.remove_image(environment.image)

    with pytest.raises(InfrastructureError):
        workshop.judge(environment, needy, Tier.C1)
