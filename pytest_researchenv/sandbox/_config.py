"""How a container's configuration is made from an image's, and made back into it when the container is frozen.

`docker commit` keeps the container's environment, command, entry point, health check and labels; what is passed to it
overrides but never removes (tried). So an idle container is made such that nothing needs removing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docker.types import DeviceRequest, LogConfig
from docker.types import Mount as DockerMount

from pytest_researchenv.sandbox.labels import LIFETIME_S
from pytest_researchenv.sandbox.protocol import ALL_DEVICES, ContainerSpec


__all__ = ["container_options", "restored"]

#: What apt and pip need as root, and no more (tried: apt fails without any one of them).
_CAPABILITIES = ("SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "FOWNER")

#: Ends by itself when nothing can need the container any more. Ignores the signals of a careless `pkill sleep`, since
#: with it the container ends.
_IDLE = ("sh", "-c", f"trap '' TERM INT HUP; exec sleep {LIFETIME_S}")

#: What the driver's toolkit mounts into a container with devices: `utility` is nvidia-smi, `compute` is CUDA. No driver
#: is named: a daemon that has one finds it by capability, and one that has none says so in the same words.
_DEVICE_CAPABILITIES = [["gpu", "utility", "compute"]]

#: At most so much goes into a folder in memory, in bytes, and at most half of the container's memory, where it counts.
_SCRATCH_BYTES = 1024**3


def container_options(spec: ContainerSpec, image: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of docker-py's `containers.create`, save those of `network_options`.

    Args:
        spec: what is wanted.
        image: the image's configuration as the engine reports it.
        labels: our own labels; they win.
    """
    options: dict[str, Any] = {
        "environment": dict(spec.environment),
        "hostname": "localhost",  # Without a name that resolves, torchrun hangs for 300 s (tried).
        "init": True,
        "labels": {**spec.labels, **labels},
        "log_config": LogConfig(type="none"),
        "mounts": [_mount(mount.volume, mount.target) for mount in spec.mounts],
        "use_config_proxy": False,  # It would add the user's proxies to the environment, and so to the frozen image.
    }
    options |= _hardening(spec)
    if spec.argv is not None:
        # Its stdin is a pipe that ends after what `run` is given, be it nothing.
        options |= {"entrypoint": list(spec.argv), "stdin_open": True}
    elif image.get("Cmd") and not image.get("Entrypoint"):
        options |= {"command": list(_IDLE)}
    else:
        options |= {"entrypoint": list(_IDLE)}
    if spec.scratch:
        # Docker's own default is noexec, and a tool may unpack a program there.
        size = min(_SCRATCH_BYTES, spec.limits.memory_bytes // 2)
        options["tmpfs"] = {spec.scratch: f"rw,exec,nosuid,nodev,mode=1777,size={size}"}
    if spec.workdir:
        options["working_dir"] = spec.workdir
    if image.get("Healthcheck"):
        options["healthcheck"] = {"test": ["NONE"]}
    if spec.devices:
        options["device_requests"] = [_devices(spec.devices)]
    if spec.host_pids:
        options["pid_mode"] = "host"
    return options


def restored(image: Mapping[str, Any]) -> dict[str, Any]:
    """Configuration to pass to commit, so that the frozen image's equals the base image's.

    Args:
        image: the base image's configuration as the engine reports it.
    """
    # An empty entry point, unlike none, keeps commit from taking the container's.
    configuration: dict[str, Any] = {"Cmd": image.get("Cmd")}
    if image.get("Entrypoint") or not image.get("Cmd"):
        configuration["Entrypoint"] = image.get("Entrypoint") or []
    if image.get("Healthcheck"):
        configuration["Healthcheck"] = image["Healthcheck"]
    return configuration


def _hardening(spec: ContainerSpec) -> dict[str, Any]:
    limits = spec.limits
    options: dict[str, Any] = {
        "cap_drop": ["ALL"],
        "cap_add": list(_CAPABILITIES),
        "security_opt": ["no-new-privileges"],
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "pids_limit": limits.pids,
        "shm_size": limits.shm_bytes,
    }
    if limits.cpus is not None:
        options["nano_cpus"] = round(limits.cpus * 1e9)
    return options


def _devices(uuids: tuple[str, ...]) -> DeviceRequest:
    if uuids == ALL_DEVICES:
        return DeviceRequest(count=-1, capabilities=_DEVICE_CAPABILITIES)
    return DeviceRequest(device_ids=list(uuids), capabilities=_DEVICE_CAPABILITIES)


def _mount(volume: str, target: str) -> DockerMount:
    # no_copy: an empty volume would be filled from the image's folder.
    return DockerMount(target, volume, type="volume", read_only=True, no_copy=True)
