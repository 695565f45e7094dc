"""The `Container` protocol over Docker's engine."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, cast

from docker.errors import APIError, NotFound
from docker.utils import parse_repository_tag

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox._accounts import disarm
from pytest_researchenv.sandbox._changes import changes
from pytest_researchenv.sandbox._check import check_in_files
from pytest_researchenv.sandbox._config import restored
from pytest_researchenv.sandbox._disk import DiskWatch, written
from pytest_researchenv.sandbox._engine import patience
from pytest_researchenv.sandbox._stat import look
from pytest_researchenv.sandbox._stdin import Feed
from pytest_researchenv.sandbox._stream import ChunkReader, Pump, Stop, engine_call
from pytest_researchenv.sandbox.capture import Capture
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import (
    CAPTURE_BYTES,
    Change,
    Completed,
    ContainerSpec,
    FileStat,
    Network,
    Termination,
)


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["DockerContainer"]

#: How often the engine is asked whether something has ended, in seconds.
_POLL_S = 0.05

#: How long the end of a killed process may take, in seconds.
_KILL_S = 30.0

#: How long a commit may say nothing, in seconds: it copies all that was written, and then answers.
_FREEZE_S = 1800

_KILLED = 137

#: The kernel's count of out-of-memory kills in the container's cgroup: version 1, then 2.
_OOM_FILES = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")

#: Says the engine of more than 255 links; the kernel follows 40.
_ENDLESS = "evalSymlinksInScope: too many links"

_SIGNALS = range(129, 129 + 64)

#: Bits of Go's `FileMode`: folder, link, device, FIFO, socket, character device, and what is none of all.
_FOLDER, _LINK = 1 << 31, 1 << 27
#: Likewise of set-user-id, set-group-id and sticky → as Unix has them.
_SPECIAL = {1 << 23: 0o4000, 1 << 22: 0o2000, 1 << 20: 0o1000}
_KINDS = _FOLDER | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


class DockerContainer:
    """One container of a Docker engine; made by `DockerSandbox`."""

    def __init__(self, client: DockerClient, owner: Owner, identifier: str, spec: ContainerSpec) -> None:
        self._client = client
        self._api = client.api
        self._owner = owner
        self._id = identifier
        self._spec = spec
        self._argv = spec.argv
        self._started = False
        #: Whether a process may change files, and whether those that the engine opens are known to be plain ones.
        self._running = self._plain = False

    @property
    def id(self) -> str:
        """The engine's id."""
        return self._id

    def put(self, path: str, archive: IO[bytes]) -> None:
        """Unpack a tar stream below the folder `path`; see the protocol about links."""
        check_in_files(self._spec, path)
        self._plain = False
        with engine_call(f"put files into {path}"):
            self._api.put_archive(self._id, path, archive)

    @contextlib.contextmanager
    def get(self, path: str) -> Iterator[IO[bytes] | None]:
        """Read the file or folder at `path` as a tar stream; None where there is nothing."""
        what = f"read {path}"
        check_in_files(self._spec, path)
        with engine_call(what):
            self._disarm()
            # A trailing slash would follow a link.
            chunks = self._archive(path.rstrip("/") or "/")
            # Read from before it is closed: a generator that was never started has nothing to close.
            first = next(chunks, None) if chunks is not None else None
        if chunks is None or first is None:
            yield None
            return
        try:
            yield io.BufferedReader(ChunkReader(first, chunks, what))
        finally:
            # Until it is closed the engine holds the container's lock: even its removal would wait.
            chunks.close()

    def stat(self, path: str) -> FileStat | None:
        """Look at a path; None where there is nothing."""
        check_in_files(self._spec, path)
        with engine_call(f"look at {path}"):
            found = look(self._api, self._id, path)
        if not found.mode and not found.changed:
            return None
        kind = found.mode & _KINDS
        return FileStat(
            mode=found.mode & 0o777 | sum(bit for flag, bit in _SPECIAL.items() if found.mode & flag),
            size=found.size,
            changed=found.changed,
            link=found.link if kind == _LINK else "",
            folder=kind == _FOLDER,
            regular=not kind,
        )

    def start(self) -> None:
        """Start an idle container."""
        with engine_call("start the container"):
            self._boot()
        self._started = True

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
        """Run a command until it ends, or kill it at the deadline or once `stop` is true.

        The kill is the container's: every process in it ends, those of earlier commands too, and it idles again.
        Nothing less catches a child that left its process group, and nothing in the container need be trusted.
        """
        capture = Capture(capture_bytes, on_output)
        stopping = Stop(stop)
        with engine_call(f"run {argv[0]} in the container"):
            before = self._ready()
            started = time.monotonic()
            with self._watched() as disk:
                code = self._execute(argv, environment, workdir, capture, deadline=started + timeout_s, stop=stopping)
            if disk.full:
                termination, code = Termination.DISK_FULL, _KILLED
            elif code is None and stopping.stopped:
                termination, code = Termination.STOPPED, _KILLED
            elif code is None:
                termination, code = Termination.TIMED_OUT, _KILLED
            elif code and self._oom_since(before):
                termination = Termination.OUT_OF_MEMORY
            else:
                termination = _termination(code)
        return Completed(tuple(argv), termination, code, capture.result(), time.monotonic() - started)

    def run(
        self,
        *,
        timeout_s: float,
        on_output: Callable[[bytes], object] | None = None,
        capture_bytes: int = CAPTURE_BYTES,
        stdin: bytes | None = None,
    ) -> Completed:
        """Start the main process and wait for its end, or kill it at the deadline."""
        if self._argv is None:
            raise ValueError("an idle container has no command to run: create it with argv, or use exec")
        capture = Capture(capture_bytes, on_output)
        apart = Capture(capture_bytes), Capture(capture_bytes)
        with engine_call(f"run {self._argv[0]}"):
            stream = self._api.attach(self._id, stdout=True, stderr=True, stream=True, logs=False, demux=True)
            with (
                Pump(stream, capture, apart=apart) as pump,
                Feed(self._api, self._id, stdin or b""),
                self._watched() as disk,
            ):
                self._boot()
                started = time.monotonic()
                deadline = started + timeout_s
                ended = pump.carry(deadline=deadline, ended=self._ended) and _wait(self._ended, deadline)
                if not ended:
                    pump.drop_the_rest()
                killed = not ended and self._kill()
                duration = time.monotonic() - started
                if not ended:
                    pump.carry(deadline=time.monotonic() + _KILL_S, ended=self._ended)
            state = self._state()
            self._running = bool(state["Running"])
        code = int(state["ExitCode"])
        if disk.full:
            termination = Termination.DISK_FULL
        elif killed:
            termination = Termination.TIMED_OUT
        elif code and state["OOMKilled"]:
            termination = Termination.OUT_OF_MEMORY
        else:
            termination = _termination(code)
        streams = tuple(one.result() for one in apart)
        return Completed(self._argv, termination, code, capture.result(), duration, streams)

    def connected(self) -> bool:
        """Whether it is in all networks in which it was created."""
        joined = {join.network for join in self._spec.joins}
        # The engine's own network has a name of the engine's.
        many = len(joined) + (self._spec.network is Network.OPEN)
        with engine_call("look at the container's networks"):
            found = self._api.inspect_container(self._id)["NetworkSettings"]["Networks"] or {}
        return joined <= found.keys() and len(found) >= many

    def published(self) -> int:
        """Port on the loopback address of the engine's host behind which `ContainerSpec.publish` answers.

        It exists while the container runs. May be called from another thread while `run` begins: it waits.
        """
        if not self._spec.publish:
            raise ValueError("the container publishes no port: create it with `publish`")
        with engine_call(f"find the port behind which {self._spec.publish} answers"):
            _wait(lambda: self._state()["Status"] != "created", time.monotonic() + _KILL_S)
            ports = self._api.inspect_container(self._id)["NetworkSettings"]["Ports"] or {}
        found = ports.get(f"{self._spec.publish}/tcp")
        if not found:
            raise SandboxError(
                f"port {self._spec.publish} of container {self._id[:12]} is not published: it does not run, or "
                "no network that it is in has a way out."
            )
        return int(found[0]["HostPort"])

    def host_pids(self) -> frozenset[int]:
        """Ids of its processes on the engine's host; empty when it does not run."""
        with engine_call("list the container's processes"):
            try:
                # Only the ids: the names are the agent's to choose.
                answer = self._api.top(self._id, ps_args="-eo pid")
            except APIError as error:
                # 409, or 500 from older engines: not yet running, no longer, or ended while it was looked at.
                if "is not running" not in str(error.explanation) and not self._ended():
                    raise SandboxError(f"cannot list the processes of {self._id[:12]}: {error.explanation}") from error
                return frozenset()
        # Null where the last of them ended while it was looked at.
        return frozenset(int(pid) for (pid,) in answer["Processes"] or ())

    def changes(self) -> contextlib.AbstractContextManager[Iterator[Change]]:
        """What differs from its image, one by one."""
        return changes(self._api, self._id)

    def written(self) -> int:
        """Bytes of the files that it has beyond its image; negative when the engine cannot tell."""
        with engine_call("measure the container"):
            return written(self._api, self._id)

    def stop(self) -> None:
        """End every process in it, at once, from outside."""
        with engine_call("stop the container"):
            self._kill()
        self._started = False

    def freeze(self, reference: str, *, labels: Mapping[str, str]) -> str:
        """Make an image of a stopped container and return its id."""
        repository, tag = parse_repository_tag(reference)
        with engine_call(f"freeze the container as {reference}"):
            if not self._ended():
                raise SandboxError(f"cannot freeze container {self._id[:12]} as {reference}: it runs. Stop it first.")
            base = self._api.inspect_container(self._id)["Image"]
            configuration = restored(self._api.inspect_image(base)["Config"])  # type: ignore[no-untyped-call]
            configuration["Labels"] = {**labels, **self._owner.labels("snapshot")}
            with patience(self._client, _FREEZE_S):
                answer = self._api.commit(self._id, repository=repository, tag=tag, conf=configuration)
        return cast("str", answer["Id"])

    def remove(self) -> None:
        """Remove it with its processes and anonymous volumes. Removing twice is no error."""
        with engine_call("remove the container"):
            try:
                self._api.remove_container(self._id, v=True, force=True)
            except NotFound:
                return
            except APIError as error:
                if "already in progress" not in str(error.explanation):
                    raise

    def _archive(self, path: str) -> Generator[bytes] | None:
        try:
            # As bytes: docker-py cannot send what is no UTF-8.
            chunks, _ = self._api.get_archive(self._id, os.fsencode(path))
        except NotFound:
            self._state()  # Raises when it is the container that is not there.
            return None
        except APIError as error:
            # Answered with 500 where a folder on the way is a file, and where links lead on and on. Between its words
            # stand paths that the agent chose.
            said = str(error.explanation).strip()
            if not (said.endswith("not a directory") or said.startswith(_ENDLESS)):
                raise
            return None
        return cast("Generator[bytes]", chunks)

    def _execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None,
        workdir: str,
        capture: Capture,
        *,
        deadline: float,
        kill: bool = True,
        stop: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Run a command and return its exit code, or None when it was still running at the deadline, or at a stop."""
        self._disarm()
        identifier = self._api.exec_create(
            self._id, list(argv), environment=dict(environment or {}), workdir=workdir or None
        )["Id"]

        def ended() -> bool:
            return not self._api.exec_inspect(identifier)["Running"]

        with Pump(self._api.exec_start(identifier, stream=True), capture) as pump:
            if pump.carry(deadline=deadline, ended=ended, stop=stop) and _wait(ended, deadline, stop):
                return int(self._api.exec_inspect(identifier)["ExitCode"])
            if kill:
                pump.drop_the_rest()
                self._kill()
                pump.carry(deadline=time.monotonic() + _KILL_S, ended=self._ended)
                # Not when the agent removed what the idle process needs; the files can still be had.
                with contextlib.suppress(APIError):
                    self._boot()
        return None

    def _boot(self) -> None:
        """Start it, idle or with its command."""
        self._disarm()
        self._running, self._plain = True, False
        self._api.start(self._id)

    def _disarm(self) -> None:
        """Have nothing where the engine would hang on it. Where nothing runs, what was seen once stays as it is."""
        if self._running or not self._plain:
            disarm(self._api, self._id)
            self._plain = not self._running

    def _watched(self) -> DiskWatch:
        return DiskWatch(lambda: written(self._api, self._id), self._kill, self._spec.limits.disk_bytes)

    def _kill(self) -> bool:
        """Kill the main process, and with it all; return whether there was one."""
        try:
            self._api.kill(self._id)
        except APIError as error:
            # 409, or 500 from older engines: not running. Everything else shows in the wait.
            if not self._ended():
                raise SandboxError(f"cannot kill container {self._id[:12]}: {error.explanation}") from error
            self._running = False
            return False
        if not _wait(self._ended, time.monotonic() + _KILL_S):
            raise SandboxError(f"container {self._id[:12]} still runs {_KILL_S:.0f} s after it was killed")
        self._running = False
        return True

    def _ready(self) -> int | None:
        """Have the idle process run, and return the count of kills for memory so far.

        A command may have ended it (`kill -9 -1` does). The engine notices a moment later: until then it says that the
        container runs, and refuses what is to be run there.
        """
        self._revive()
        try:
            return self._oom_kills()
        except APIError:
            if not _wait(self._ended, time.monotonic() + _KILL_S):
                raise
            self._revive()
            return self._oom_kills()

    def _revive(self) -> None:
        """Start the container again when the idle process has ended."""
        if not self._ended():
            return
        if not self._started:
            raise SandboxError(f"container {self._id[:12]} does not run: start it first")
        self._boot()

    def _state(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._api.inspect_container(self._id)["State"])

    def _ended(self) -> bool:
        return not self._state()["Running"]

    def _oom_kills(self) -> int | None:
        """The cgroup's count, read by a command in the container; None when that does not work."""
        capture = Capture(1024)
        deadline = time.monotonic() + _KILL_S
        self._execute(("/bin/cat", *_OOM_FILES), None, "/", capture, deadline=deadline, kill=False)
        found = re.search(r"^oom_kill (\d+)$", capture.result().text(), re.MULTILINE)
        return int(found[1]) if found else None

    def _oom_since(self, before: int | None) -> bool:
        if not self._ended():
            try:
                after = self._oom_kills()
            except APIError:
                # The command ended the container, too, and the engine is about to notice.
                if not _wait(self._ended, time.monotonic() + _KILL_S):
                    raise
            else:
                return before is not None and after is not None and after > before
        # The engine's flag stays set once a command was killed for memory, so that it says nothing about later ones.
        return before == 0 and bool(self._state()["OOMKilled"])


def _termination(code: int) -> Termination:
    return Termination.SIGNALLED if code in _SIGNALS else Termination.EXITED


def _wait(condition: Callable[[], bool], deadline: float, stop: Callable[[], bool] = lambda: False) -> bool:
    while not condition():
        if time.monotonic() >= deadline or stop():
            return False
        time.sleep(_POLL_S)
    return True
