"""What no engine is asked for, since it would not do what was meant."""

from __future__ import annotations

from pathlib import PurePosixPath

from pytest_researchenv.sandbox.protocol import ContainerSpec, Network


__all__ = ["check_in_files", "check_spec"]


def check_spec(spec: ContainerSpec) -> None:
    """Check what a container is to be created from.

    Raises:
        ValueError: it contradicts itself.
    """
    if spec.argv is not None and not spec.argv:
        raise ValueError("argv is empty: give a command, or None for an idle container")
    if spec.argv is None and (spec.environment or spec.workdir):
        raise ValueError(
            "an idle container takes no environment and no workdir, they would be frozen: pass them to exec"
        )
    if spec.scratch and (not spec.scratch.startswith("/") or spec.scratch.strip("/") == ""):
        raise ValueError(f"scratch is {spec.scratch!r}: give the absolute path of a folder")
    if spec.publish and spec.network is Network.NONE and not spec.joins:
        raise ValueError(f"port {spec.publish} cannot be published without a network: give one, or join one")


def check_in_files(spec: ContainerSpec, path: str) -> None:
    """Check that a path is not in the folder in memory.

    The engine does not see what is mounted there: what it puts there lands below the mount point, unseen in the
    container, and is frozen (tried).

    Raises:
        ValueError: it is.
    """
    if spec.scratch and PurePosixPath(path).is_relative_to(spec.scratch):
        raise ValueError(f"{path} is in memory, out of the engine's reach: write and read it by exec")
