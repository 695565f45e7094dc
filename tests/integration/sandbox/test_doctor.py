"""What the doctor asks a real engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from pytest_researchenv.doctor.devices import device_findings
from pytest_researchenv.doctor.disk import engine_disk, room_of
from pytest_researchenv.doctor.engine import LookedAt, engine_findings
from pytest_researchenv.doctor.values import State


@pytest.fixture
def engine(base_image: str) -> Iterator[LookedAt]:
    """The engine, reached; with a base image."""
    engine = LookedAt()
    assert [found.name for found in engine_findings(engine)] == ["container engine", "storage driver"]
    assert engine.base_image()
    assert base_image
    with contextlib.closing(engine):
        yield engine


def test_room_is_seen_through_a_container_where_the_folder_is_not_here(
    engine: LookedAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of the disk that the engine stores on; the container goes again."""
    direct = room_of(engine.root) if engine.here else None
    monkeypatch.setattr(LookedAt, "here", False)
    (found,) = engine_disk(engine)

    assert found.state is not State.SKIPPED
    assert "of the engine's host" in found.value
    if direct:
        # Others write meanwhile; the size of the disk stays.
        assert f" of {direct.total / 1024**3:.1f} GiB free" in found.value


def test_devices_are_asked_for_in_a_container(engine: LookedAt) -> None:
    """With what a session would find; without any, why."""
    found = device_findings(engine, "auto")[-1]

    assert found.name == "devices"
    assert found.state is State.OK or (found.state is State.WARNING and found.value.startswith("none: "))
