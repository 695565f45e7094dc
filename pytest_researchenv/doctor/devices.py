"""Accelerators: what containers get, asked as a session asks."""

from __future__ import annotations

from pytest_researchenv.doctor.engine import LookedAt
from pytest_researchenv.doctor.values import Finding, State, gib
from pytest_researchenv.hardware import Accelerator, Hardware
from pytest_researchenv.sandbox.gpu import detect


__all__ = ["device_findings"]

_RUNTIME, _DEVICES = "GPU runtime", "devices"

_INSTALL = (
    "install the NVIDIA driver and the NVIDIA Container Toolkit on the engine's host, run "
    "`sudo nvidia-ctk runtime configure --runtime=docker`, and restart the engine"
)


def device_findings(engine: LookedAt, accelerator: str) -> tuple[Finding, ...]:
    """Say what accelerators containers get.

    Args:
        engine: the engine.
        accelerator: what is asked for: `auto`, `cuda` or `cpu`.

    Raises:
        InfrastructureError: there is a driver, but it does not work.
    """
    if accelerator == Accelerator.CPU:
        return (Finding(_DEVICES, State.SKIPPED, "not asked for: C2 to C4 are emulated on the CPU"),)
    if engine.sandbox is None:
        return (Finding(_DEVICES, State.SKIPPED, "no container engine to ask"),)
    runtime = _runtime(engine)
    image = engine.base_image()
    if not image:
        return (
            runtime,
            Finding(
                _DEVICES,
                State.WARNING if accelerator == Accelerator.CUDA else State.SKIPPED,
                "not asked: that takes a base image, and none was made yet",
                "the first run makes one: `pytest --researchenv-suite=quickstart --researchenv-agent=noop`",
            ),
        )
    return runtime, hardware_finding(detect(engine.sandbox, image), accelerator)


def hardware_finding(found: Hardware, accelerator: str) -> Finding:
    """Say what was detected, and whether that is enough."""
    if found.devices:
        kinds = dict.fromkeys(
            f"{device.name}, {gib(device.memory_bytes)}, compute capability {_dotted(device.compute_capability)}"
            for device in found.devices
        )
        cuda = _dotted(found.cuda)
        return Finding(
            _DEVICES, State.OK, f"{len(found.devices)} ({'; '.join(kinds)}); driver {found.driver}, CUDA up to {cuda}"
        )
    wanted = accelerator == Accelerator.CUDA
    return Finding(
        _DEVICES,
        State.PROBLEM if wanted else State.WARNING,
        f"none: {found.reason}" if found.reason else "none",
        f"{'C2 to C4 would be skipped' if wanted else 'C2 to C4 are emulated on the CPU'}; for real ones {_INSTALL}",
    )


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


def _runtime(engine: LookedAt) -> Finding:
    named = sorted(str(name) for name in engine.info.get("Runtimes") or () if "nvidia" in str(name).lower())
    if named:
        return Finding(_RUNTIME, State.OK, ", ".join(named))
    # An engine gives devices without one, too: it looks for the toolkit's hook, or for CDI.
    return Finding(_RUNTIME, State.SKIPPED, "the engine names none; devices can come without")
