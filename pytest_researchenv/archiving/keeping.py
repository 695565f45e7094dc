"""Takes archives at intervals while an agent works. What goes wrong with one harms neither the work nor the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_researchenv.archiving.taking import CancelledError, take_archive
from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.sandbox.protocol import Container
from pytest_researchenv.settings import Archiving


__all__ = ["archived"]

_log = logging.getLogger(__name__)

#: How long the end of the work waits for an archive that is being taken, in seconds: a file's block, as a rule.
_JOIN_S = 2.0


@contextmanager
def archived(container: Container, root: str, folder: Path, archiving: Archiving) -> Iterator[None]:
    """Take archives of a folder at intervals until the end of the block.

    Args:
        container: the agent's, at work.
        root: absolute path of the folder in it.
        folder: the attempt's, on this host.
        archiving: how often, and how large.
    """
    if not archiving.interval_s:
        yield
        return
    ending = threading.Event()

    def keep() -> None:
        while not ending.wait(archiving.interval_s):
            try:
                take_archive(
                    container, root, folder, most_bytes=archiving.most_bytes, wanted=lambda: not ending.is_set()
                )
            except CancelledError:
                return
            except ResearchEnvError as error:
                _log.warning("no archive of %s: %s", folder, error)
            # The boundary: an archive that could not be taken is no reason to stop.
            except Exception:  # noqa: BLE001 - see above
                _log.exception("no archive of %s", folder)

    thread = threading.Thread(target=keep, name="researchenv-archive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(_JOIN_S)
