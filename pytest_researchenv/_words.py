"""The field's words as enumerations, for `model.py` to hand on."""

from __future__ import annotations

from enum import StrEnum


__all__ = ["Cause", "Examination", "Parallel", "SabotageKind", "Tier", "Verdict", "judged_named"]


class Tier(StrEnum):
    """One level of the pyramid of runtime verification (arXiv 2603.06739)."""

    C0 = "C0"
    C1 = "C1"
    C2 = "C2"
    C3 = "C3"
    C4 = "C4"
    C5 = "C5"

    @property
    def heading(self) -> str:
        """What the tier verifies, in the field's words."""
        return _TITLES[self]


_TITLES = {
    Tier.C0: "static imports",
    Tier.C1: "CPU execution",
    Tier.C2: "hardware alignment",
    Tier.C3: "single-GPU execution",
    Tier.C4: "multi-GPU execution",
    Tier.C5: "capability hallucination",
}


class Examination(StrEnum):
    """What is judged beside the six tiers, and counted apart from them."""

    INTEGRITY = "integrity"

    @property
    def heading(self) -> str:
        """What it verifies, in words."""
        return "audit"


def judged_named(name: str) -> Tier | Examination:
    """Return the tier of a name, or what is judged beside the tiers.

    Raises:
        ValueError: nothing is called so.
    """
    return Tier(name) if name in Tier.__members__ else Examination(name)


class Verdict(StrEnum):
    """What a tier came to. Errors and skips never enter a success rate."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """Why a tier did not pass."""

    NONE = "none"
    MISSING_IMPORTS = "missing imports"
    NO_REPORT = "no self-report"
    INVALID_REPORT = "invalid self-report"
    BROKEN_ENVIRONMENT = "broken environment"
    EXIT_CODE = "non-zero exit"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out of memory"
    TIMEOUT = "timeout"
    DISK_FULL = "disk limit reached"
    NO_EVIDENCE = "missing evidence"
    FALSE_CLAIMS = "false claims"
    TAMPERED = "tampered environment"
    NOT_APPLICABLE = "not applicable"
    NO_PROBE = "no probe yet"
    NO_RUNNER = "no runner yet"
    DEFECTIVE_UPSTREAM = "defective upstream"
    HARDWARE_MISMATCH = "hardware mismatch"
    INSUFFICIENT_HARDWARE = "insufficient hardware"
    INFRASTRUCTURE = "infrastructure"


class Parallel(StrEnum):
    """What kind of multi-device work a repository's C4 shows."""

    #: Ranks of one process group exchanged values.
    COLLECTIVE = "collective"
    #: One process placed parts of a model on several devices.
    PLACEMENT = "placement"
    #: The repository's own launcher ran separate ranks that need not talk.
    INDEPENDENT = "independent"


class SabotageKind(StrEnum):
    """How a working environment is broken to see whether the probes notice."""

    #: A package is uninstalled.
    PACKAGE = "package"
    #: A pinned framework is replaced by a version that does not fit.
    VERSION = "version"
    #: The tracked entry point does nothing, and ends well.
    ENTRY = "entry"
