"""The page about leases, whose commands are run; and what tells who holds and who waits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pytest_researchenv.declarations import _TEXTS
from pytest_researchenv.leases.choice import GpuChoice, SharingSettings
from pytest_researchenv.leases.sharing import shared
from pytest_researchenv.sandbox.labels import Owner
from tests.pages import DOCS, blocks_of, repeat
from tests.unit.leases.test_sharing import CUDA


def listed(folder: Path) -> subprocess.CompletedProcess[str]:
    """Ask who holds and who waits."""
    command = (sys.executable, "-m", "pytest_researchenv.leases", "--folder", str(folder))
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Every session prints what it shows."""
    for block in blocks_of((DOCS / "leases.md").read_text()):
        repeat(block, tmp_path, f"leases.md:{block.line}")


def test_the_page_names_options_that_there_are() -> None:
    """With their defaults."""
    page = (DOCS / "leases.md").read_text()
    named = dict(re.findall(r"`--researchenv-([a-z-]+)(?:=([^`]*))?`", page))

    assert {name.replace("-", "_") for name in named} <= _TEXTS.keys()
    assert {"gpus", "agent-gpus", "slots", "leases", "lease-timeout"} <= named.keys()
    assert f"--researchenv-lease-timeout={_TEXTS['lease_timeout'][0]}`" in page


def test_who_holds_is_told(tmp_path: Path) -> None:
    """Whose it is, what for and since when; a line that cannot be read is an error."""
    settings = SharingSettings(gpus=GpuChoice(), folder=tmp_path / "leases")
    hardware, sharing = shared(
        CUDA, settings, owner=Owner.current("run"), engine="ID", slots=0, variable=None, occupied=lambda _: {}
    )
    with sharing.share(hardware, "C4 of something", devices=2):
        done = listed(tmp_path / "leases")
    (folder,) = (tmp_path / "leases").iterdir()
    (folder / "line-000000000900.json").write_text("{")
    broken = listed(tmp_path / "leases")

    assert re.fullmatch(r"\w+'s C4 of something has had GPU-0, GPU-1 for \d+ s\n", done.stdout), done.stderr
    assert broken.returncode == 1
    assert "does not hold what was written there" in broken.stderr
