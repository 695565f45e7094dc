"""Who holds how much of a device's memory while a probe runs, as the driver tells it.

A container beside the probe's, from our own image and with sight of the host's processes, asks the driver several times
a second; the engine tells which process ids are the probe's. Nothing inside the probe's container takes part.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.sandbox._ledger import Ledger
from pytest_researchenv.sandbox._nvidia import APPS_QUERY, MEMORY_QUERY, parse_holdings, parse_memory
from pytest_researchenv.sandbox.labels import LIFETIME_S
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Limits, Sandbox


__all__ = ["MONITOR", "DeviceUse", "monitored"]

#: Between two samples, in seconds; a sample itself takes some tens of milliseconds.
_PERIOD_S = 0.2

#: How long the first sample may take: without persistence mode the driver initialises every device first.
_START_S = 120.0

_STOP_S = 30.0

_LIMITS = Limits(memory_bytes=1024**3, pids=256, shm_bytes=64 * 1024**2)

_MEMORY = "#memory"
_APPS = "#apps"

_SAMPLE = f'{" ".join(MEMORY_QUERY)}; echo "{_MEMORY} $?"; {" ".join(APPS_QUERY)}; echo "{_APPS} $?"'

#: What the container beside the probe's runs: each answer is followed by what it was and how the command ended.
MONITOR = ("sh", "-c", f"while :; do {_SAMPLE}; sleep {_PERIOD_S}; done")


class _Recorder:
    """Takes what the sidecar prints and the engine says, in two threads."""

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.devices = devices
        self.changed = threading.Condition()
        self.watched: list[Container] = []
        self.pids: set[int] = set()
        self.ledger = Ledger(devices)
        #: Samples taken while a watched container ran.
        self.samples = 0
        self.failure = ""
        self.ending = threading.Event()
        self._running = False
        self._block: list[str] = []
        self._rest = b""

    def check(self) -> None:
        """Raise when there was a failure."""
        if self.failure:
            raise InfrastructureError(
                f"the use of the devices could not be observed: {self.failure}. "
                "Look at `nvidia-smi` on the container engine's host."
            )

    def fail(self, reason: str) -> None:
        with self.changed:
            self.failure = self.failure or reason
            self.changed.notify_all()

    def await_first(self) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: bool(self.ledger.samples or self.failure), _START_S):
                self.failure = f"no answer of nvidia-smi within {_START_S:.0f} s"
            self.check()

    def run(self, sidecar: Container) -> None:
        """Read the sidecar's samples until it is stopped."""
        try:
            ended = sidecar.run(timeout_s=LIFETIME_S, on_output=self.feed, capture_bytes=4096)
        except SandboxError as error:
            problem = str(error)
        else:
            problem = f"the monitor {ended.how}: {' '.join(ended.output.text().split())[-300:]}"
        if not self.ending.is_set():
            self.fail(problem)

    def follow(self) -> None:
        """Ask which processes the watched containers have, again and again."""
        while not self.ending.wait(_PERIOD_S):
            with self.changed:
                watched = list(self.watched)
            found: set[int] = set()
            for container in watched:
                # Removed, or a hiccup: asked again next time. Without any answer no sample counts, which is told.
                with contextlib.suppress(SandboxError):
                    found |= container.host_pids()
            with self.changed:
                self.pids |= found
                self._running = bool(found)

    def feed(self, chunk: bytes) -> None:
        """Take what the sidecar printed."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").strip()
            if not text.startswith((_MEMORY, _APPS)):
                self._block.append(text)
                continue
            block, self._block = "\n".join(self._block), []
            kind, _, code = text.partition(" ")
            if code != "0":
                self.fail(f"nvidia-smi exited with code {code}: {block[:300]}")
            else:
                self._take(kind, block)

    def _take(self, kind: str, block: str) -> None:
        with self.changed:
            if kind == _MEMORY:
                self.ledger.levels(parse_memory(block))
                return
            self.ledger.holdings(parse_holdings(block), ours=self.pids, running=self._running)
            self.samples += self._running
            self.changed.notify_all()


class DeviceUse:
    """What was seen of some devices' memory; made by `monitored`."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def watch(self, container: Container) -> None:
        """Count what the processes of a container hold from now on; call it before the container runs."""
        with self._recorder.changed:
            self._recorder.watched.append(container)

    @property
    def samples(self) -> int:
        """How many samples were taken while a watched container ran; with none, nothing was observed."""
        with self._recorder.changed:
            return self._recorder.samples

    def await_sample(self, timeout_s: float) -> bool:
        """Wait for a sample that began after this call, with a watched container running; tell whether there was one.

        Raises:
            InfrastructureError: the driver stopped answering.
        """
        seen = self._recorder
        with seen.changed:
            # The next one to end may have begun before.
            wanted = seen.samples + 2
            there = seen.changed.wait_for(lambda: bool(seen.failure) or seen.samples >= wanted, timeout_s)
            seen.check()
            return there

    def peaks(self) -> dict[str, int]:
        """Most memory in bytes that the watched containers held of each device at once; a lower bound.

        Raises:
            InfrastructureError: the driver stopped answering, so that a low figure would mean nothing.
        """
        seen = self._recorder
        with seen.changed:
            seen.check()
            return {device: seen.ledger.peak(device, seen.pids) for device in seen.devices}

    def source(self, device: str) -> str:
        """What the figure for a device is, in words for the evidence."""
        with self._recorder.changed:
            return self._recorder.ledger.source(device, self._recorder.pids)


@contextlib.contextmanager
def monitored(sandbox: Sandbox, *, image: str, devices: tuple[str, ...]) -> Iterator[DeviceUse]:
    """Observe the use of some devices during the block; in it, `watch` the containers that count.

    The block begins when the first sample was taken, so that what was there before is known.

    Args:
        sandbox: the engine.
        image: our base image.
        devices: uuids of the devices.

    Raises:
        InfrastructureError: the driver does not answer, at the start or later.
    """
    if len(devices) > 1 and any(uuid.startswith("MIG-") for uuid in devices):
        raise InfrastructureError(
            f"the use of several instances of split devices cannot be told apart: {', '.join(devices)}. "
            "Give such a tier whole devices, or one instance."
        )
    recorder = _Recorder(devices)
    spec = ContainerSpec(image, argv=MONITOR, devices=devices, host_pids=True, limits=_LIMITS)
    with sandbox.opened(spec) as sidecar:
        threads = (
            threading.Thread(target=recorder.run, args=(sidecar,), name="researchenv-devices", daemon=True),
            threading.Thread(target=recorder.follow, name="researchenv-pids", daemon=True),
        )
        for thread in threads:
            thread.start()
        try:
            recorder.await_first()
            yield DeviceUse(recorder)
        finally:
            recorder.ending.set()
            _end(sidecar, threads)
    recorder.check()


def _end(sidecar: Container, threads: tuple[threading.Thread, ...]) -> None:
    deadline = time.monotonic() + _STOP_S
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        # Again and again: interrupted early, the sidecar may be about to start.
        sidecar.stop()
        for thread in threads:
            thread.join(1)
