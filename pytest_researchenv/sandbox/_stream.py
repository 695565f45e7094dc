"""Streams from the container engine, read with bounded memory and a deadline."""

from __future__ import annotations

import contextlib
import io
import math
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from docker.errors import DockerException
from requests.exceptions import RequestException

from pytest_researchenv.errors import DevicesUnavailableError, SandboxError
from pytest_researchenv.sandbox.capture import Capture


if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from docker.types.daemon import CancellableStream


__all__ = ["ChunkReader", "Pump", "Stop", "engine_call", "hang_up"]

#: How often a silent process is asked whether it still runs, in seconds.
_QUIET_S = 1.0

#: How often room for the end of an overdue output is looked for, in seconds.
_POLL_S = 0.05

#: How long output may still come after the process has ended: a background child can hold its stdout for ever.
_GRACE_S = 5.0

#: How engines begin their answer when they know no way to give a container accelerators.
_NO_DEVICES = "could not select device driver"

#: Chunks that wait between reader and consumer; the engine sends at most 32 KiB each.
_WAITING = 64


@contextlib.contextmanager
def engine_call(what: str) -> Iterator[None]:
    """Turn what docker-py raises into `SandboxError`.

    Args:
        what: what is being done, as in "cannot <what>".
    """
    try:
        yield
    # Neither family is a subclass of the other: docker-py lets the errors of requests through.
    except (DockerException, RequestException) as error:
        reason = str(getattr(error, "explanation", None) or error)
        if reason.startswith(_NO_DEVICES):
            raise DevicesUnavailableError(
                f"cannot {what}: the container engine has no means to give accelerators ({reason}). Install the NVIDIA "
                "Container Toolkit on the engine's host, or run with --researchenv-accelerator=cpu."
            ) from error
        raise SandboxError(f"cannot {what}: {reason}") from error


def hang_up(process: subprocess.Popen[bytes]) -> None:
    """End the process that carries a connection over SSH, so that docker-py can close what it has of it."""
    process.kill()
    # What was not sent yet cannot be any more. docker-py would say goodbye where it is still open, and fail.
    with contextlib.suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr] # It is a pipe.
    process.wait()


class Stop:
    """Asks whether to stop, about once a second however often it is asked itself, and remembers a yes."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._asked = -math.inf
        #: Whether the answer was yes.
        self.stopped = False

    def __call__(self) -> bool:
        """Whether to stop."""
        if not self.stopped and time.monotonic() - self._asked >= _QUIET_S:
            self.stopped = self._wanted()
            self._asked = time.monotonic()
        return self.stopped


class Pump:
    """Carries a process's output from the engine's stream to a sink.

    A thread reads, since a read from the engine has no time limit; the sink is called in the caller's thread, so that
    what it raises reaches the caller.
    """

    def __init__(
        self, stream: CancellableStream[Any], capture: Capture, *, apart: tuple[Capture, Capture] | None = None
    ) -> None:
        """Prepare to carry.

        Args:
            stream: the engine's stream: of bytes, or of pairs (stdout, stderr) when it was asked to tell them apart.
            capture: takes everything, in the order it came.
            apart: take stdout and stderr, each alone.
        """
        self._stream = stream
        self._capture = capture
        self._apart = apart
        self._chunks: queue.Queue[tuple[int, bytes] | None] = queue.Queue(_WAITING)
        self._closed = threading.Event()
        self._overdue = threading.Event()
        self._thread = threading.Thread(target=self._read, name="researchenv-output", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        response = self._stream._response  # type: ignore[attr-defined] # noqa: SLF001 - docker-py has no public way.
        # Over SSH docker-py cannot cancel, and fails when it is asked to.
        if process := getattr(getattr(response.raw._fp.fp, "channel", None), "proc", None):  # noqa: SLF001 - likewise.
            hang_up(process)
        else:
            # The far end may have closed first.
            with contextlib.suppress(OSError, DockerException):
                self._stream.close()
        # The stream shuts its socket down, but leaves the file over it open.
        response.close()
        self._thread.join(_GRACE_S)

    def drop_the_rest(self) -> None:
        """Read on, but keep only what there is room for.

        Call it before the process is killed: the engine does not answer a kill while nobody reads the output of a
        process that prints without end (tried: `yes` was still running after 4 minutes).
        """
        self._overdue.set()

    def carry(self, *, deadline: float, ended: Callable[[], bool], stop: Callable[[], bool] = lambda: False) -> bool:
        """Feed the capture until the stream is at its end, or the process is.

        Args:
            deadline: when to give up, on the monotonic clock.
            ended: asks the engine whether the process has ended.
            stop: whether to give up before; asked at least once a second.

        Returns:
            Whether the end was reached before that.
        """
        asked = time.monotonic()
        last = deadline
        finished = False
        while (now := time.monotonic()) < last:
            if not finished and stop():
                return False
            try:
                chunk = self._chunks.get(timeout=min(last - now, _QUIET_S))
            except queue.Empty:
                if finished:
                    return True
                if finished := ended():
                    # What it printed last may have come while the engine was asked.
                    last = min(deadline, time.monotonic() + _GRACE_S)
                continue
            if chunk is None:
                return True
            self._feed(*chunk)
            if not finished and now - asked > _GRACE_S:
                asked = now
                if finished := ended():
                    last = min(deadline, now + _GRACE_S)
        return finished

    def _read(self) -> None:
        # A connection that breaks ends the stream like any other: whether the process has ended is asked elsewhere.
        with contextlib.suppress(DockerException, RequestException, ValueError):
            for chunk in self._stream:
                parts = chunk if isinstance(chunk, tuple) else (chunk,)
                if not all(self._put((number, part)) for number, part in enumerate(parts) if part):
                    return
        self._put(None)

    def _feed(self, number: int, part: bytes) -> None:
        self._capture.feed(part)
        if self._apart:
            self._apart[number].feed(part)

    def _put(self, chunk: tuple[int, bytes] | None) -> bool:
        while not self._closed.is_set():
            overdue = self._overdue.is_set()
            with contextlib.suppress(queue.Full):
                self._chunks.put(chunk, block=not overdue, timeout=_QUIET_S)
                return True
            if overdue and chunk is not None:
                return True
            if overdue:
                time.sleep(_POLL_S)
        return False


class ChunkReader(io.RawIOBase):
    """A readable binary file over the chunks of an answer of the engine."""

    def __init__(self, first: bytes, chunks: Iterator[bytes], what: str) -> None:
        super().__init__()
        self._chunks = chunks
        self._what = what
        self._rest = memoryview(first)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer from the next chunk."""
        while not self._rest:
            with engine_call(self._what):
                chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        view = memoryview(buffer).cast("B")
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
