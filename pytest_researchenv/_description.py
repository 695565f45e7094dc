"""What a `repo.toml` says of a repository: values, for `model.py` to hand on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_researchenv._sources import STRICT, Source
from pytest_researchenv._words import Cause, Parallel, SabotageKind, Tier


__all__ = [
    "Asset",
    "Deviation",
    "Evidence",
    "FileEvidence",
    "ImportPolicy",
    "JsonEvidence",
    "Repository",
    "Sabotage",
    "TierSpec",
]


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
        supported: whether the tier applies; those that do make the published denominators.
        skip_reason: why it does not.
        pending: it applies, but this version has no probe for it: why. It is skipped.
        defective_upstream: it applies by the published count, but no environment can pass at the pinned commit: why.
            It is skipped, counted apart, and left out of the corrected denominators.
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
        assets: names of the repository's assets that are mounted, each as the file `{assets}/NAME/NAME`. The network
            is off even so.
        evidence: what must be seen.
        needs_cuda: whether the repository's own code runs on CUDA alone, so that the CPU cannot stand in for devices
            (C3, C4): without them it is skipped, never emulated.
    """

    __pydantic_config__: ClassVar = STRICT

    supported: bool = True
    skip_reason: str = ""
    pending: str = ""
    defective_upstream: str = ""
    argv: tuple[str, ...] = ()
    probe: str = ""
    workdir: str = "{repo}"
    timeout_s: float = 600.0
    memory_gb: float = 16.0
    environment: dict[str, str] = field(default_factory=dict)
    assets: tuple[str, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    # Not in the digest of a tier (`basis.py`) unless it is set: results that are stored stay as they are.
    needs_cuda: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.supported and self.skip_reason:
            raise ValueError("a supported tier has no skip_reason: remove it, or set supported = false")
        if not self.supported and not self.skip_reason:
            raise ValueError("supported = false needs a skip_reason")
        if (self.pending or self.defective_upstream) and not self.supported:
            raise ValueError(
                "pending and defective_upstream are of tiers that apply: remove them, or supported = false"
            )
        if self.pending and self.defective_upstream:
            raise ValueError("give pending or defective_upstream, not both")
        if (self.pending or self.defective_upstream) and (self.argv or self.probe):
            raise ValueError("a tier with argv or probe is neither pending nor defective_upstream")
        if self.argv and self.probe:
            raise ValueError("give argv or probe, not both")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be positive, not {self.timeout_s}")
        # The engine takes no less than 6 MiB.
        if not 0.01 <= self.memory_gb < float("inf"):  # noqa: PLR2004 - said above
            raise ValueError(f"memory_gb must be a number of GiB from 0.01 on, not {self.memory_gb}")

    @property
    def idle(self) -> tuple[Cause, str]:
        """Why nothing is probed, with the reason; `Cause.NONE` when the tier is probed."""
        if not self.supported:
            return Cause.NOT_APPLICABLE, self.skip_reason
        if self.defective_upstream:
            return Cause.DEFECTIVE_UPSTREAM, self.defective_upstream
        return (Cause.NO_PROBE, self.pending) if self.pending else (Cause.NONE, "")


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
class Asset:
    """A file that no probe can do without: the harness fetches it once, and mounts it read-only.

    Attributes:
        url: where from, with a revision that does not move.
        sha256: digest of the file, 64 hexadecimal digits.
        size_bytes: its size.
        revision: what it is a file of, in words.
    """

    __pydantic_config__: ClassVar = STRICT

    url: str
    sha256: str
    size_bytes: int
    revision: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 must be 64 hexadecimal digits, not {self.sha256!r}")
        if not re.match(r"https?://", self.url):
            raise ValueError(f"url must begin with https:// or http://, not {self.url!r}")
        if self.size_bytes < 1:
            raise ValueError(f"size_bytes must be positive, not {self.size_bytes}")


@dataclass(frozen=True, slots=True)
class Deviation:
    """Where a probe differs from what the published benchmark does, and why.

    Attributes:
        tiers: where.
        published: what the published harness does.
        here: what is done instead.
        why: what is wrong with the published way, for an agent that is judged by it.
    """

    __pydantic_config__: ClassVar = STRICT

    tiers: tuple[Tier, ...]
    published: str
    here: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One way to break the oracle's environment, and the tiers that must notice.

    Attributes:
        target: the package to remove; the requirement to install without its dependencies; or the tracked file whose
            content is replaced by a docstring.
        tiers: those that must fail; the others may.
    """

    __pydantic_config__: ClassVar = STRICT

    target: str
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """One pinned research code base, as its `repo.toml` describes it.

    Attributes:
        name: `owner/name` or `name`.
        source: where the pinned tree comes from.
        domain: research area.
        python: declared Python, a PEP 440 specifier such as `>=3.10`.
        frameworks: frameworks that C2 asks for (`torch`, `tensorflow`, `jax`).
        pins: what the repository declares of its frameworks: package → PEP 440 specifier.
        native_extensions: what must be compiled for, or match the ABI of, framework and platform.
        auxiliary_tooling: what is on the code's path although it does no research (loggers, launchers).
        root_on_path: whether the repository is no package but run from its root: then `PYTHONPATH` names it.
        notes: what else one should know.
        imports: what C0 expects.
        assets: name → a file that probes cannot do without.
        tiers: how each tier is probed; a tier that is absent is not applicable.
        deviations: where its probes differ from the published ones.
        sabotage: how its good environment is broken, to show that its probes notice.
        folder: absolute path of the folder that holds `repo.toml`.
        suite: name of the suite that describes it.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    source: Source
    domain: str = ""
    python: str = ""
    frameworks: tuple[str, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)
    native_extensions: tuple[str, ...] = ()
    auxiliary_tooling: tuple[str, ...] = ()
    root_on_path: bool = False
    notes: tuple[str, ...] = ()
    imports: ImportPolicy = field(default_factory=ImportPolicy)
    assets: dict[str, Asset] = field(default_factory=dict)
    tiers: dict[Tier, TierSpec] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()
    sabotage: dict[SabotageKind, Sabotage] = field(default_factory=dict)
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
