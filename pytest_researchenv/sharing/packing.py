"""Write exports: whole or not at all, never over something, and never all of it in memory."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.sharing.contents import TABLE, Contents, Member, contents_json


__all__ = ["copy_counted", "member_of", "new_file", "new_folder", "put_new", "write_archive"]

_BLOCK = 1024 * 1024


def member_of(path: Path) -> Member:
    """Return what a file is now.

    Raises:
        StoreError: it cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    return Member(size, digest.hexdigest())


def write_archive(target: Path, contents: Contents, files: Mapping[str, Path]) -> None:
    """Write an archive, its table first. It tells nothing of who made it, and is the same for the same files.

    Args:
        target: the new file.
        contents: the table.
        files: path in the archive → the file.

    Raises:
        ConfigurationError: the target is there, or cannot be written.
        StoreError: a file cannot be read, or has changed meanwhile.
    """
    table = contents_json(contents)
    with (
        new_file(target) as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        _add(archive, TABLE, io.BytesIO(table), len(table))
        for name, member in contents.members.items():
            with _same(files[name], member) as file:
                _add(archive, name, file, member.bytes)


def copy_counted(path: Path, target: Path, member: Member) -> None:
    """Copy a file as the table has it.

    Raises:
        StoreError: it cannot be read or written, or has changed meanwhile.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _same(path, member) as file, target.open("xb") as copy:
            left = member.bytes
            while block := file.read(min(_BLOCK, left)):
                left -= copy.write(block)
    except OSError as error:
        raise StoreError(f"cannot copy {path} to {target}: {error}") from error


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that is there under its name once the block has ended well, and never takes another's place.

    Raises:
        ConfigurationError: there is something already, or it cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    if os.path.lexists(target):
        raise ConfigurationError(f"{target} is there already, and is not overwritten: name another file by -o")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        put_new(temporary, target)
    except FileExistsError as error:
        raise ConfigurationError(f"{target} is there already, and is not overwritten") from error
    except StoreError:
        raise
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error}; name another place by -o") from error
    finally:
        # Where nothing can be written, nothing was.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Make a folder that is there under its name once the block has ended well, and never takes another's place.

    Raises:
        ConfigurationError: there is something already, or it cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    if os.path.lexists(target):
        raise ConfigurationError(f"{target} is there already, and is not overwritten: name another folder by -o")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(target)
    except StoreError:
        raise
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error}; name another place by -o") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def put_new(source: Path, target: Path) -> None:
    """Give a file another name where nothing has it: in one step, and the first name may stay.

    Raises:
        FileExistsError: something has it.
        OSError: it cannot be done.
    """
    try:
        # Renaming would replace what came there meanwhile.
        os.link(source, target)
    except FileExistsError:
        raise
    # There are file systems without links.
    except OSError:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        source.rename(target)


def _add(archive: tarfile.TarFile, name: str, file: _Counted | io.BytesIO, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, file)  # type: ignore[arg-type] # It reads no more than that, and asks for nothing else.


class _Counted:
    """A file of which no more is read than there was, with the digest of what was read."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Return what comes next."""
        try:
            block = self._file.read(size)
        except OSError as error:
            raise _unreadable(self._path, error) from error
        self.digest.update(block)
        return block


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be read to its end: {error}; export again")


@contextmanager
def _same(path: Path, member: Member) -> Iterator[_Counted]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        counted = _Counted(file, path)
        yield counted
    if counted.digest.hexdigest() != member.sha256:
        raise StoreError(f"{path} has changed while it was exported: export again")
