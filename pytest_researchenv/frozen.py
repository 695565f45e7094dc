"""Frozen images of a results folder: those that nobody recorded, and those that are kept no more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.model import EnvironmentKey, Eviction
from pytest_researchenv.provision import image_reference
from pytest_researchenv.runs.folders import ATTEMPT
from pytest_researchenv.store import Attempt


__all__ = ["evict", "sweep"]

_log = logging.getLogger(__name__)

_ATTEMPT_LABEL = "researchenv.attempt"

#: Run, agent and repository at least, then the attempt.
_FEWEST = 4


def sweep(engine: Engine, results: Path) -> list[str]:
    """Remove images that processes froze which died before they could record them, or while they removed them.

    Images of other results folders stay, and so do those of attempts whose folder is gone: it may have been moved.

    Returns:
        Names of what was removed.

    Raises:
        SandboxError: the engine does not answer.
    """
    removed = []
    for name in _unrecorded(engine, results):
        # Another session may be at it, or something may use it.
        with suppress(SandboxError):
            engine.sandbox.remove_image(name)
            removed.append(name)
    if removed:
        _log.info("removed frozen images that no record names: %s", ", ".join(removed))
    return removed


def evict(engine: Engine, attempt: Attempt, *, policy: str, session: str) -> Eviction | None:
    """Remove the frozen image of an environment that was judged; None where there is nothing to remove.

    Recorded first: if this process dies between the two, the next sweep removes the image.

    Args:
        engine: where it is.
        attempt: whose it is.
        policy: `--researchenv-keep` as it was given.
        session: id of this pytest session.

    Raises:
        SandboxError: the engine refuses, for example since something uses the image; it is not evicted then.
        StoreError: the record cannot be written.
    """
    environment = attempt.environment()
    if environment is None or not engine.sandbox.image_exists(environment.image):
        return None
    eviction = Eviction(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        policy=policy,
        image=environment.image,
        freed_bytes=int(environment.telemetry.get("added_image_bytes", 0)),
        session=session,
    )
    attempt.save_eviction(eviction)
    try:
        engine.sandbox.remove_image(environment.image)
    except SandboxError:
        attempt.forget_eviction()
        raise
    return eviction


def _unrecorded(engine: Engine, results: Path) -> Iterator[str]:
    for name, labels in engine.orphans():
        attempt = _attempt(results, labels.get(_ATTEMPT_LABEL, ""))
        # The name tells one results folder's from another's.
        if attempt is None or image_reference(attempt) != name or not (attempt.folder / "attempt.json").exists():
            continue
        if not attempt.finished or attempt.evicted:
            yield name


def _attempt(results: Path, label: str) -> Attempt | None:
    parts = PurePosixPath(label).parts
    number = ATTEMPT.fullmatch(parts[-1]) if len(parts) >= _FEWEST and ".." not in parts else None
    if number is None or label.startswith("/"):
        return None
    key = EnvironmentKey(parts[0], parts[1], "/".join(parts[2:-1]), int(number[1]))
    return Attempt(key, results / label)
