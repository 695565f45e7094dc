"""A fake NVIDIA driver behind a fake engine: it prints what a test tells it, in the words of the real one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_researchenv.errors import DevicesUnavailableError, SandboxError
from pytest_researchenv.hardware import Device
from pytest_researchenv.sandbox._fakefiles import FakeFiles
from pytest_researchenv.sandbox._nvidia import APPS_QUERY, DEVICE_QUERY, MEMORY_QUERY
from pytest_researchenv.sandbox.protocol import ALL_DEVICES


__all__ = ["FakeDriver", "no_driver"]

_MIB = 1024**2

#: Between two samples of the fake monitor; much less than the real one's, so that tests are quick.
_PERIOD_S = 0.005


class FakeDriver:
    """A fake driver with some devices.

    Args:
        devices: what it has.
        version: its version.
        cuda: the CUDA version that it supports.
        recorded: command → exit code and text, for what a real driver was seen to print; wins over what is made up
            from the devices.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        *,
        version: str = "535.129.03",
        cuda: tuple[int, int] = (12, 2),
        recorded: Mapping[tuple[str, ...], tuple[int, str]] | None = None,
    ) -> None:
        self._devices = tuple(devices)
        self._version = version
        self._cuda = cuda
        self._recorded = dict(recorded or {})
        #: What the engine says when a container with devices is started, when it is set.
        self.refusal = ""
        #: Exit code and text of every answer to the monitor, when it is set.
        self.broken: tuple[int, str] | None = None
        #: Whether it hides what processes hold (`[N/A]`).
        self.hides_memory = False
        self._held: dict[tuple[int, str], int] = {}

    def check(self, wanted: tuple[str, ...]) -> None:
        """Raise what the engine raises when a container asks for devices that are not there."""
        if wanted and self.refusal:
            raise SandboxError(f"cannot start the container: {self.refusal}")
        known = {device.uuid for device in self._devices}
        if wanted != ALL_DEVICES and (strange := [uuid for uuid in wanted if uuid not in known]):
            raise SandboxError(f"cannot start the container: device error: {strange[0]}: unknown device")

    def hold(self, pid: int, device: str, memory_bytes: int) -> None:
        """Let a process of the host hold memory of a device; 0 lets go."""
        self._held[pid, device] = memory_bytes

    def answer(
        self, _files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]
    ) -> tuple[int, bytes | Iterable[bytes]]:
        """Be `nvidia-smi`."""
        if argv in self._recorded:
            code, text = self._recorded[argv]
            return code, text.encode()
        return 0, self._made(argv).encode()

    def monitor(
        self, _files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]
    ) -> tuple[int, bytes | Iterable[bytes]]:
        """Be the monitor's loop."""
        return 0, self._samples()

    def _made(self, argv: tuple[str, ...]) -> str:
        if argv == DEVICE_QUERY:
            return "".join(
                f"{one.index}, {one.uuid}, {one.name}, {one.memory_bytes // _MIB}, "
                f"{one.compute_capability[0]}.{one.compute_capability[1]}, {self._version}\n"
                for one in self._devices
            )
        if argv == MEMORY_QUERY:
            return self._levels()
        if argv == APPS_QUERY:
            return self._apps()
        if argv[1:] == ("-L",):
            return "".join(f"GPU {one.index}: {one.name} (UUID: {one.uuid})\n" for one in self._devices)
        major, minor = self._cuda
        return (
            f"| NVIDIA-SMI {self._version}             Driver Version: {self._version}   "
            f"CUDA Version: {major}.{minor}     |\n"
        )

    def _samples(self) -> Iterator[bytes]:
        while True:
            if self.broken:
                code, text = self.broken
                yield f"{text}\n#memory {code}\n".encode()
            yield f"{self._levels()}#memory 0\n{self._apps()}#apps 0\n".encode()
            time.sleep(_PERIOD_S)

    def _levels(self) -> str:
        held = dict(self._held)
        used = {one.uuid: sum(size for (_, uuid), size in held.items() if uuid == one.uuid) for one in self._devices}
        return "".join(f"{uuid}, {size // _MIB}\n" for uuid, size in used.items())

    def _apps(self) -> str:
        held = {key: size for key, size in dict(self._held).items() if size}
        return "".join(
            f"{pid}, {uuid}, {'[N/A]' if self.hides_memory else size // _MIB}\n" for (pid, uuid), size in held.items()
        )


def no_driver(wanted: tuple[str, ...]) -> None:
    """Raise what an engine without a driver answers when a container asks for devices."""
    if wanted:
        raise DevicesUnavailableError(
            'cannot start the container: could not select device driver "" with capabilities: [[gpu utility compute]]'
        )
