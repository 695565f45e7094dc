"""Slots on a real engine: as many at work at once as were allowed, whoever starts them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_researchenv.engine import Engine
from pytest_researchenv.leases.choice import AUTO, SharingSettings
from pytest_researchenv.sandbox.protocol import ContainerSpec
from pytest_researchenv.sandbox.ready import docker_engine


_log = logging.getLogger(__name__)


def _engine(folder: Path, slots: int) -> Engine:
    settings = SharingSettings(slots=slots, folder=folder, patience_s=120)
    return docker_engine("slots", image="", accelerator="cpu", say=_log.info, sharing=settings)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine on whose host one may work at a time."""
    made = _engine(tmp_path / "leases", 1)
    yield made
    made.close()


def test_with_one_slot_containers_run_one_after_another(engine: Engine) -> None:
    """Those of three threads, which would otherwise run at once."""
    spans: list[tuple[float, float]] = []
    spec = ContainerSpec(engine.base_image, argv=("sleep", "1"))

    def work(name: str) -> None:
        with engine.sharing.share(engine.hardware, name, devices=0), engine.sandbox.opened(spec) as container:
            began = time.monotonic()
            assert container.run(timeout_s=60).ok
            spans.append((began, time.monotonic()))

    threads = [threading.Thread(target=work, args=(f"work {number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    spans.sort()
    assert len(spans) == 3
    assert all(ended <= began for (_, ended), (began, _) in pairwise(spans))


def test_as_many_slots_as_the_engines_host_has_processors_for(tmp_path: Path) -> None:
    """One at least; asked of the engine, whose host may be another machine."""
    made = _engine(tmp_path / "leases", AUTO)
    try:
        assert made.sharing.slots >= 1
    finally:
        made.close()


def test_without_slots_and_devices_nothing_is_shared(tmp_path: Path) -> None:
    """As ever: no folder is made."""
    made = _engine(tmp_path / "leases", 0)
    try:
        with made.sharing.share(made.hardware, "work", devices=0):
            assert not (tmp_path / "leases").exists()
    finally:
        made.close()
