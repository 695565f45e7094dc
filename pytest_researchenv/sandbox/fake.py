"""A fake container engine in memory, for unit tests and simulations of scale: tests say what each program does."""

from __future__ import annotations

import contextlib
import io
import itertools
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from pytest_researchenv.errors import ImageError, SandboxError
from pytest_researchenv.sandbox._check import check_in_files, check_spec
from pytest_researchenv.sandbox._fakedriver import FakeDriver, no_driver
from pytest_researchenv.sandbox._fakefiles import FakeFiles, Folder, Link, Node
from pytest_researchenv.sandbox._monitor import MONITOR
from pytest_researchenv.sandbox.capture import Capture
from pytest_researchenv.sandbox.protocol import (
    CAPTURE_BYTES,
    Change,
    Completed,
    ContainerSpec,
    FileStat,
    Image,
    Termination,
)


if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


__all__ = [
    "FakeContainer",
    "FakeDiskFullError",
    "FakeDriver",
    "FakeFiles",
    "FakeOutOfMemoryError",
    "FakeSandbox",
    "FakeTimeoutError",
    "Folder",
    "Link",
]

_SIGNALS = range(129, 129 + 64)

_STDIN = "/dev/stdin"

#: What a program of a fake container is: it gets files, argv and environment, and returns exit code and output. Output
#: in parts, which may be empty, is taken part by part until the container or the command is stopped, or is overdue.
Program = Callable[[FakeFiles, tuple[str, ...], Mapping[str, str]], tuple[int, bytes | Iterable[bytes]]]

#: Which commands a program answers to.
Matcher = Callable[[tuple[str, ...]], bool]


class FakeOutOfMemoryError(Exception):
    """A program raises it to be killed for memory."""


class FakeDiskFullError(Exception):
    """A program raises it to be killed for what it wrote."""


class FakeTimeoutError(Exception):
    """A program raises it to run until its deadline."""


_KILLS = {FakeOutOfMemoryError: Termination.OUT_OF_MEMORY, FakeDiskFullError: Termination.DISK_FULL}


@dataclass(slots=True)
class _Image:
    files: FakeFiles
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[str, ...] = ()


class FakeSandbox:
    """A fake engine: images are dictionaries, programs are Python functions.

    Args:
        driver: what gives containers devices; None: nothing does.
    """

    def __init__(self, driver: FakeDriver | None = None) -> None:
        self._images: dict[str, _Image] = {}
        self._names: dict[str, str] = {}
        self._programs: list[tuple[Matcher, Program]] = []
        #: Containers that were not removed, by id.
        self.containers: dict[str, FakeContainer] = {}
        #: How many containers were ever created.
        self.created = 0
        #: Private networks that were not removed: name → labels.
        self.networks: dict[str, Mapping[str, str]] = {}
        self._pids = itertools.count(1000)
        self._ports = itertools.count(40_000)
        self._check_devices = driver.check if driver else no_driver
        if driver:
            self.program("nvidia-smi", driver.answer)
            self.program(MONITOR, driver.monitor)

    def add_image(
        self,
        reference: str,
        nodes: dict[str, Node] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Make an image and return its id."""
        return self._store(reference, _Image(FakeFiles(nodes), dict(environment or {}), dict(labels or {})))

    def image_files(self, image: str) -> FakeFiles:
        """The files of an image."""
        return self._image(image).files

    def program(self, matches: str | Sequence[str] | Matcher, program: Program) -> None:
        """Say what a command does; of several that match, the one added last runs.

        Args:
            matches: the name of a program (`argv[0]`), a whole argv, or a function that tells.
            program: what it does; may raise one of the errors above.
        """
        self._programs.append((_matcher(matches), program))

    def create(self, spec: ContainerSpec) -> FakeContainer:
        """Create a container; nothing runs yet."""
        check_spec(spec)
        for join in spec.joins:
            if join.network not in self.networks:
                raise SandboxError(f"no such network: {join.network}")
        image = self._image(spec.image)
        container = FakeContainer(self, spec, image)
        self.containers[container.id] = container
        self.created += 1
        return container

    @contextlib.contextmanager
    def opened(self, spec: ContainerSpec) -> Iterator[FakeContainer]:
        """Create a container that is removed at the end of the block."""
        container = self.create(spec)
        try:
            yield container
        finally:
            container.remove()

    @contextlib.contextmanager
    def private_network(self, *, outward: bool, labels: Mapping[str, str]) -> Iterator[str]:
        """Make a network, which carries nothing; its name tells whether it is outward."""
        name = f"fake-{'outward' if outward else 'inward'}-{uuid.uuid4().hex}"
        self.networks[name] = dict(labels)
        try:
            yield name
        finally:
            del self.networks[name]

    def image_exists(self, image: str) -> bool:
        """Whether the image is there."""
        return self._names.get(image, image) in self._images

    def find_image(self, image: str) -> Image | None:
        """What is known of an image; None when it is not there."""
        identifier = self._names.get(image, image)
        known = self._images.get(identifier)
        return Image(identifier, dict(known.labels), (*known.layers, identifier)) if known else None

    def image_size(self, image: str) -> int:
        """Bytes of all its files."""
        return self._image(image).files.size

    def remove_image(self, image: str) -> None:
        """Remove an image. Removing twice is no error."""
        self._images.pop(self._names.pop(image, image), None)

    def _store(self, reference: str, image: _Image) -> str:
        identifier = f"fake:{uuid.uuid4().hex}"
        self._images[identifier] = image
        self._names[reference] = identifier
        return identifier

    def _image(self, image: str) -> _Image:
        try:
            return self._images[self._names.get(image, image)]
        except KeyError as error:
            raise ImageError(f"image {image} is not on this engine. Add it with FakeSandbox.add_image.") from error

    def _find(self, argv: tuple[str, ...]) -> Program:
        for matches, program in reversed(self._programs):
            if matches(argv):
                return program
        return _not_found


class FakeContainer:
    """One container of a fake engine; made by `FakeSandbox`."""

    def __init__(self, sandbox: FakeSandbox, spec: ContainerSpec, image: _Image) -> None:
        self._sandbox = sandbox
        self._image = image
        self._id = uuid.uuid4().hex
        self._running = False
        self._stopped = False
        self._pid = next(sandbox._pids)  # noqa: SLF001 - engine and container are one fake.
        self._port = next(sandbox._ports)  # noqa: SLF001 - likewise.
        #: What it was created from.
        self.spec = spec
        #: Its files, for tests to look into.
        self.files = image.files.copy()
        #: Every command it was given, in order, with its environment.
        self.commands: list[tuple[tuple[str, ...], Mapping[str, str]]] = []
        #: What `run` gave its main process to read. The program finds it in its files at `/dev/stdin`.
        self.stdin: bytes | None = None

    @property
    def id(self) -> str:
        """A random id."""
        return self._id

    def put(self, path: str, archive: IO[bytes]) -> None:
        """Unpack a tar stream below the folder `path`, which must exist."""
        self._check_exists()
        check_in_files(self.spec, path)
        try:
            self.files.unpack(path, archive)
        except FileNotFoundError as error:
            raise SandboxError(f"cannot put files into {path}: there is no such folder") from error

    @contextlib.contextmanager
    def get(self, path: str) -> Iterator[IO[bytes] | None]:
        """Read the file or folder at `path` as a tar stream; None where there is nothing."""
        self._check_exists()
        check_in_files(self.spec, path)
        packed = self.files.pack(path)
        yield None if packed is None else io.BufferedReader(_Stream(packed))

    def stat(self, path: str) -> FileStat | None:
        """Look at a path; a file's time is told by its content."""
        self._check_exists()
        match self.files.node(path):
            case bytes() as content:
                return FileStat(0o644, len(content), zlib.crc32(content), regular=True)
            case Link(target):
                return FileStat(0o777, len(target), 0, link=target)
            case Folder():
                return FileStat(0o755, 0, 0, folder=True)
            case _:
                return None

    def start(self) -> None:
        """Start an idle container."""
        self._check_exists()
        self._sandbox._check_devices(self.spec.devices)  # noqa: SLF001 - likewise.
        self._running, self._stopped = True, False

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
        """Run the program that was registered for a command; `stop` is asked between the parts of its output."""
        del workdir
        self._check_exists()
        if not self._running:
            raise SandboxError(f"container {self._id[:12]} does not run: start it first")
        return self._execute(tuple(argv), environment or {}, timeout_s, Capture(capture_bytes, on_output), stop)

    def run(
        self,
        *,
        timeout_s: float,
        on_output: Callable[[bytes], object] | None = None,
        capture_bytes: int = CAPTURE_BYTES,
        stdin: bytes | None = None,
    ) -> Completed:
        """Run the program that was registered for the main process's command."""
        self._check_exists()
        if self.spec.argv is None:
            raise ValueError("an idle container has no command to run: create it with argv, or use exec")
        self._sandbox._check_devices(self.spec.devices)  # noqa: SLF001 - likewise.
        self._running, self._stopped = True, False
        self.stdin = stdin
        self.files.write(_STDIN, stdin or b"")
        try:
            return self._execute(self.spec.argv, self.spec.environment, timeout_s, Capture(capture_bytes, on_output))
        finally:
            self.files.remove(_STDIN)
            self._running = False

    def connected(self) -> bool:
        """Whether its networks are still there."""
        self._check_exists()
        return all(join.network in self._sandbox.networks for join in self.spec.joins)

    def published(self) -> int:
        """A number; nothing answers there."""
        self._check_exists()
        if not self.spec.publish:
            raise ValueError("the container publishes no port: create it with `publish`")
        if not self._running:
            raise SandboxError(f"port {self.spec.publish} of container {self._id[:12]} is not published")
        return self._port

    def host_pids(self) -> frozenset[int]:
        """The one process that it has while it runs."""
        self._check_exists()
        return frozenset({self._pid} if self._running else ())

    @contextlib.contextmanager
    def changes(self) -> Iterator[Iterator[Change]]:
        """What differs from its image."""
        self._check_exists()
        differing = self._lasting().compared(self._image.files)
        yield (Change(kind, path) for path, kind in differing.items())

    def written(self) -> int:
        """Bytes of its files beyond its image."""
        self._check_exists()
        return max(0, self._lasting().size - self._image.files.size)

    def stop(self) -> None:
        """Stop it."""
        self._check_exists()
        self._running, self._stopped = False, True

    def freeze(self, reference: str, *, labels: Mapping[str, str]) -> str:
        """Make an image of a stopped container and return its id."""
        self._check_exists()
        if self._running:
            raise SandboxError(f"cannot freeze container {self._id[:12]} as {reference}: it runs. Stop it first.")
        merged = {**self._image.labels, **labels}
        grown = self._sandbox.find_image(self.spec.image)
        return self._sandbox._store(  # noqa: SLF001 - likewise.
            reference, _Image(self._lasting(), self._image.environment, merged, grown.layers if grown else ())
        )

    def remove(self) -> None:
        """Remove it. Removing twice is no error."""
        self._running = False
        self._sandbox.containers.pop(self._id, None)

    def _execute(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        timeout_s: float,
        capture: Capture,
        stop: Callable[[], bool] = lambda: False,
    ) -> Completed:
        started = time.monotonic()

        def completed(termination: Termination, code: int = 137) -> Completed:
            return Completed(argv, termination, code, capture.result(), time.monotonic() - started)

        merged = {**self._image.environment, **environment}
        self.commands.append((argv, merged))
        try:
            code, output = self._sandbox._find(argv)(self.files, argv, merged)  # noqa: SLF001 - likewise.
        except (FakeOutOfMemoryError, FakeDiskFullError) as error:
            return completed(_KILLS[type(error)])
        except FakeTimeoutError:
            if stop():
                return completed(Termination.STOPPED)
            return Completed(argv, Termination.TIMED_OUT, 137, capture.result(), timeout_s)
        for part in (output,) if isinstance(output, bytes) else output:
            if self._stopped:
                code = 137
                break
            if stop():
                return completed(Termination.STOPPED)
            if time.monotonic() - started >= timeout_s:
                return completed(Termination.TIMED_OUT)
            capture.feed(part)
        return completed(Termination.SIGNALLED if code in _SIGNALS else Termination.EXITED, code)

    def _lasting(self) -> FakeFiles:
        """Its files without those in memory."""
        files = self.files.copy()
        if self.spec.scratch:
            files.remove(self.spec.scratch)
        return files

    def _check_exists(self) -> None:
        if self._id not in self._sandbox.containers:
            raise SandboxError(f"no such container: {self._id[:12]}")


class _Stream(io.RawIOBase):
    """Not seekable, as the engine's is not."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._content.readinto(buffer)


def _matcher(matches: str | Sequence[str] | Matcher) -> Matcher:
    if callable(matches):
        return matches
    if isinstance(matches, str):
        return lambda argv: argv[0] == matches
    whole = tuple(matches)
    return lambda argv: argv == whole


def _not_found(_files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    return 126, f"{argv[0]}: executable file not found in $PATH\n".encode()
