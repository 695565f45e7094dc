"""The words of a diagnosis."""

from __future__ import annotations

from enum import StrEnum


__all__ = ["Category", "Confidence", "Origin", "Where"]


class Category(StrEnum):
    """What kind of cause it is: the rows of every breakdown."""

    MISSING_PACKAGE = "missing package"
    NATIVE_EXTENSION = "native extension missing or ABI mismatch"
    TOOLING = "auxiliary tooling missing"
    MIXED_STACK = "mixed framework stack"
    VERSION_CONFLICT = "version conflict"
    SYSTEM_LIBRARY = "system library"
    DEVICE = "driver or architecture mismatch"
    OUT_OF_MEMORY = "out of memory"
    DISK_FULL = "disk full"
    TIMEOUT = "timeout"
    NETWORK = "network or asset"
    INTERPRETER = "wrong interpreter"
    ENTRY_POINT = "entry point misused"
    REPOSITORY_CODE = "repository code"
    WRONG_OUTPUT = "wrong output"
    FALSE_CLAIMS = "false claims"
    TAMPERING = "tampering"
    REPORT = "unusable self-report"
    GAVE_UP = "agent gave up"
    OUT_OF_BUDGET = "agent out of budget"
    DEFECTIVE_UPSTREAM = "defective upstream"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"

    @property
    def meaning(self) -> str:
        """What counts as this, in one sentence."""
        return _MEANINGS[self]


class Confidence(StrEnum):
    """How far a diagnosis can be trusted."""

    #: The record itself says so, or the words have one meaning only.
    CERTAIN = "certain"
    #: The words usually mean this.
    LIKELY = "likely"
    #: A guess from where and how it broke.
    POSSIBLE = "possible"
    #: No rule knows what happened.
    NONE = "none"


class Where(StrEnum):
    """Where a rule's texts are looked for."""

    #: In the exceptions that ended the run, the last first, and in what the record calls decisive.
    EXCEPTIONS = "exceptions"
    #: In every line; the first that fits is decisive, as of compilers and installers.
    FIRST = "first line"
    #: In every line; the last that fits is decisive.
    LAST = "last line"


class Origin(StrEnum):
    """Whose code raised the exception that ended the run."""

    PROBE = "probe"
    REPOSITORY = "repository"
    ELSEWHERE = "elsewhere"


_MEANINGS = {
    Category.MISSING_PACKAGE: "A Python package that the code imports is not installed.",
    Category.NATIVE_EXTENSION: "Compiled code is missing, or was built for another framework, Python or NumPy.",
    Category.TOOLING: "A program that the code or a build calls is not there: git, ninja, a compiler, ffmpeg.",
    Category.MIXED_STACK: "Parts of one framework come from builds that do not belong together.",
    Category.VERSION_CONFLICT: "A package is there in a version that does not fit the code or another package.",
    Category.SYSTEM_LIBRARY: "The operating system lacks a shared library or a header, or has too old a one.",
    Category.DEVICE: "Driver, devices and what the framework was built for do not agree.",
    Category.OUT_OF_MEMORY: "The memory of the host or of a device did not suffice.",
    Category.DISK_FULL: "There was no room left on disk, or in shared memory.",
    Category.TIMEOUT: "It did not end in its time.",
    Category.NETWORK: "Something had to be fetched and could not be, or a file of weights or data is not there.",
    Category.INTERPRETER: "The reported interpreter is missing, cannot be started, or has the wrong version.",
    Category.ENTRY_POINT: "A command or script was called in a way that it does not take.",
    Category.REPOSITORY_CODE: "The repository's own code broke, or is not the code that was pinned.",
    Category.WRONG_OUTPUT: "It ended, and what it left is not what was to be seen.",
    Category.FALSE_CLAIMS: "The self-report claims what is not so.",
    Category.TAMPERING: "The environment could forge its results.",
    Category.REPORT: "There is a self-report, and nothing can be judged by it.",
    Category.GAVE_UP: "The agent ended its work without a self-report.",
    Category.OUT_OF_BUDGET: "The agent's time, tokens, requests or money ended before its work did.",
    Category.DEFECTIVE_UPSTREAM: "The pinned revision itself cannot pass.",
    Category.INFRASTRUCTURE: "The harness or what it runs on broke: nobody's verdict.",
    Category.UNKNOWN: "No rule fits.",
}
