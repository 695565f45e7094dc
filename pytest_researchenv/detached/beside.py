"""What goes on beside the work at a research task: its beginning is recorded, archives are made, it may be ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import final

from pytest_researchenv.archiving.keeping import archived
from pytest_researchenv.detached.record import save_work, stop_requested
from pytest_researchenv.sandbox.protocol import Container
from pytest_researchenv.settings import Archiving
from pytest_researchenv.store import Attempt


__all__ = ["STOPPED", "BesideResearch"]

#: How an agent's work has ended that somebody has ended.
STOPPED = "stopped by the user"


@final
@dataclass(frozen=True, slots=True)
class BesideResearch:
    """Looks after one attempt while its agent works.

    Attributes:
        attempt: the attempt.
        workdir: the folder that is archived.
        limit_s: wall time limit of the work, in seconds.
        limit_usd: what it may spend, in US dollars; None for no limit, or no model.
        image: id of the frozen image that it begins from; empty where that is the base image.
        archiving: how often archives are made, and how large they may become.
    """

    attempt: Attempt
    workdir: str
    limit_s: float
    limit_usd: float | None
    image: str
    archiving: Archiving

    def __call__(self, container: Container) -> AbstractContextManager[Callable[[], str]]:
        """Begin."""
        return _looking(self, container)


@contextmanager
def _looking(beside: BesideResearch, container: Container) -> Iterator[Callable[[], str]]:
    attempt = beside.attempt
    save_work(attempt, beside.limit_s, beside.limit_usd, beside.image)
    with archived(container, beside.workdir, attempt.folder, beside.archiving):
        yield lambda: STOPPED if stop_requested(attempt) else ""
