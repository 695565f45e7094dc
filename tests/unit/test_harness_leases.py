"""The harness and leases: whose devices a probe has, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.errors import InfrastructureError, StaleEnvironmentError
from pytest_researchenv.hardware import Accelerator, Device, Hardware
from pytest_researchenv.leases.desk import Desk
from pytest_researchenv.leases.sharing import Share, Sharing
from pytest_researchenv.model import (
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.progress import Teller
from tests.unit.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with nothing in it."""
    return Lab(tmp_path)


@pytest.fixture
def shared_lab(lab: Lab, tmp_path: Path) -> Lab:
    """A lab on a host with two devices and one slot, whose agent is given none of them."""
    devices = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0)) for i in range(2))
    lab.hardware = Hardware(Accelerator.CUDA, devices)
    lab.sharing = Sharing(Desk(tmp_path / "leases" / "host", patience_s=5), devices, slots=1)
    lab.settings = replace(lab.settings, agent_gpus=0)
    return lab


def test_a_probe_has_its_devices_while_it_looks(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others see whose they are; afterwards they are free."""
    desk = shared_lab.sharing.desk
    assert desk
    seen: list[tuple[tuple[str, ...], list[str]]] = []

    def judge(task: ProbeTask) -> TierResult:
        with task.leased(1) as held:
            seen.append((held.hardware.uuids, [one.purpose for one in desk.line().tickets]))
        return TierResult(Tier.C1, Verdict.PASSED)

    monkeypatch.setattr(shared_lab.probe, "judge", judge)
    shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)

    assert seen == [(("GPU-0",), ["C1 of default/fake/thing/attempt-001"])]
    assert not desk.line().tickets


def test_no_lock_is_waited_for_while_devices_are_held(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for another tier in the block could wait for one who waits for these devices: it is refused at once."""

    def judge(task: ProbeTask) -> TierResult:
        with task.leased(1):
            assert task.result_of
            return task.result_of(Tier.C1)

    monkeypatch.setattr(shared_lab.probe, "judge", judge)

    with pytest.raises(InfrastructureError, match="holds a lease and would wait for the environment's lock"):
        shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)
    assert shared_lab.sharing.desk
    assert not shared_lab.sharing.desk.line().tickets


def test_how_many_devices_an_agent_is_given_shapes_its_environment(shared_lab: Lab) -> None:
    """Another number is another environment; without the option nothing is recorded, as ever."""
    shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)

    shared_lab.settings = replace(shared_lab.settings, agent_gpus=None)
    with pytest.raises(StaleEnvironmentError, match="agent_gpus: 0 then, nothing now"):
        shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)


def test_a_wait_for_devices_is_told_and_so_is_its_end(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks at a terminal sees what is waited for, and then that the tier is probed."""
    told: list[str] = []

    def share(hardware: Hardware, purpose: str, *, devices: int, say: Callable[[str], object]) -> Iterator[Share]:
        if purpose.startswith("C1"):
            say("waiting for 1 device")
        yield Share(hardware.first(devices))

    def judge(task: ProbeTask) -> TierResult:
        with task.leased(1):
            return TierResult(Tier.C1, Verdict.PASSED)

    monkeypatch.setattr(shared_lab.probe, "judge", judge)
    monkeypatch.setattr(Sharing, "share", lambda _self, *given, **named: contextmanager(share)(*given, **named))
    harness = shared_lab.session()
    harness._say = Teller(lambda phase: told.append(phase.name) if phase else None)
    harness.judge("fake", shared_lab.repository, Tier.C1)

    assert told[-3:] == ["probing C1", "waiting for 1 device", "probing C1"]
