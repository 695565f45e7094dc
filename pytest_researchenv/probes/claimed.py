"""Compare what a self-report claims with what was observed."""

from __future__ import annotations

import json
import re

from packaging.version import InvalidVersion, Version


__all__ = ["false_version", "shown", "version_word"]

#: How much of a claim a reason quotes.
_SHOWN = 80


def false_version(claimed: str, observed: str) -> bool:
    """Whether a claimed version is another than the observed one, by PEP 440.

    Fewer parts claim less (`3.11` holds for 3.11.2), and a local tag is compared only where both have one: package
    indices leave it out of the version that torch itself knows (`2.5.0` and `2.5.0+cpu`).
    """
    if claimed == observed:
        return False
    try:
        claim = Version(claimed)
    except InvalidVersion:
        return True
    try:
        there = Version(observed)
    except InvalidVersion:
        return claimed != observed
    if claim.local and there.local and claim.local != there.local:
        return True
    if Version(claim.public) == Version(there.public):
        return False
    plain = claim.base_version == claim.public
    shorter = len(claim.release) < len(there.release) and there.release[: len(claim.release)] == claim.release
    return not (plain and shorter and claim.epoch == there.epoch)


def version_word(claimed: str) -> str:
    """Return the version among what interpreters print about themselves: `Python 3.11.2`, or all of `sys.version`."""
    found = re.match(r"(?:c?python\s+)?(\d\S*)", claimed.strip(), re.IGNORECASE)
    return found[1] if found else claimed


def shown(claim: object) -> str:
    """Return a claim as JSON, in ASCII and cut: it goes into reasons and reports."""
    text = json.dumps(claim)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
