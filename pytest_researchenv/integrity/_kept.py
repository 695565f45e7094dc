"""What was read of a publisher once, kept on disk for other audits."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout


__all__ = ["one_at_a_time", "read_kept", "write_kept"]


@contextmanager
def one_at_a_time(place: Path, patience_s: float) -> Iterator[None]:
    """Hold a file's lock; go on without it after a while, since to ask twice does no harm."""
    lock = FileLock(place.with_suffix(".lock"))
    with suppress(OSError, Timeout):
        place.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=max(0.0, patience_s))
    try:
        yield
    finally:
        lock.release()


def read_kept(place: Path) -> Mapping[str, str] | None:
    """What was kept; nothing where there is none, or what nobody wrote here."""
    try:
        kept = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or not all(isinstance(value, str) for value in kept.values()):
        return None
    return kept


def write_kept(place: Path, texts: Mapping[str, str]) -> None:
    """Keep it, if that can be done."""
    with suppress(OSError), tempfile.NamedTemporaryFile(dir=place.parent, suffix=".part", delete=False) as file:
        file.write(json.dumps(dict(texts)).encode())
        file.close()
        Path(file.name).replace(place)
