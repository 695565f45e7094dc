"""What a sub-task of a research task came to: the values that are recorded.

Plain frozen dataclasses, as in `model.py`; the store reads and writes them with pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal

from pytest_researchenv._sources import STRICT
from pytest_researchenv.model import Verdict
from pytest_researchenv.research.metrics import Direction


__all__ = ["BesideBaseline", "ResearchCause", "ResearchFinding", "ResearchResult", "ScoreResult"]


class ResearchCause(StrEnum):
    """Why a sub-task did not pass."""

    NONE = "none"
    #: No results, or results of a method whose code is not there.
    NOTHING_HANDED_IN = "nothing handed in"
    NO_REPORT = "no self-report"
    INVALID_REPORT = "invalid self-report"
    BROKEN_ENVIRONMENT = "broken environment"
    #: The code that was handed in ended with an error.
    CRASH = "crash"
    OUT_OF_MEMORY = "out of memory"
    TIMEOUT = "timeout"
    DISK_FULL = "disk limit reached"
    #: Runs are missing, there twice or not asked for, or a value is none that the measure can have.
    INVALID_RESULTS = "invalid results"
    #: What the task forbids was done.
    VIOLATION = "rules violated"
    #: There is a valid score, and it is not better than the best baseline's.
    NO_IMPROVEMENT = "no improvement"
    #: Nothing here can run it: data, weights or hardware are missing.
    NOT_RUNNABLE = "cannot be run here"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True, slots=True)
class ResearchFinding:
    """One thing for which the results of a sub-task do not count.

    Attributes:
        check: name of the check that found it.
        what: what was seen.
        cause: what it means for the sub-task.
    """

    __pydantic_config__: ClassVar = STRICT

    check: str
    what: str
    cause: ResearchCause = ResearchCause.VIOLATION


@dataclass(frozen=True, slots=True)
class BesideBaseline:
    """The best baseline that a score was compared with.

    Attributes:
        method: its name.
        mean: its score.
        values: run → what it reached in it, where it was run beside on the same data; empty where a published number
            is compared with.
    """

    __pydantic_config__: ClassVar = STRICT

    method: str
    mean: float
    values: dict[str, float] = field(default_factory=dict)

    @property
    def beside(self) -> bool:
        """Whether it was run beside, on the same data."""
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """One score of a sub-task.

    Attributes:
        measure: what it is a value of.
        better: which values of it are better.
        values: run, such as `seed 0`, → what was reached in it; exactly the required runs.
        mean: over all runs.
        count: of how many independent values: seeds, or folds where there are no seeds.
        error: standard error of the mean; None of a single value.
        interval: 95 % interval of Student's t; None of a single value.
        baseline: the best baseline, as it is compared with.
        above: whether the mean is strictly better than the baseline's.
        clear: whether the whole interval is; None where there is no interval.
        withheld: the withheld method's score as the task has it; None where none is known.
        share: `scoring.normalised`: the score as a share of the withheld method's; None where there is none.
        no_share: why there is none.
        gain: `scoring.improvement`: the score as a share of the baseline's; None where numbers have no ratio.
    """

    __pydantic_config__: ClassVar = STRICT

    measure: str
    better: Direction
    values: dict[str, float]
    mean: float
    count: int
    error: float | None
    interval: tuple[float, float] | None
    baseline: BesideBaseline
    above: bool
    clear: bool | None
    withheld: float | None
    share: float | None
    no_share: str
    gain: float | None


@dataclass(frozen=True, slots=True)
class ResearchResult:
    """What one evaluation of a sub-task found.

    Attributes:
        subtask: id of the sub-task.
        verdict: passed where the score that decides it is strictly better than the best baseline's.
        cause: why it did not pass.
        reason: one line for a person.
        completed: whether there is a valid score, good or bad.
        method: what the results say that they are of.
        decides: name of the score that decides.
        scores: name of each score → what it came to; empty unless it was completed.
        findings: for what the results do not count.
        duration_s: the evaluation's own wall time in seconds.
        log: path of the full log, relative to the attempt's folder.
        secret: what the hidden data were drawn from, in hexadecimal; of this evaluation alone.
        basis: digest of what it was judged by: its part of `task.toml`, the evaluation with all that it brings along.
        dataset: digest of the suite (`lock.dataset_digest`), for every file of it.
        session: id of the pytest session that evaluated.
        created: UTC, ISO 8601.
        snapshot: id of the frozen image that was judged.
        base_image: id of the base image it grew from.
        harness: what judged: version of this package, and a digest of its code.
        interpreter: the volume with the interpreter that runs the evaluation and the baselines.
        log_digest: SHA-256 of the log, in hexadecimal.
        schema: version of this record's schema.
        seal: what tells an edited record: `provenance.seal_of` it.
    """

    __pydantic_config__: ClassVar = STRICT

    subtask: str
    verdict: Verdict
    cause: ResearchCause = ResearchCause.NONE
    reason: str = ""
    completed: bool = False
    method: str = ""
    decides: str = ""
    scores: dict[str, ScoreResult] = field(default_factory=dict)
    findings: tuple[ResearchFinding, ...] = ()
    duration_s: float = 0.0
    log: str = ""
    secret: str = ""
    basis: str = ""
    dataset: str = ""
    session: str = ""
    created: str = ""
    snapshot: str = ""
    base_image: str = ""
    harness: str = ""
    interpreter: str = ""
    log_digest: str = ""
    schema: Literal[1] = 1
    seal: str = ""

    @property
    def deciding(self) -> ScoreResult | None:
        """The score that decides; None where there is no valid one."""
        return self.scores.get(self.decides)
