"""Which container engines a session works with, by their Docker contexts."""

from __future__ import annotations

import os

import pytest

from pytest_researchenv.errors import DaemonUnavailableError


__all__ = ["engines_option"]


def engines_option(config: pytest.Config) -> list[str]:
    """Return the Docker contexts of the container engines to work with; none for the usual engine.

    Raises:
        pytest.UsageError: there is no such context.
    """
    given = config.getoption("--researchenv-docker") or os.environ.get("RESEARCHENV_DOCKER", "").split()
    names = list(dict.fromkeys(given or config.getini("researchenv_docker")))
    if names:
        # Docker is imported where contexts have to be read, and nowhere else.
        from pytest_researchenv.sandbox.daemon import context_address  # noqa: PLC0415

        try:
            for name in names:
                context_address(name, "--researchenv-docker")
        except DaemonUnavailableError as error:
            raise pytest.UsageError(str(error)) from error
    return names
