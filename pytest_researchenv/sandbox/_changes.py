"""What a container differs in from its image, as the engine says it, read with bounded memory."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import ijson  # type: ignore[import-untyped] # It has no types.

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox._stream import ChunkReader, engine_call
from pytest_researchenv.sandbox.protocol import Change, ChangeKind


if TYPE_CHECKING:
    from docker.api import APIClient


__all__ = ["changes", "parsed"]

#: How long the engine may take to answer, in seconds: it walks all files before it does.
_PATIENCE_S = 900
#: Bytes that are read at once.
_BLOCK = 1 << 16

_KINDS = {0: ChangeKind.CHANGED, 1: ChangeKind.ADDED, 2: ChangeKind.REMOVED}


@contextlib.contextmanager
def changes(api: APIClient, container: str) -> Iterator[Iterator[Change]]:
    """Ask the engine. docker-py's own call for it keeps the whole answer, which can have millions of paths."""
    what = f"compare container {container[:12]} with its image"
    url = f"{api.base_url}/v{api.api_version}/containers/{container}/changes"
    with engine_call(what):
        answer = api.get(url, stream=True, timeout=_PATIENCE_S)
    with contextlib.closing(answer):
        if not answer.ok:
            raise SandboxError(f"cannot {what}: {answer.raw.read(_BLOCK, decode_content=True)!r}")
        yield parsed(io.BufferedReader(ChunkReader(b"", answer.iter_content(_BLOCK), what)))


def parsed(answer: IO[bytes]) -> Iterator[Change]:
    """Read the engine's answer: an array of objects, or null.

    Raises:
        SandboxError: it is no such thing.
    """
    try:
        for item in ijson.items(answer, "item"):
            yield Change(_KINDS[item["Kind"]], item["Path"])
    except (ijson.JSONError, KeyError, TypeError) as error:
        raise SandboxError(f"the engine's list of changes is damaged: {error}") from error
