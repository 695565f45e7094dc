"""What dead runs left in the engine, and what is kept for later ones."""

from __future__ import annotations

from pytest_researchenv.doctor.engine import LookedAt
from pytest_researchenv.doctor.values import Finding, State, gib
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import Left, left


__all__ = ["left_findings", "leftover_findings"]

_LEFT, _KEPT, _PACKAGES = "left by dead runs", "kept for later runs", "package cache"


def leftover_findings(engine: LookedAt) -> tuple[Finding, ...]:
    """Count it.

    Raises:
        SandboxError: the engine does not answer.
    """
    if engine.client is None:
        return (Finding(_LEFT, State.SKIPPED, "no container engine to ask"),)
    return left_findings(left(engine.client, owner=Owner.current("doctor")))


def left_findings(found: Left) -> tuple[Finding, ...]:
    """Say it in words."""
    dead = f"{found.containers} containers, {found.networks} networks, {found.volumes} volumes"
    fix = "`researchenv reap` removes it, and so does the next run"
    return (
        Finding(_LEFT, State.WARNING, dead, fix) if found.dead else Finding(_LEFT, State.OK, "nothing"),
        Finding(
            _KEPT,
            State.OK,
            f"{found.kept_images} images, {found.kept_volumes} volumes of this host; environments add "
            f"{gib(found.kept_bytes)} to their base images"
            + ("; `researchenv reap --all` removes them" if found.kept_images or found.kept_volumes else ""),
        ),
        *_cached(found),
    )


def _cached(found: Left) -> tuple[Finding, ...]:
    if not found.cached_bytes:
        return ()
    return (Finding(_PACKAGES, State.OK, f"{gib(found.cached_bytes)} kept; `researchenv reap --packages` empties it"),)
