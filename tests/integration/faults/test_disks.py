"""Disks that are full or cannot be written, of the results and of the engine: an error with the numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.faults.place import DEADLINE_S, FaultPlace
from tests.integration.faults.surviving import Before, goes_on
from tests.integration.second import SecondEngine, missing_for_a_second_engine, second_engine


pytestmark = pytest.mark.slow


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of so many bytes in a folder."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "researchenv-test", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _fill(folder: Path) -> Callable[[], object]:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler.unlink


def _forbid(folder: Path) -> Callable[[], object]:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    return lambda: subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(_fill, "No space left on device", id="full"),
        pytest.param(_forbid, "Read-only file system", id="read-only"),
    ],
)
def test_results_that_cannot_be_written(
    place: FaultPlace, second: SecondEngine, spoil: Callable[[Path], Callable[[], object]], says: str
) -> None:
    """It is an error that names the folder; what was recorded stays, and with room the next session goes on."""
    before = Before(second)
    with _small_disk(place.results, "4m"):
        with place.session(PROBE="sleep 3") as process:
            place.await_line("probing one", process)
            mend = spoil(place.results)
            printed, _ = process.communicate(timeout=DEADLINE_S)

        assert process.returncode == pytest.ExitCode.TESTS_FAILED, printed
        assert place.outcomes() == {"one": "error", "two": "error"}, printed
        assert says in printed
        assert str(place.results) in printed
        mend()
        goes_on(place, second, before)


def test_an_engine_whose_disk_becomes_full(tmp_path: Path, base_name: str) -> None:
    """The agent is ended before everything breaks, with an error that says the numbers; with room it goes on."""
    if missing := missing_for_a_second_engine():
        pytest.skip(missing)
    store = tmp_path / "engine"
    (store / "root").mkdir(parents=True)
    # Twice the base image with the tools, and half a GiB of what no agent may take.
    with _small_disk(store / "root", "2500m"), second_engine(store, base_name) as second:
        place = FaultPlace(tmp_path, docker_host=second.url, repositories=("one",))
        code, printed = place.run("--collect-only")
        assert code == 0, printed
        before = Before(second)

        code, printed = place.run(AGENT="head -c 8G /dev/zero > /root/filler || true; sleep 30")

        assert place.outcomes() == {"one": "error"}, printed
        assert "the engine's disk is full" in printed
        assert "of 2.4 GiB free" in printed
        assert second.things()["containers"] == []
        assert shutil.disk_usage(store / "root").free > 2**29
        goes_on(place, second, before)
