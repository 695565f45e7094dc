"""The values that cross module borders.

Plain frozen dataclasses: importing this module imports nothing heavy.
`suite.py` and `store.py` read and write them with pydantic, which honours the annotations here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pytest_researchenv._description import (
    Asset,
    Deviation,
    Evidence,
    FileEvidence,
    ImportPolicy,
    JsonEvidence,
    Repository,
    Sabotage,
    TierSpec,
)
from pytest_researchenv._findings import Claim, Finding, FindingKind, Outcome, Sign
from pytest_researchenv._sources import STRICT, Cut, GitSource, PathSource, PrunedSource, PypiSource, Source
from pytest_researchenv._words import Cause, Examination, Parallel, SabotageKind, Tier, Verdict, judged_named


__all__ = [
    "NO_SELF_REPORT",
    "UNFREEZABLE",
    "Asset",
    "AttemptStart",
    "Audit",
    "Cause",
    "Claim",
    "Cut",
    "Deviation",
    "Environment",
    "EnvironmentKey",
    "Evidence",
    "Examination",
    "FileEvidence",
    "Finding",
    "FindingKind",
    "GitSource",
    "ImportPolicy",
    "JsonEvidence",
    "Outcome",
    "Parallel",
    "PathSource",
    "PrunedSource",
    "PypiSource",
    "Repository",
    "Sabotage",
    "SabotageKind",
    "SelfReport",
    "Sign",
    "Source",
    "Stage",
    "Tier",
    "TierResult",
    "TierSpec",
    "Verdict",
    "judged_named",
]

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
class AttemptStart:
    """What is known of an attempt when it begins.

    Attributes:
        session: id of the pytest session that began it.
        created: UTC, ISO 8601.
        trial: which of the attempts that were asked for (`--researchenv-attempts`), from 1. One that is made again has
            the same number.
        goes_on: number of the attempt whose work this one continues, as its next stage; 0 where it begins.
        schema: version of this record's schema.
    """

    session: str
    created: str = ""
    trial: int = 1
    goes_on: int = 0
    schema: Literal[1] = 1


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
class Stage:
    """A part of the work at a task that was done without a break: the next one goes on where it ended.

    Attributes:
        attempt: number of the attempt that it is.
        began: when the agent began: UTC, ISO 8601.
        ended: when it had ended: likewise.
        seconds: how long it worked.
        limit_s: how long it might have worked at most, in seconds.
        dollars: what it spent on its model, in US dollars.
        limit_usd: what it might have spent at most; None for no limit, or no model.
        tokens: input and output together.
        image: id of the frozen image; empty where what looked after it died.
    """

    __pydantic_config__: ClassVar = STRICT

    attempt: int
    began: str
    ended: str
    seconds: float
    limit_s: float
    dollars: float = 0.0
    limit_usd: float | None = None
    tokens: float = 0.0
    image: str = ""


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
        refused: requests to the outside that were refused to the agent, as `GET host/path`, each once.
        notes: what people should know of how it was built, such as that its cost is not known.
        stages: for research, every stage of the work, the newest last, which is what is frozen.
        records: name of each file that was recorded beside it (self-report, transcript, requests, …) → SHA-256.
        engine: id of the container engine that holds the image; empty where it is not known.
        engine_name: the Docker context by which the user chose it; empty where it was the usual one.
        schema: version of this record's schema.
        seal: what tells an edited record: `provenance.seal_of` it.
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
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    records: dict[str, str] = field(default_factory=dict)
    engine: str = ""
    engine_name: str = ""
    schema: Literal[1] = 1
    seal: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """That the frozen image of an environment was removed once it was judged; its records stay.

    Attributes:
        at: UTC, ISO 8601.
        policy: `--researchenv-keep` as it was given.
        image: id of the image.
        freed_bytes: what the environment had added to its base image.
        session: id of the pytest session that removed it.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    at: str
    policy: str
    image: str
    freed_bytes: int
    session: str
    schema: Literal[1] = 1


# --- results ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TierResult:
    """What one probe found.

    Attributes:
        tier: what was judged.
        verdict: what it came to.
        cause: why it did not pass.
        reason: one line for a person.
        decisive: the log line that decided, if any.
        duration_s: the probe's own wall time in seconds.
        evidence: what was observed: name → value.
        log: path of the full log, relative to the attempt's folder.
        emulated: whether the CPU stood in for accelerators: such a result says nothing about CUDA, and never enters a
            comparison with published figures.
        findings: false claims (C5), or signs of tampering (integrity).
        claims: every claim of the self-report with what became of it (C5).
        basis: digest of what the tier was judged by: its part of `repo.toml`, its probe script, the settings.
        audit: digest of what the audit was judged by whose findings went into the verdict.
        dataset: digest of the suite (`lock.dataset_digest`), for every file of it.
        session: id of the pytest session that probed.
        created: UTC, ISO 8601.
        snapshot: id of the frozen image that was judged.
        base_image: id of the base image it grew from.
        harness: what judged: version of this package, and a digest of its code.
        log_digest: SHA-256 of the log, in hexadecimal.
        accelerator: what C2 to C4 of its session ran on.
        settings: what of the session's settings decided it: name → value.
        schema: version of this record's schema.
        seal: what tells an edited record: `provenance.seal_of` it.
    """

    __pydantic_config__: ClassVar = STRICT

    tier: Tier | Examination
    verdict: Verdict
    cause: Cause = Cause.NONE
    reason: str = ""
    decisive: str = ""
    duration_s: float = 0.0
    evidence: dict[str, bool | int | float | str | list[str] | None] = field(default_factory=dict)
    log: str = ""
    emulated: bool = False
    findings: tuple[Finding, ...] = ()
    claims: tuple[Claim, ...] = ()
    basis: str = ""
    audit: str = ""
    dataset: str = ""
    session: str = ""
    created: str = ""
    snapshot: str = ""
    base_image: str = ""
    harness: str = ""
    log_digest: str = ""
    accelerator: str = ""
    settings: dict[str, float] = field(default_factory=dict)
    schema: Literal[1] = 1
    seal: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the integrity audit found, and what it means for the tiers.

    Attributes:
        result: its verdict with the findings.
        blanked: absolute path of a start-up hook, or of a program that goes by another's name, in the image → what
            stands there in the probe's world instead.
        modules: top-level module that is not what it seems → why.
        interpreter: why the reported interpreter is not genuine; empty when it is.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    result: TierResult
    blanked: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    interpreter: str = ""
    schema: Literal[1] = 1

    @property
    def voiding(self) -> tuple[Finding, ...]:
        """The findings for which no tier of execution passes."""
        found = self.result.findings
        return tuple(finding for finding in found if isinstance(finding.kind, Sign) and finding.kind.voids)
