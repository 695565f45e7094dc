"""Have something of an attempt looked at, and record what comes of it at once, be it an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, TypeVar

from pytest_researchenv.errors import InfrastructureError, ResearchEnvError
from pytest_researchenv.model import Environment
from pytest_researchenv.packedlogs import pack_log
from pytest_researchenv.provenance import harness_identity
from pytest_researchenv.store import Attempt


__all__ = ["Stamp", "recorded", "stamp_of"]

_Found = TypeVar("_Found")


class Stamp(TypedDict):
    """What every record says of how it came about; `TierResult` says what each is."""

    basis: str
    dataset: str
    session: str
    created: str
    snapshot: str
    base_image: str
    harness: str


def stamp_of(environment: Environment, *, basis: str, dataset: str, session: str) -> Stamp:
    """Return the stamp of what is found just now.

    Args:
        environment: what was looked at.
        basis: digest of what it is judged by.
        dataset: digest of the suite.
        session: id of this session.
    """
    return Stamp(
        basis=basis,
        dataset=dataset,
        session=session,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        snapshot=environment.image,
        base_image=environment.base_image,
        harness=harness_identity(),
    )


def recorded(
    attempt: Attempt,
    subject: str,
    look: Callable[[Callable[[bytes], object]], _Found],
    *,
    broken: Callable[[str], _Found],
    stamp: Callable[[_Found, str, float], _Found],
    save: Callable[[Path, _Found], _Found],
) -> _Found:
    """Look, and return what was found as it is recorded.

    Args:
        attempt: whose folder the log and the record go into; the subject's lock is held.
        subject: the beginning of their names.
        look: finds something, and writes to the log.
        broken: makes of a message what is recorded where nothing could be found.
        stamp: says in what was found how it came about; gets the log's name, and how long it took in seconds.
        save: records it beside the log as that is now.

    Raises:
        InfrastructureError: nothing could be found; recorded.
        ResearchEnvError: likewise, with what `look` raised.
    """
    log = attempt.next_log(subject)
    started = time.monotonic()

    def keep(found: _Found) -> _Found:
        return save(log, stamp(found, log.name, time.monotonic() - started))

    def fail(message: str) -> None:
        keep(broken(message))
        pack_log(log)

    try:
        with attempt.log(log) as append:
            kept = keep(look(append))
        # No crash may lose a verdict that is known, and only a log that was closed is whole.
        kept = save(log, kept)
    except ResearchEnvError as error:
        fail(str(error))
        raise
    # The boundary: whatever else breaks is a defect of ours, and no verdict.
    except Exception as error:
        message = f"unexpected {type(error).__name__}: {error}; please report it"
        fail(message)
        raise InfrastructureError(message) from error
    pack_log(log)
    return kept
