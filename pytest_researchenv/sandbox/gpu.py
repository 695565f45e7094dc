"""What accelerators the container engine's host has, and who holds their memory.

Everything is asked in a container from our own base image: pytest may run on another machine than the engine, and an
image that an agent made is not to be trusted with its own judgement.
"""

from __future__ import annotations

import time

from pytest_researchenv.errors import DevicesUnavailableError, InfrastructureError, SandboxError
from pytest_researchenv.hardware import Accelerator, Hardware
from pytest_researchenv.sandbox._monitor import DeviceUse, monitored
from pytest_researchenv.sandbox._nvidia import (
    APPS_QUERY,
    DEVICE_QUERY,
    HELD_BYTES,
    MEMORY_QUERY,
    absence,
    parse_cuda,
    parse_devices,
    parse_holdings,
    parse_instances,
    parse_memory,
    users_of,
)
from pytest_researchenv.sandbox.protocol import ALL_DEVICES, Completed, Container, ContainerSpec, Sandbox


__all__ = ["HELD_BYTES", "DeviceUse", "detect", "monitored", "occupied"]

#: Without the driver's persistence mode each call initialises every device: some seconds each.
_PATIENCE_S = 120.0

_NOT_FOUND = (126, 127)

#: What was just used is let go of within this time, in seconds: who still holds it then is a stranger.
_LETTING_GO_S = 5.0
_PERIOD_S = 1.0


def detect(sandbox: Sandbox, image: str) -> Hardware:
    """Find out what devices containers can get.

    No list of the engine's runtimes is asked first: an engine gives devices without one (it looks for the toolkit's
    hook), and where it cannot, it says so at once (0.1 s measured).

    Args:
        sandbox: the engine.
        image: our base image.

    Returns:
        What there is; without any device, hardware of the CPU whose `reason` says why.

    Raises:
        InfrastructureError: there is a driver, but it does not work or cannot be understood.
    """
    try:
        return _asked(sandbox, image)
    except DevicesUnavailableError as error:
        return _nothing(str(error))
    except SandboxError as error:
        if reason := absence(str(error)):
            return _nothing(reason)
        raise InfrastructureError(
            f"the container engine has devices but cannot give them to a container: {error}. "
            "Try `docker run --rm --gpus all` by hand, or run with --researchenv-accelerator=cpu."
        ) from error


def occupied(sandbox: Sandbox, image: str, devices: tuple[str, ...]) -> dict[str, str]:
    """Say which of some devices somebody uses, and what was seen of it: uuid → words.

    Args:
        sandbox: the engine.
        image: our base image.
        devices: uuids of devices that no container of ours uses.

    Raises:
        InfrastructureError: the driver does not answer.
    """
    with sandbox.opened(ContainerSpec(image, devices=devices, host_pids=True)) as container:
        container.start()
        deadline = time.monotonic() + _LETTING_GO_S
        while (found := _users(container, devices)) and time.monotonic() < deadline:
            time.sleep(_PERIOD_S)
        return found


def _users(container: Container, devices: tuple[str, ...]) -> dict[str, str]:
    memory, apps = (_nvidia_smi(container, *query[1:]) for query in (MEMORY_QUERY, APPS_QUERY))
    for answer in (memory, apps):
        if not answer.ok:
            raise _failed(answer)
    return users_of(devices, parse_memory(memory.output.text()), parse_holdings(apps.output.text()))


def _nothing(reason: str) -> Hardware:
    return Hardware(Accelerator.CPU, reason=reason)


def _asked(sandbox: Sandbox, image: str) -> Hardware:
    with sandbox.opened(ContainerSpec(image, devices=ALL_DEVICES)) as container:
        container.start()
        answer = _nvidia_smi(container, *DEVICE_QUERY[1:])
        text = answer.output.text()
        if answer.exit_code in _NOT_FOUND:
            return _nothing(f"nvidia-smi is not in a container with devices: {text.strip()}")
        if reason := absence(text):
            return _nothing(f"nvidia-smi: {reason}")
        if not answer.ok:
            raise _failed(answer)
        devices, driver = parse_devices(text)
        header = _nvidia_smi(container)
        listing = _nvidia_smi(container, "-L")
        for more in (header, listing):
            if not more.ok:
                raise _failed(more)
        return Hardware(
            Accelerator.CUDA,
            devices=parse_instances(listing.output.text(), devices),
            driver=driver,
            cuda=parse_cuda(header.output.text()),
        )


def _nvidia_smi(container: Container, *arguments: str) -> Completed:
    return container.exec(("nvidia-smi", *arguments), timeout_s=_PATIENCE_S)


def _failed(answer: Completed) -> InfrastructureError:
    said = " ".join(answer.output.text().split())[:500] or "(nothing printed)"
    if "not a valid field" in said:
        return InfrastructureError(
            f"{answer.command} {answer.how}: {said}. The NVIDIA driver on the container engine's host is too old to be "
            "asked: update it to 510 or newer, or run with --researchenv-accelerator=cpu."
        )
    return InfrastructureError(
        f"{answer.command} {answer.how}: {said}. The NVIDIA driver on the container engine's host does not work; "
        "after an update of the driver, reload its module or reboot. Or run with --researchenv-accelerator=cpu."
    )
