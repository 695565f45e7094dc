"""Versions of this package, and of what it needs."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from pytest_researchenv.doctor.values import Finding, State


__all__ = ["requirement_finding", "version_findings"]

_OURS = "pytest-researchenv"
_SHOWN = ("pytest", "pytest-xdist", "docker", "pydantic")


def version_findings() -> tuple[Finding, ...]:
    """Say which version this is, and whether it has what it needs."""
    try:
        ours, needed = version(_OURS), [Requirement(line) for line in requires(_OURS) or ()]
    except PackageNotFoundError:
        fix = f"`pip install {_OURS}`, or `pip install -e .` in a clone: pytest finds the plugin only then"
        return (Finding("version", State.PROBLEM, f"{_OURS} is not installed", fix),)
    return (
        Finding("version", State.OK, f"{_OURS} {ours}, Python {platform.python_version()}"),
        requirement_finding(needed),
    )


def requirement_finding(needed: list[Requirement]) -> Finding:
    """Say which requirements do not hold."""
    wrong = []
    for one in needed:
        # Extras are for those who want them.
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(one.name)
        except PackageNotFoundError:
            wrong.append(f"{one.name} is missing")
            continue
        if not one.specifier.contains(found, prereleases=True):
            wrong.append(f"{one.name} is {found}, and {one.specifier} is needed")
    if wrong:
        fix = f"`pip install --upgrade {_OURS}` in this environment"
        return Finding("distributions", State.PROBLEM, "; ".join(wrong), fix)
    return Finding("distributions", State.OK, ", ".join(f"{name} {version(name)}" for name in _SHOWN))
