"""Everything that the audit looks at."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pytest_researchenv.integrity.answers import answers
from pytest_researchenv.integrity.archives import PublishedPackages
from pytest_researchenv.integrity.configuration import configuration
from pytest_researchenv.integrity.distributions import distributions
from pytest_researchenv.integrity.hiding import hiding
from pytest_researchenv.integrity.hooks import hooks
from pytest_researchenv.integrity.interpreter import interpreter
from pytest_researchenv.integrity.places import places
from pytest_researchenv.integrity.profiles import profiles
from pytest_researchenv.integrity.protocol import Check, Signs, Snapshot
from pytest_researchenv.integrity.published import PublishedRecords
from pytest_researchenv.integrity.releases import ReleasedLibraries
from pytest_researchenv.integrity.shadows import shadows
from pytest_researchenv.integrity.system import system
from pytest_researchenv.integrity.tree import tracked
from pytest_researchenv.integrity.upgrades import upgrades
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["all_checks"]


def all_checks(cache: Path) -> tuple[Check, ...]:
    """Return the checks of an audit.

    Args:
        cache: folder in which is kept what package indexes say of distributions, what archives of Debian have, and
            what CPython released.
    """
    return (
        tracked,
        partial(interpreter, libraries=ReleasedLibraries(cache)),
        system,
        partial(_upgraded, cache),
        hooks,
        partial(_configured, cache),
        partial(_installed, cache),
        profiles,
        shadows,
        hiding,
        places,
        answers,
    )


def _installed(cache: Path, task: ProbeTask, snapshot: Snapshot) -> Signs:
    # Its time limit is that of one audit.
    return distributions(task, snapshot, PublishedRecords(cache), PublishedPackages(cache))


def _upgraded(cache: Path, task: ProbeTask, snapshot: Snapshot) -> Signs:
    # Likewise.
    return upgrades(task, snapshot, PublishedPackages(cache))


def _configured(cache: Path, task: ProbeTask, snapshot: Snapshot) -> Signs:
    # Likewise.
    return configuration(task, snapshot, PublishedPackages(cache))
