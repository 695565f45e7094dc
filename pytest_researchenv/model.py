"""The values that cross module borders.

Plain frozen dataclasses: importing this module imports nothing heavy.
`suite.py` and `store.py` read and write them with pydantic, which honours the annotations here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from pytest_researchenv._sources import STRICT, GitSource, PathSource, PypiSource, Source


__all__ = [
    "NO_SELF_REPORT",
    "UNFREEZABLE",
    "Cause",
    "Environment",
    "EnvironmentKey",
    "Evidence",
    "FileEvidence",
    "Finding",
    "FindingKind",
    "GitSource",
    "ImportPolicy",
    "JsonEvidence",
    "Parallel",
    "PathSource",
    "PypiSource",
    "Repository",
    "SelfReport",
    "Source",
    "Tier",
    "TierResult",
    "TierSpec",
    "Verdict",
]


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
    NOT_APPLICABLE = "not applicable"
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


# --- repositories -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """A file that a probe must have written.

    Attributes:
        path: path in the probe's container; may use the placeholders of `TierSpec.argv` and shell wildcards.
        min_bytes: smallest size in bytes that counts.
    """

    __pydantic_config__: ClassVar = STRICT

    path: str
    min_bytes: int = 1


@dataclass(frozen=True, slots=True)
class JsonEvidence:
    """A finite number in a JSON file that a probe must have written.

    Attributes:
        path: as in `FileEvidence`.
        field: keys joined by dots, list indices as numbers (`losses.0`).
        min: smallest value that counts, inclusive.
        max: largest value that counts, inclusive.
        equals: the only value that counts, of any JSON type.
    """

    __pydantic_config__: ClassVar = STRICT

    path: str
    field: str
    min: float | None = None
    max: float | None = None
    equals: bool | int | float | str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What must be seen besides exit code 0 before a tier passes.

    Attributes:
        files: files that must exist.
        json: values that JSON files must hold.
        output: regular expressions (Python `re`, multi-line) that the output must match.
        parallel: the kind of multi-device work that must have been seen (C4, where it must be given).
    """

    __pydantic_config__: ClassVar = STRICT

    files: tuple[FileEvidence, ...] = ()
    json: tuple[JsonEvidence, ...] = ()
    output: tuple[str, ...] = ()
    parallel: Parallel | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is demanded."""
        return not (self.files or self.json or self.output)


@dataclass(frozen=True, slots=True)
class TierSpec:
    """How one tier of one repository is probed.

    Attributes:
        supported: whether the tier applies.
        skip_reason: why it does not.
        argv: the command, one argument an item, with the placeholders `{python}` (reported interpreter), `{repo}`
            (repository folder), `{out}` (writable output folder), `{device}` (`cpu` or `cuda`), `{nproc}` (ranks to
            start) and `{observer}` (C3, C4: a script that takes a Python script and its arguments, runs it unchanged,
            and records what its process saw).
        probe: instead of `argv`, a Python script in the repository's suite folder, run by the reported interpreter.
            It gets the environment variables `RESEARCHENV_REPO`, `_OUT`, `_DEVICE`, `_NPROC`, `_OBSERVER`.
        workdir: working directory, with placeholders.
        timeout_s: wall time limit in seconds.
        memory_gb: limit of its memory, in GiB.
        environment: variables added to the probe's world, with placeholders.
        assets: names of assets that the harness mounts; the network is off when there are none.
        evidence: what must be seen.
    """

    __pydantic_config__: ClassVar = STRICT

    supported: bool = True
    skip_reason: str = ""
    argv: tuple[str, ...] = ()
    probe: str = ""
    workdir: str = "{repo}"
    timeout_s: float = 600.0
    memory_gb: float = 16.0
    environment: dict[str, str] = field(default_factory=dict)
    assets: tuple[str, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)

    def __post_init__(self) -> None:
        if self.supported and self.skip_reason:
            raise ValueError("a supported tier has no skip_reason: remove it, or set supported = false")
        if not self.supported and not self.skip_reason:
            raise ValueError("supported = false needs a skip_reason")
        if self.argv and self.probe:
            raise ValueError("give argv or probe, not both")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be positive, not {self.timeout_s}")
        # The engine takes no less than 6 MiB.
        if not 0.01 <= self.memory_gb < float("inf"):  # noqa: PLR2004 - said above
            raise ValueError(f"memory_gb must be a number of GiB from 0.01 on, not {self.memory_gb}")


_ABSENT = TierSpec(supported=False, skip_reason="repo.toml does not describe this tier")


@dataclass(frozen=True, slots=True)
class ImportPolicy:
    """What C0 expects of a repository's imports.

    Attributes:
        published_total: distinct imported top-level names according to the published benchmark, if any.
        unsatisfiable: top-level name → why no environment for the target can or need satisfy it. Such names count in
            the published figure, not in the verdict.
    """

    __pydantic_config__: ClassVar = STRICT

    published_total: int | None = None
    unsatisfiable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Repository:
    """One pinned research code base, as its `repo.toml` describes it.

    Attributes:
        name: `owner/name` or `name`.
        source: where the pinned tree comes from.
        domain: research area.
        python: declared Python, a PEP 440 specifier such as `>=3.10`.
        frameworks: frameworks that C2 asks for (`torch`, `tensorflow`, `jax`).
        imports: what C0 expects.
        tiers: how each tier is probed; a tier that is absent is not applicable.
        folder: absolute path of the folder that holds `repo.toml`.
        suite: name of the suite that describes it.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    source: Source
    domain: str = ""
    python: str = ""
    frameworks: tuple[str, ...] = ()
    imports: ImportPolicy = field(default_factory=ImportPolicy)
    tiers: dict[Tier, TierSpec] = field(default_factory=dict)
    folder: str = ""
    suite: str = ""

    def spec(self, tier: Tier) -> TierSpec:
        """Return how a tier is probed; one that `repo.toml` does not describe is not supported."""
        return self.tiers.get(tier, _ABSENT)

    @property
    def key(self) -> str:
        """What tells it from the repositories of all suites: `suite/slug`; part of folders and image names."""
        return f"{self.suite}/{self.slug}" if self.suite else self.slug

    @property
    def slug(self) -> str:
        """The name without its owner: used in ids, folders and labels."""
        return self.name.rpartition("/")[2]

    @property
    def workdir(self) -> str:
        """Absolute path of the repository in every container."""
        return f"/workspace/{self.slug}"


#: The problem of an environment whose agent wrote no self-report at all.
NO_SELF_REPORT = "the agent left no self-report"

#: How the problem begins of an environment that could not be frozen: its image is the base image's.
UNFREEZABLE = "the environment could not be frozen"


# --- environments -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EnvironmentKey:
    """What identifies one attempt.

    Attributes:
        run: name of the run.
        agent: name of the agent.
        repository: `Repository.key`.
        attempt: number, from 1.
    """

    run: str
    agent: str
    repository: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.run}/{self.agent}/{self.repository}/attempt-{self.attempt:03d}"


@dataclass(frozen=True, slots=True)
class SelfReport:
    """What an agent claims about its environment; `None` means "I don't know".

    Names and types are those of the published benchmark (arXiv 2603.06739).

    Attributes:
        python_path: absolute path of the interpreter to use.
        python_version: e.g. `3.11.2`.
        torch_version: e.g. `2.13.0+cpu`.
        cuda_available: whether `torch.cuda.is_available()` was seen to hold.
        gpu_count: devices visible to the framework.
        ddp_expected_ok: whether distributed training is expected to work.
        env_tool: e.g. `venv`, `uv`, `conda`, `poetry`, `system`.
        env_name: name or path of the environment.
        notes: free text.
    """

    __pydantic_config__: ClassVar = STRICT

    python_path: str | None = None
    python_version: str | None = None
    torch_version: str | None = None
    cuda_available: bool | None = None
    gpu_count: int | None = None
    ddp_expected_ok: bool | None = None
    env_tool: str | None = None
    env_name: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """What an attempt leaves behind.

    Attributes:
        key: the attempt.
        image: id of the frozen image (the snapshot).
        base_image: id of the base image it grew from.
        workdir: absolute path of the repository in the image.
        report: the self-report, or None when it is missing or invalid.
        report_problem: why there is no usable self-report; empty when there is one.
        devices: how many accelerators the agent was given.
        changed: tracked paths, relative to `workdir`, that differ from the pinned tree. Those whose names are not UTF-8
            are left out, and always put back.
        inputs: what shaped the environment: name → digest or value. Compared when it is reused.
        telemetry: what the agent used: name → number (`wall_s`, `tokens_in`, …).
        ended: how the agent's work ended, e.g. `exited with code 0` or `timeout after 3600 s`.
        created: UTC, ISO 8601.
    """

    __pydantic_config__: ClassVar = STRICT

    key: EnvironmentKey
    image: str
    base_image: str
    workdir: str
    report: SelfReport | None
    report_problem: str
    changed: tuple[str, ...]
    inputs: dict[str, str]
    telemetry: dict[str, float]
    ended: str
    created: str
    devices: int = 0


# --- results ----------------------------------------------------------------------------------------------


class FindingKind(StrEnum):
    """The published categories of capability hallucination (arXiv 2603.06739)."""

    PATH = "path"
    VERSION = "version"
    CAPABILITY = "capability"


@dataclass(frozen=True, slots=True)
class Finding:
    """One false claim.

    Attributes:
        kind: its category.
        field: the self-report's field.
        claimed: what the agent wrote, as JSON.
        observed: what was found instead, in words.
    """

    __pydantic_config__: ClassVar = STRICT

    kind: FindingKind
    field: str
    claimed: str
    observed: str


@dataclass(frozen=True, slots=True)
class TierResult:
    """What one probe found.

    Attributes:
        tier: the tier.
        verdict: what it came to.
        cause: why it did not pass.
        reason: one line for a person.
        decisive: the log line that decided, if any.
        duration_s: the probe's own wall time in seconds.
        evidence: what was observed: name → value.
        log: path of the full log, relative to the attempt's folder.
        emulated: whether the CPU stood in for accelerators: such a result says nothing about CUDA, and never enters a
            comparison with published figures.
        findings: false claims (C5).
        basis: digest of what the tier was judged by: its part of `repo.toml`, its probe script, the settings.
        session: id of the pytest session that probed.
        created: UTC, ISO 8601.
    """

    __pydantic_config__: ClassVar = STRICT

    tier: Tier
    verdict: Verdict
    cause: Cause = Cause.NONE
    reason: str = ""
    decisive: str = ""
    duration_s: float = 0.0
    evidence: dict[str, bool | int | float | str | list[str] | None] = field(default_factory=dict)
    log: str = ""
    emulated: bool = False
    findings: tuple[Finding, ...] = ()
    basis: str = ""
    session: str = ""
    created: str = ""
