"""A child process on this host that asks for things by lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from pytest_researchenv.errors import InfrastructureError, ResearchEnvError


__all__ = ["Child", "child_process"]

_POLL_S = 0.5

#: How long what it has printed may take to be read once it was killed, in seconds.
_READ_S = 5.0


@dataclass(slots=True)
class Child:
    """The child process and its pipes."""

    process: subprocess.Popen[bytes]
    requests: int
    answers: int
    #: What kept its output from being taken.
    problem: ResearchEnvError | None = None
    _rest: bytes = b""

    def give(self, value: object) -> None:
        """Write one line to its stdin, and close it."""
        stdin = cast("IO[bytes]", self.process.stdin)
        # It may have ended at once; its own words say why.
        with contextlib.suppress(BrokenPipeError), stdin:
            stdin.write(json.dumps(value).encode() + b"\n")

    def answer(self, value: object) -> None:
        """Answer a request."""
        line = json.dumps(value).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            while line:
                line = line[os.write(self.answers, line) :]

    def request(self) -> dict[str, Any] | None:
        """Return the next request; None when there is none yet.

        Raises:
            EOFError: it ended.
            ResearchEnvError: its output could not be taken.
        """
        if self.problem:
            raise self.problem
        if b"\n" not in self._rest:
            if not select.select([self.requests], [], [], _POLL_S)[0]:
                return None
            if not (read := os.read(self.requests, 1 << 20)):
                raise EOFError
            self._rest += read
        line, newline, rest = self._rest.partition(b"\n")
        if not newline:
            return None
        self._rest = rest
        request: dict[str, Any] = json.loads(line)
        return request


@contextlib.contextmanager
def child_process(
    python: Path, script: Path, variables: Mapping[str, str], transcript: Callable[[bytes], object]
) -> Iterator[Child]:
    """Start a script in a session of its own, all of which is killed at the end of the block.

    Args:
        python: what runs it.
        script: the script; its arguments are the descriptors that it writes requests to and reads answers from.
        variables: its whole environment; its working directory is `HOME`.
        transcript: called with all that it prints.

    Raises:
        InfrastructureError: it cannot be started.
    """
    requests, its_requests = os.pipe()
    its_answers, answers = os.pipe()
    try:
        process = subprocess.Popen(
            [str(python), "-I", str(script), str(its_requests), str(its_answers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            cwd=variables["HOME"],
            pass_fds=(its_requests, its_answers),
            start_new_session=True,
        )
    except OSError as error:
        os.close(requests)
        os.close(answers)
        raise InfrastructureError(
            f"{python} cannot be started: {error}; remove its folder to have it made anew"
        ) from error
    finally:
        os.close(its_requests)
        os.close(its_answers)
    printed = cast("IO[bytes]", process.stdout)
    child = Child(process, requests, answers)
    reader = threading.Thread(target=_copy, args=(printed, transcript, child), daemon=True)
    reader.start()
    try:
        yield child
    finally:
        # Before it is waited for: until then its id is no other's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(timeout=_READ_S)
        os.close(requests)
        os.close(answers)
        printed.close()


def _copy(stream: IO[bytes], transcript: Callable[[bytes], object], child: Child) -> None:
    while chunk := os.read(stream.fileno(), 1 << 16):
        if child.problem is None:
            try:
                transcript(chunk)
            except ResearchEnvError as error:
                # Raised to who waits for the next request; the pipe must be read on, or the child hangs.
                child.problem = error
