"""The line on disk: one JSON file, written whole, in a folder that all users of the host share.

A folder with the sticky bit lets everybody make files in it, and nobody replace another's. So the line is never written
over: each new state is a file of a higher number, renamed into place, and the older ones go as far as they are one's
own. The lock lies in the folder from its beginning, since another's lock file is believed only where the folder is his,
too. The folder is one boot's: what was held before it is held by nobody.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pytest_researchenv.errors import LeaseError
from pytest_researchenv.leases.line import Line
from pytest_researchenv.leases.telling import account


__all__ = ["VERSION", "Record"]

#: What is written has this form. A file of another form is neither read nor replaced.
VERSION = 1

#: How long others may keep the lock, in seconds. They need milliseconds, a frozen process excepted.
_PATIENCE_S = 60.0
_POLL_S = 0.005

#: More than any line that is meant as one: some hundred bytes a ticket.
_MOST_BYTES = 16 * 1024**2

#: Between two looks at the names, the state that was found may have been replaced.
_LOOKS = 100

_STATE = re.compile(r"line-([0-9]{12})\.json")
#: No state comes after this one: its name would have another form. At a thousand changes a second it takes 30 years.
_LAST = 10**12 - 1
_LOCK = "lock"
_SHARED = 0o1777


class _Written(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: int
    line: Line


_WRITTEN = TypeAdapter(_Written)


@final
class Record:
    """The line of one host, as all its processes see it.

    Args:
        folder: where it lies; made when missing, for every user of the host. The folder above it is, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: tuple[int, FileLock] | None = None
        #: The state that was read last, after what tells it from another of the same number in another folder. An inode
        #: that was given up is given to the next file (tried on ext4), so that its time counts, too.
        self._seen: tuple[tuple[int, int, int], Line] = ((0, 0, 0), Line())
        self._made = False

    @property
    def place(self) -> str:
        """The folder, and what to do about it where it cannot be used."""
        return f"{self.folder} (--researchenv-leases names another)"

    def read(self) -> Line:
        """The line as it is now; waits for nobody.

        Raises:
            LeaseError: it cannot be read.
        """
        self._make()
        return self._read()[1]

    def change(self, change: Callable[[Line], Line]) -> Line:
        """Replace the line by what becomes of it; it is the same for everybody until then.

        Raises:
            LeaseError: it cannot be read or written; it is then as it was.
        """
        self._make()
        lock = self._own_lock()
        try:
            lock.acquire(timeout=_PATIENCE_S, poll_interval=_POLL_S)
        except Timeout as error:
            raise LeaseError(
                f"somebody keeps the lock of the line in {self.place}: waited {_PATIENCE_S:.0f} s"
                f"{_held_by(self._path)}; a process that keeps it is frozen: let it go on (SIGCONT) or end it"
            ) from error
        except OSError as error:
            raise LeaseError(f"cannot lock the line in {self.place}: {error}") from error
        try:
            number, line = self._read()
            changed = change(line)
            if changed is not line:
                self._write(number + 1, changed)
            return changed
        finally:
            lock.release()

    def _own_lock(self) -> FileLock:
        """This process's: one that was inherited across a fork is refused."""
        if self._lock is None or self._lock[0] != os.getpid():
            self._lock = os.getpid(), FileLock(self._path, mode=0o666)
        return self._lock[1]

    @property
    def _path(self) -> Path:
        return self.folder / _LOCK

    # --- the folder ---------------------------------------------------------------------------------------

    def _make(self) -> None:
        """Make the folder with its lock, all at once, where it is not there yet."""
        if self._made:
            return
        try:
            if not self.folder.exists():
                _shared(self.folder.parent)
                begun = self.folder.with_name(f".{self.folder.name}.{secrets.token_hex(8)}")
                begun.mkdir()
                (begun / _LOCK).touch()
                (begun / _LOCK).chmod(0o666)
                begun.chmod(_SHARED)
                try:
                    begun.rename(self.folder)
                except OSError as error:
                    (begun / _LOCK).unlink()
                    begun.rmdir()
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
            found = self.folder.lstat()
        except OSError as error:
            raise LeaseError(f"cannot make the folder of leases {self.place}: {error}") from error
        if not stat.S_ISDIR(found.st_mode) or not os.access(self.folder, os.W_OK | os.X_OK):
            raise LeaseError(
                f"{self.place} is no folder that this account can write to; it belongs to {account(found.st_uid)}: "
                f"let them run `chmod 1777 {self.folder}`, or remove it while nobody works"
            )
        self._made = True

    # --- the file -----------------------------------------------------------------------------------------

    def _read(self) -> tuple[int, Line]:
        for _ in range(_LOOKS):
            try:
                number = max(_states(self.folder), default=0)
                if number == 0:
                    return 0, Line()
                if number == _LAST:
                    raise LeaseError(
                        f"{self.folder / _name(number)} is the last state that a line can have, and nobody counts so "
                        "far: let whoever made the file remove it, or give another folder with --researchenv-leases"
                    )
                found = (self.folder / _name(number)).lstat()
                key = number, found.st_ino, found.st_ctime_ns
                if key != self._seen[0]:
                    self._seen = key, self._load(self.folder / _name(number))
            except FileNotFoundError:
                # Replaced between the two; and a folder that was removed is made again.
                self._made = False
                self._make()
            except OSError as error:
                raise LeaseError(f"cannot read the line in {self.place}: {error}") from error
            else:
                return number, self._seen[1]
        raise LeaseError(f"the line in {self.place} changes faster than it can be read")

    def _load(self, path: Path) -> Line:
        # Anything may lie there, in a folder that everybody can write to: a link, a FIFO that never ends.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            content = file.read(_MOST_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
        whose = f"{path}, which belongs to {account(status.st_uid)}"
        remedy = (
            "nothing was changed. Once no run is at work on this host, let them remove the file; "
            "or give another folder with --researchenv-leases"
        )
        if len(content) > _MOST_BYTES or not content:
            raise LeaseError(f"{whose}, is no line of tickets: it has {status.st_size} bytes; {remedy}")
        try:
            version = json.loads(content)["version"]
            if version != VERSION:
                raise LeaseError(
                    f"{whose}, was written by another version of pytest-researchenv (form {version!r}, not {VERSION}): "
                    "let its runs end, or give another folder with --researchenv-leases"
                )
            return _WRITTEN.validate_json(content).line
        except (ValueError, ValidationError, TypeError, KeyError, RecursionError) as error:
            said = ascii(str(error).partition("\n")[0][:200])
            raise LeaseError(f"{whose}, does not hold what was written there: {said}; {remedy}") from error

    def _write(self, number: int, line: Line) -> None:
        path = self.folder / _name(number)
        begun = self.folder / f".{path.name}.{secrets.token_hex(8)}"
        try:
            try:
                begun.write_bytes(_WRITTEN.dump_json(_Written(version=VERSION, line=line)))
                # Whatever the account's umask says.
                begun.chmod(0o644)
                begun.rename(path)
            except OSError:
                with suppress(OSError):
                    begun.unlink()
                raise
        except OSError as error:
            raise LeaseError(f"cannot write the line in {self.place}: {error}; it is as it was") from error
        self._sweep(number)

    def _sweep(self, number: int) -> None:
        """Remove older states; another user's stay until he writes again."""
        for path in self.folder.iterdir():
            found = _STATE.fullmatch(path.name)
            if (found and int(found[1]) < number) or path.name.startswith(".line-"):
                with suppress(OSError):
                    path.unlink()


def _states(folder: Path) -> Iterator[int]:
    """The number of every state in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if found := _STATE.fullmatch(entry.name):
                yield int(found[1])


def _name(number: int) -> str:
    return f"line-{number:012d}.json"


def _shared(folder: Path) -> None:
    """Make a folder for all users of the host."""
    if folder.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(_SHARED)


def _held_by(path: Path) -> str:
    """Who holds a file's lock, as the kernel tells it; empty where it does not."""
    try:
        inode = path.stat().st_ino
        for entry in Path("/proc/locks").read_text().splitlines():
            fields = entry.split()
            if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                return f" (process {fields[4]} has it)"
    except (OSError, IndexError):
        pass
    return ""
