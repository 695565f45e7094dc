"""A folder in which pytest runs the tiny suite, as users run theirs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound
from junitparser import Properties
from junitparser.xunit2 import JUnitXml


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["FIXTURES", "Ran", "Workplace", "remove_frozen"]

#: No run of the tiny suite takes longer, in seconds.
_LIMIT_S = 600

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished pytest run of a suite.

    Attributes:
        folder: where it ran.
        code: pytest's exit code.
        text: all that it printed.
    """

    folder: Path
    code: int
    text: str

    @property
    def outcomes(self) -> dict[str, str]:
        """`C0 oracle-plain` → passed, failure or error, as the JUnit file says; skipped ones are left out."""
        found: dict[str, str] = {}
        for tests in JUnitXml.fromfile(str(self.folder / "out.xml")):
            for case in tests:
                tier, ident = _judged(case.name)
                outcome = str(case.result[0]._tag) if case.result else "passed"
                if outcome != "skipped":
                    found[f"{tier} {ident}"] = outcome
        return found

    @property
    def properties(self) -> dict[str, dict[str, str]]:
        """`C0 oracle-plain` → property without our prefix → value, as the JUnit file says."""
        found: dict[str, dict[str, str]] = {}
        for tests in JUnitXml.fromfile(str(self.folder / "out.xml")):
            for case in tests:
                tier, ident = _judged(case.name)
                properties = [item for group in case.iterchildren(Properties) for item in group]  # type: ignore[no-untyped-call] # its stubs say less than it does
                values = {str(item.name).removeprefix("researchenv_"): str(item.value) for item in properties}
                found[f"{tier} {ident}"] = values
        return found

    @property
    def tiers(self) -> dict[str, str]:
        """The outcomes of the six tiers alone."""
        return {name: outcome for name, outcome in self.outcomes.items() if not name.startswith("integrity")}

    def attempts(self) -> list[str]:
        """Every attempt's folder, relative to the results."""
        results = self.folder / "researchenv-results"
        return sorted(str(path.parent.relative_to(results)) for path in results.rglob("attempt.json"))

    def environment(self, attempt: str) -> dict[str, Any]:
        """What an attempt's record says."""
        path = self.folder / "researchenv-results" / attempt / "environment.json"
        return dict(json.loads(path.read_text()))


@dataclass
class Workplace:
    """Runs pytest on a copy of the tiny suite."""

    folder: Path
    client: DockerClient
    folders: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.prepare(self.folder)

    def prepare(self, folder: Path) -> Path:
        """Copy the suite, and what it names, into a folder."""
        shutil.copytree(FIXTURES, folder / "fixtures", ignore=shutil.ignore_patterns("__pycache__"))
        self.folders.add(folder)
        return folder

    def run(self, *arguments: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> Ran:
        """Run pytest there, with variables beside this process's own, and read what it wrote and printed."""
        folder = cwd or self.folder
        (folder / "out.xml").unlink(missing_ok=True)
        argv = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), "--junitxml=out.xml"]
        done = subprocess.run(
            [*argv, "--researchenv-suite", str(folder / "fixtures/suites/tiny"), *arguments],
            cwd=folder,
            env={**os.environ, **(environ or {})},
            check=False,
            timeout=_LIMIT_S,
            capture_output=True,
            text=True,
        )
        return Ran(folder, done.returncode, done.stdout + done.stderr)

    def clean(self) -> None:
        """Remove what was frozen."""
        for folder in self.folders:
            remove_frozen(self.client, folder)


def remove_frozen(client: DockerClient, folder: Path) -> None:
    """Remove the images of all environments that are recorded in a folder."""
    for record in folder.rglob("environment.json"):
        with suppress(ImageNotFound):
            client.images.remove(json.loads(record.read_text())["image"], force=True)


def _judged(name: str) -> tuple[str, str]:
    """Of a test's name, what was judged and whose: `C0`, `oracle-plain`."""
    found = re.fullmatch(r"test_(?:(c\d)_.*|(integrity))\[(.*)\]", name)
    if found is None:
        raise ValueError(f"no test of a suite: {name}")
    return (found[1] or "").upper() or found[2], found[3]
