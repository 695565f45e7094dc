"""What our own answers are known by: texts in every recipe and probe, and names in addresses.

Everything that tells how an environment is judged, or how a good one is made, holds the canary of its suite, or that of
this package. Neither a prompt nor anything that is put into an agent's container has one, so that whoever shows one had
it from the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import tomli

from pytest_researchenv.model import Repository


__all__ = ["OWN_NAMES", "PACKAGE_CANARY", "canaries_of", "without_canaries"]

#: Our own distribution and suites hold the answers. Their names are refused in every address.
OWN_NAMES = ("pytest-researchenv", "researchenvbench", "researchgym")

#: In the kit for probes, in the scripts that run beside them, and at the beginning of the package.
PACKAGE_CANARY = "pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212"

#: Shorter ones would be found by accident.
_LEAST = 16


def canaries_of(repository: Repository | None = None) -> Mapping[str, str]:
    """Return every canary that an agent must not show → whose it is: the package's, our suites', and the repository's.

    Args:
        repository: what an agent works at; its suite may be the user's own.
    """
    found = {PACKAGE_CANARY: "this package"} | {text: f"the suite {name}" for text, name in _shipped()}
    if repository is not None and repository.folder:
        text, name = _suite(Path(repository.folder).parent)
        found.setdefault(text, f"the suite {name}")
    return {text: whose for text, whose in found.items() if len(text) >= _LEAST}


def without_canaries(recipe: str, repository: Repository) -> str:
    """Return a recipe as it is handed to an agent: who is given an answer did not look for it.

    Its lines stay where they are, so that what a shell says of them can be read.
    """
    for canary in canaries_of(repository):
        recipe = recipe.replace(canary, "")
    return recipe


@cache
def _shipped() -> tuple[tuple[str, str], ...]:
    # It imports pydantic, which scripts alone do not need.
    from pytest_researchenv.suite import find_suite, suite_names  # noqa: PLC0415 - see above

    return tuple(_suite(find_suite(name)) for name in suite_names())


def _suite(folder: Path) -> tuple[str, str]:
    """Canary and name of a suite; empty where there is no suite or none that can be read: others say so."""
    # Named here, since `suite` is not imported.
    try:
        header = tomli.loads((folder / "suite.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return "", ""
    return str(header.get("canary", "")), str(header.get("name", ""))
