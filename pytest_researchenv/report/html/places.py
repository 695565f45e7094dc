"""Where pages lie, and how they find one another."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import final
from urllib.parse import quote

from pytest_researchenv.model import EnvironmentKey


__all__ = ["INDEX", "Places"]

#: The page of what was run.
INDEX = "index.html"

_ENVIRONMENTS = "environments"


@final
@dataclass(frozen=True, slots=True)
class Places:
    """Places of the pages in a report's folder.

    Attributes:
        several_runs: whether it is of several runs, so that names of runs are part of places.
    """

    several_runs: bool = False

    def environment(self, key: EnvironmentKey) -> PurePosixPath:
        """Where the page of an environment lies."""
        run = (key.run,) if self.several_runs else ()
        return PurePosixPath(_ENVIRONMENTS, *run, key.agent, key.repository, f"attempt-{key.attempt:03d}.html")

    def address(self, key: EnvironmentKey) -> str:
        """Its address from the page of what was run."""
        return quote(os.fsencode(self.environment(key)))

    def home(self, key: EnvironmentKey) -> str:
        """The address of the page of what was run, from it."""
        return "../" * (len(self.environment(key).parts) - 1) + INDEX
