"""Calls of handed-in code: each in a process of its own, with a deadline, and files as its only way in and out."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from judging.access import Allowed, Trespass, trespasses
from judging.contained import THEIRS, end_all, memory_kills
from judging.reading import plain_bytes


__all__ = ["Broken", "Calls", "Files", "opened"]

Files = dict[str, bytes]

_DRIVER = Path(__file__).with_name("child.py")
_OUTPUT_BYTES = 64 * 1024 * 1024
_LOG_BYTES = 16 * 1024 * 1024


class Broken(Exception):  # noqa: N818 - it says what is broken: the handed-in code, and not the evaluation.
    """Handed-in code did not do what it has to.

    Attributes:
        check: name of the check.
        what: what was seen.
    """

    def __init__(self, check: str, what: str) -> None:
        super().__init__(f"{check}: {what}")
        self.check = check
        self.what = what


@dataclass(slots=True)
class Calls:
    """Calls of one copy of the code.

    Attributes:
        code: the copy: nobody but this process may write to it.
        scratch: where each call gets a folder, which goes when the call is over.
        python: interpreter of the environment that is judged.
        deadline_s: seconds that one call may take.
        user: number of the user that code runs as; None for this process's own.
        variables: what is added to the environment.
        contained: whether nothing else runs as that user, so that all its processes are ended after each call.
        seen: what the code did that it may not.
    """

    code: Path
    scratch: Path
    python: str
    deadline_s: float
    user: int | None
    variables: Mapping[str, str] = field(default_factory=dict)
    contained: bool = False
    seen: list[Trespass] = field(default_factory=list)

    def run(self, module: str, files: Files, *arguments: str, outputs: tuple[str, ...]) -> Files:
        """Run a module, and return the files that it left in `out`.

        Args:
            module: what to run.
            files: what its folder holds.
            arguments: its arguments; `{folder}` stands for that folder.
            outputs: names of the files that have to be there afterwards.

        Raises:
            Broken: it failed, took too long, or left something else.
        """
        with tempfile.TemporaryDirectory(prefix="call-", dir=self.scratch) as made:
            folder = Path(made)
            self._lay(folder, files)
            self._finish(module, folder, arguments)
            return {name: _output(folder / "out" / name) for name in outputs}

    def _lay(self, folder: Path, files: Files) -> None:
        folder.chmod(0o755)
        for name in ("out", "tmp"):
            (folder / name).mkdir()
            if self.user is not None:
                os.chown(folder / name, self.user, self.user)
        for name, content in files.items():
            (folder / name).write_bytes(content)

    def _finish(self, module: str, folder: Path, arguments: tuple[str, ...]) -> None:
        reading, writing = os.pipe()
        kills = memory_kills() if self.contained else 0
        with tempfile.TemporaryFile() as said:
            command = [
                self.python, "-s", "-B", str(self.scratch / _DRIVER.name), str(writing), str(self.code), module,
                *(one.replace("{folder}", str(folder)) for one in arguments),
            ]  # fmt: skip
            try:
                process = self._started(command, folder, said, writing)
            except OSError as error:
                os.close(reading)
                raise Broken("environment", f"{self.python} cannot be run: {error.strerror}") from error
            finally:
                os.close(writing)
            log: list[bytes] = []
            reader = threading.Thread(target=_read, args=(reading, log), daemon=True)
            reader.start()
            late = _ended(process, self.deadline_s, self.user if self.contained else None)
            reader.join(5)
            allowed = Allowed(
                str(folder),
                (str(self.code), str(folder), str(self.scratch / _DRIVER.name)),
                (str(folder / "out"), str(folder / "tmp")),
            )
            ended = process.returncode == 0
            self.seen += trespasses(b"".join(log), allowed, ended=ended)
            if late:
                raise Broken("deadline", f"one call took more than {self.deadline_s:g} s")
            if self.contained and process.returncode == -signal.SIGKILL and memory_kills() > kills:
                raise Broken("memory-limit", f"{module} was killed: out of memory")
            if not ended:
                said.seek(max(0, said.tell() - 2000))
                lines = said.read().decode("utf-8", "replace").strip().splitlines()
                raise Broken("crash", f"{module} ended with {process.returncode}: {lines[-1][:300] if lines else ''!r}")

    def _started(self, command: list[str], folder: Path, said: IO[bytes], log: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=folder,
            env=self._environment(folder),
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            pass_fds=(log,),
            start_new_session=True,
        )

    def _environment(self, folder: Path) -> dict[str, str]:
        temporary = str(folder / "tmp")
        return {
            "PATH": os.defpath,
            "HOME": temporary,
            "TMPDIR": temporary,
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            **self.variables,
        }


@contextlib.contextmanager
def opened(
    files: Files,
    python: str,
    deadline_s: float,
    variables: Mapping[str, str] | None = None,
    *,
    contained: bool = False,
    user: int = THEIRS,
) -> Iterator[Calls]:
    """Lay out code in a new folder, for calls of it.

    Code runs as `user` where this process may change users and that one may use the interpreter. Where the evaluation
    has a container to itself, it runs as that one or not at all.

    Raises:
        Broken: the interpreter is none that this user may use, in a container.
    """
    with tempfile.TemporaryDirectory(prefix="researchgym-") as made:
        scratch = Path(made).resolve()
        shutil.copyfile(_DRIVER, scratch / _DRIVER.name)
        for name, content in files.items():
            path = scratch / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for path in (scratch, *scratch.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        usable = os.geteuid() == 0 and _usable(python, user)
        if contained and not usable:
            raise Broken("environment", f"{python} is no interpreter that everybody may run")
        runs_as = user if usable else None
        yield Calls(scratch / "code", scratch, python, deadline_s, runs_as, variables or {}, contained)


def _usable(python: str, user: int) -> bool:
    """Whether a user may run an interpreter: that is tried, since folders on the way may be closed."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        tried = subprocess.run(
            [python, "-c", ""], user=user, group=user, extra_groups=[], cwd="/", capture_output=True, timeout=60,
            check=False,
        )  # fmt: skip
        return tried.returncode == 0
    return False


def _ended(process: subprocess.Popen[bytes], deadline_s: float, alone: int | None) -> bool:
    """Wait for a process, end it and what it started at the deadline, and return whether that was needed.

    Args:
        process: which.
        deadline_s: seconds until then.
        alone: the user of which every process is ended; None: the process's group is.
    """
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        return True
    else:
        return False
    finally:
        if alone is not None:
            end_all(alone)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(descriptor: int, log: list[bytes]) -> None:
    total = 0
    with open(descriptor, "rb", buffering=0) as stream:
        while part := stream.read(65536):
            total += len(part)
            # What is beyond is read, so that the code goes on, and shows as a log without an end.
            if total <= _LOG_BYTES:
                log.append(part)


def _output(path: Path) -> bytes:
    content = plain_bytes(path, _OUTPUT_BYTES)
    if content is None:
        raise Broken("predictions", f"{path.name} was not left by it as a plain file of bearable size")
    return content
