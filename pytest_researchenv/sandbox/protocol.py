"""The seam to a container engine: what the rest of the package may ask of one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Protocol


__all__ = [
    "ALL_DEVICES",
    "Captured",
    "Change",
    "ChangeKind",
    "Completed",
    "Container",
    "ContainerSpec",
    "FileStat",
    "Image",
    "Join",
    "Limits",
    "Mount",
    "Network",
    "Sandbox",
    "Termination",
]

#: Head and tail kept of a process's output, in bytes each.
CAPTURE_BYTES = 4 * 1024 * 1024

#: As `ContainerSpec.devices`: every accelerator that the engine can give.
ALL_DEVICES = ("all",)


class Network(StrEnum):
    """What a container may reach."""

    NONE = "none"
    OPEN = "open"


class Termination(StrEnum):
    """How a process ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    DISK_FULL = "disk limit reached"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources of one container.

    Attributes:
        memory_bytes: memory and swap together.
        cpus: processors, may be a fraction; None for all.
        pids: processes and threads.
        shm_bytes: size of /dev/shm (Docker's default of 64 MiB breaks data loaders).
        disk_bytes: what may be written to its file system. Where the engine has no quotas it is measured from outside
            every few seconds, so that what is written between two looks comes on top.
    """

    memory_bytes: int = 16 * 1024**3
    cpus: float | None = None
    pids: int = 4096
    shm_bytes: int = 1024**3
    disk_bytes: int = 100 * 1024**3


@dataclass(frozen=True, slots=True)
class Mount:
    """A named volume, mounted read-only. Host folders are never mounted."""

    volume: str
    target: str


@dataclass(frozen=True, slots=True)
class Join:
    """A place in a private network, from `Sandbox.private_network`.

    Attributes:
        network: the network's name.
        alias: name by which the others in it find the container; empty for none.
    """

    network: str
    alias: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What to create a container from.

    Attributes:
        image: image id or reference; it must exist locally.
        argv: main process. None: an idle process, so that work goes in by `Container.exec`.
        environment: environment of the main process. With `argv` None it must be empty: it would be frozen.
        workdir: working directory of the main process; empty: the image's.
        network: what it may reach.
        mounts: read-only volumes.
        limits: resources.
        labels: labels of the container beside our own.
        devices: uuids of the accelerators that it gets, or `ALL_DEVICES`; none unless they are named. An engine that
            has no means to give any raises `DevicesUnavailableError` at the start.
        host_pids: whether it sees the processes of the engine's host: for monitors of ours only, never for what an
            agent made.
        joins: private networks that it is in, beside what `network` gives. Names that are not in them are refused
            within seconds, not looked up.
        scratch: absolute path of a folder in memory, writable by everyone, which is never frozen; empty for none. It
            is out of the engine's reach, so that `put` and `get` refuse it, and empty again after each start, that
            after a kill included. Its mount point is frozen as an empty folder, except below /dev.
        publish: TCP port of it that answers on the loopback address of the engine's host, too; 0 for none.
    """

    image: str
    argv: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    network: Network = Network.NONE
    mounts: tuple[Mount, ...] = ()
    limits: Limits = field(default_factory=Limits)
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    host_pids: bool = False
    joins: tuple[Join, ...] = ()
    scratch: str = ""
    publish: int = 0


@dataclass(frozen=True, slots=True)
class Captured:
    """A process's output, stdout and stderr interleaved, with the middle left out when it is long.

    Attributes:
        head: the first bytes.
        tail: the last bytes; empty when `head` holds everything.
        total: how many bytes were printed.
    """

    head: bytes
    tail: bytes
    total: int

    @property
    def omitted(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.total - len(self.head) - len(self.tail)

    def text(self) -> str:
        """All that was kept, decoded as UTF-8; bytes that are not become U+FFFD."""
        if not self.omitted:
            return (self.head + self.tail).decode(errors="replace")
        middle = f"\n[... {self.omitted} bytes left out ...]\n"
        return self.head.decode(errors="replace") + middle + self.tail.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Completed:
    """A process that has ended.

    Attributes:
        argv: what ran.
        termination: how it ended.
        exit_code: the status that the engine reports (128 + n for signal n as a shell has it, 137 for a kill).
        output: what it printed.
        duration_s: wall time in seconds.
        streams: stdout and stderr, each alone, where the engine tells them apart: unbuffered writes of the two can
            stand in the middle of each other's lines.
    """

    argv: tuple[str, ...]
    termination: Termination
    exit_code: int
    output: Captured
    duration_s: float
    streams: tuple[Captured, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with code 0."""
        return self.termination is Termination.EXITED and self.exit_code == 0

    @property
    def stdout(self) -> Captured:
        """Stdout alone, where the engine tells it apart; else everything."""
        return self.streams[0] if self.streams else self.output

    @property
    def how(self) -> str:
        """How it ended, in words."""
        match self.termination:
            case Termination.EXITED:
                return f"exited with code {self.exit_code}"
            case Termination.SIGNALLED:
                return f"ended by signal {self.exit_code - 128}"
            case Termination.OUT_OF_MEMORY:
                return "killed: out of memory"
            case Termination.TIMED_OUT:
                return f"timed out after {self.duration_s:.0f} s"
            case Termination.DISK_FULL:
                return "killed: wrote more than its disk limit"
            case Termination.STOPPED:
                return "stopped"

    @property
    def command(self) -> str:
        """The command as a shell line."""
        return shlex.join(self.argv)


class ChangeKind(StrEnum):
    """In what way a path of a container differs from its image."""

    ADDED = "A"
    CHANGED = "C"
    REMOVED = "D"


@dataclass(frozen=True, slots=True)
class Change:
    """One path in which a container differs from its image.

    Attributes:
        kind: in what way.
        path: absolute; bytes of names that are no UTF-8 may be U+FFFD.
    """

    kind: ChangeKind
    path: str


@dataclass(frozen=True, slots=True)
class FileStat:
    """What is at a path of a container.

    Attributes:
        mode: permission bits, with those for set-user-id, set-group-id and sticky.
        size: of a file, in bytes.
        changed: when it was changed, in nanoseconds since 1970, by the clock of the engine's host.
        link: where it leads, as a link, which the engine may have resolved to an absolute path; empty for everything
            else.
        folder: whether it is one.
        regular: whether it is a plain file.
    """

    mode: int
    size: int
    changed: int
    link: str = ""
    folder: bool = False
    regular: bool = False


class Container(Protocol):
    """One container, from creation to removal. Every method raises `SandboxError` when the engine refuses."""

    @property
    def id(self) -> str:
        """The engine's id."""

    def put(self, path: str, archive: IO[bytes]) -> None:
        """Unpack a tar stream below the folder `path`, which must exist. Works before `start`, too.

        Every folder on the way that the archive names becomes a real folder: a link planted in its place is removed,
        never followed. Name all of them, from `/` down, when the container is not trusted.
        """

    def get(self, path: str) -> AbstractContextManager[IO[bytes] | None]:
        """Read the file or folder at `path` as a tar stream (not seekable); None where there is nothing.

        The last component is not followed when it is a link: the archive then holds the link.
        """

    def stat(self, path: str) -> FileStat | None:
        """Look at a path, which takes the engine a millisecond; None where there is nothing.

        The last component is not followed when it is a link.
        """

    def start(self) -> None:
        """Start an idle container (`argv` None)."""

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        environment: Mapping[str, str] | None = None,
        workdir: str = "",
        on_output: Callable[[bytes], object] | None = None,
        capture_bytes: int = CAPTURE_BYTES,
        stop: Callable[[], bool] = lambda: False,
    ) -> Completed:
        """Run a command in a started idle container until it ends, or kill it and its group at the deadline.

        `stop` is asked about once a second, also while nothing is printed; once it is true the command is killed in
        the same way, and has ended as `Termination.STOPPED`.
        """

    def run(
        self,
        *,
        timeout_s: float,
        on_output: Callable[[bytes], object] | None = None,
        capture_bytes: int = CAPTURE_BYTES,
        stdin: bytes | None = None,
    ) -> Completed:
        """Start the main process of a container with `argv`, and wait for its end, or kill it at the deadline.

        Files can still be read with `get` afterwards. `stdin` is what the process reads there, and then the end of the
        file: the way for secrets, which then stand in nothing that the engine stores or shows. Without it the process
        reads nothing but the end of the file.
        """

    def connected(self) -> bool:
        """Whether it is still in all networks in which it was created: nothing in it can leave one."""

    def published(self) -> int:
        """Port on the loopback address of the engine's host behind which `ContainerSpec.publish` answers.

        Only while the container runs. May be called from another thread as soon as `run` was: it waits for the start.
        """

    def host_pids(self) -> frozenset[int]:
        """Ids of its processes on the engine's host; empty when it does not run.

        May be called from another thread while `run` waits.
        """

    def changes(self) -> AbstractContextManager[Iterator[Change]]:
        """What differs from its image, one by one, in any order: content, kind or mode changed, added, or removed.

        A folder counts as changed when something in it is added or removed. Of one that was removed or replaced by
        something else, what was in it need not be named. Where things are mounted counts as added, too.
        """

    def written(self) -> int:
        """Bytes of the files that it has beyond its image; negative when the engine cannot tell."""

    def stop(self) -> None:
        """End every process in it, at once, from outside."""

    def freeze(self, reference: str, *, labels: Mapping[str, str]) -> str:
        """Make an image of a stopped container and return its id.

        Entry point, command, environment, user and working directory are the base image's; labels are the base
        image's with `labels` and our own.
        """

    def remove(self) -> None:
        """Remove it with its processes and anonymous volumes. Removing twice is no error."""


@dataclass(frozen=True, slots=True)
class Image:
    """What the engine knows of an image.

    Attributes:
        id: the engine's id: a digest of its content and configuration.
        labels: its labels.
        layers: digests of its file system's layers, the lowest first.
    """

    id: str
    labels: Mapping[str, str]
    layers: tuple[str, ...]


class Sandbox(Protocol):
    """A container engine."""

    def create(self, spec: ContainerSpec) -> Container:
        """Create a container; nothing runs yet. The caller must `remove` it, best by `opened`."""

    def opened(self, spec: ContainerSpec) -> AbstractContextManager[Container]:
        """Create a container that is removed at the end of the block."""

    def private_network(self, *, outward: bool, labels: Mapping[str, str]) -> AbstractContextManager[str]:
        """Make a network of its own, which is removed at the end of the block; yields its name.

        Args:
            outward: whether its containers reach what is outside. If not, they reach one another and nothing else, not
                even the engine's host.
            labels: labels of the network beside our own.
        """

    def image_exists(self, image: str) -> bool:
        """Whether the image is there, locally."""

    def find_image(self, image: str) -> Image | None:
        """What the engine knows of an image; None when it is not there."""

    def image_size(self, image: str) -> int:
        """Size of an image in bytes, layers shared with others included."""

    def remove_image(self, image: str) -> None:
        """Remove an image. Removing twice is no error."""
