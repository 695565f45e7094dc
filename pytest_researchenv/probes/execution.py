"""What C1, C3 and C4 share: run the repository's own code, and compare what it left with what the suite demands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pytest_researchenv.errors import SuiteError
from pytest_researchenv.model import Cause, Evidence, Tier, TierResult, TierSpec, Verdict
from pytest_researchenv.probes.evidence import decisive_line, misses
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import Finished, Setting, launch
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.sandbox.protocol import Completed, Termination
from pytest_researchenv.suite import resolve_probe


__all__ = ["Observation", "Requirement", "execute"]

#: A value of `TierResult.evidence`.
Value = bool | int | float | str | list[str] | None

_CAUSES = {
    Termination.EXITED: Cause.EXIT_CODE,
    Termination.SIGNALLED: Cause.SIGNAL,
    Termination.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    Termination.TIMED_OUT: Cause.TIMEOUT,
    Termination.DISK_FULL: Cause.DISK_FULL,
}

#: The engine's init process says so when the command cannot be executed (a dangling link, a missing execute bit), and
#: ends with one of these codes.
_NOT_STARTED = (126, 127)
_REFUSAL = re.compile(r"^\[FATAL tini \(\d+\)\] (exec .* failed: .*)$", re.MULTILINE)

_CUDA_ALONE = "the repository's own code runs on CUDA alone: no device answered, and the CPU cannot stand in for one"

#: How many demands that were not met a reason lists.
_LISTED = 3


class Observation(NamedTuple):
    """What a tier sees in a run beside the suite's own evidence.

    Attributes:
        misses: one sentence for each thing that had to be seen and was not.
        evidence: what was seen, for the record.
    """

    misses: list[str]
    evidence: Mapping[str, Value]


def _nothing_more(_ended: Finished) -> Observation:
    return Observation([], {})


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a tier needs, and what it looks at.

    Attributes:
        devices: how many accelerators it takes; 0: none, whatever there is.
        nproc: how many ranks are to be started.
        observe: looks at a run that ended well.
    """

    devices: int = 0
    nproc: int = 1
    observe: Callable[[Finished], Observation] = field(default=_nothing_more)


def execute(task: ProbeTask, tier: Tier, requirement: Requirement) -> TierResult:
    """Run a tier's command or probe script: exit code 0, the suite's evidence and the tier's own make it pass.

    Where the tier takes accelerators and the hardware is the CPU, it runs there, and its result is marked as emulated.

    Raises:
        InfrastructureError: the engine or the driver fails, whatever the environment is like.
        SuiteError: the suite describes nothing that can be run.
    """
    spec = task.repository.spec(tier)
    cause, reason = spec.idle
    if cause is not Cause.NONE:
        return TierResult(tier, Verdict.SKIPPED, cause, reason)
    _check_runnable(task, tier, spec)
    emulated = bool(requirement.devices) and task.hardware.emulated
    if emulated and spec.needs_cuda:
        return TierResult(tier, Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE, _CUDA_ALONE)
    wanted = 0 if emulated else requirement.devices
    if shortage := task.hardware.shortage(wanted):
        return TierResult(tier, Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE, shortage)
    with task.leased(wanted) as held:
        setting = Setting(held.hardware.uuids, requirement.nproc)
        result = _judged(held, tier, spec, setting, requirement.observe)
    return replace(result, emulated=emulated)


def _judged(
    task: ProbeTask, tier: Tier, spec: TierSpec, setting: Setting, observe: Callable[[Finished], Observation]
) -> TierResult:
    python = reported_python(task.environment)
    if isinstance(python, Unreported):
        return TierResult(tier, Verdict.FAILED, python.cause, python.reason)
    script = resolve_probe(task.repository, tier) if spec.probe else None
    ended = launch(task, spec, python, script=script, setting=setting)
    if _unseen(ended):
        task.log(b"[researchenv] it ended before its device memory was seen; running it once more\n")
        ended = launch(task, spec, python, script=script, setting=setting)
    if isinstance(ended, Broken):
        return TierResult(tier, Verdict.FAILED, Cause.BROKEN_ENVIRONMENT, ended.reason)
    return _verdict(tier, ended, observe)


def _unseen(ended: Finished | Broken) -> bool:
    """Whether a run may only have been too fast for the monitor: under the observer it would have been held."""
    if isinstance(ended, Broken) or ended.memory is None or not ended.completed.ok:
        return False
    return not ended.memory.held and not ended.records.files


def _verdict(tier: Tier, ended: Finished, observe: Callable[[Finished], Observation]) -> TierResult:
    completed = ended.completed
    text = completed.output.text()
    seen = observe(ended)
    result = TierResult(
        tier,
        Verdict.PASSED,
        reason=completed.how,
        duration_s=completed.duration_s,
        evidence={**_observed(completed, ended), **seen.evidence},
    )
    if completed.exit_code in _NOT_STARTED and (refusal := _REFUSAL.search(text)):
        reason = f"the probe could not be started: {refusal[1]}"
        return TierResult(tier, Verdict.FAILED, Cause.BROKEN_ENVIRONMENT, reason)
    if not completed.ok:
        return replace(
            result,
            verdict=Verdict.FAILED,
            cause=_CAUSES[completed.termination],
            reason=f"the probe {completed.how}",
            decisive=decisive_line(text),
        )
    texts = [text, *(stream.text() for stream in completed.streams)]
    if missing := [*seen.misses, *misses(ended.evidence, ended.outputs, *texts)]:
        return replace(
            result,
            verdict=Verdict.FAILED,
            cause=Cause.NO_EVIDENCE,
            # The folder's random name says nothing to a person.
            reason=_listed(missing).replace(ended.out, "{out}"),
            decisive=decisive_line(text),
        )
    return result


def _observed(completed: Completed, ended: Finished) -> dict[str, Value]:
    """What is recorded beside the verdict: enough to see later what it was based on."""
    seen = {path: file for pattern in _paths(ended.evidence) for path, file in ended.outputs.matching(pattern)}
    return {
        "command": completed.command,
        "exit_code": completed.exit_code,
        "termination": completed.termination.value,
        "output_bytes": completed.output.total,
        "files_written": len(ended.outputs.files),
        "files": [f"{path.replace(ended.out, '{out}')} ({file.size} bytes)" for path, file in sorted(seen.items())],
    }


def _check_runnable(task: ProbeTask, tier: Tier, spec: TierSpec) -> None:
    """Refuse what the suite got wrong before anything runs: it is the suite's fault, never the agent's."""
    where = f"{task.repository.name}: tiers.{tier}"
    if not (spec.argv or spec.probe):
        raise SuiteError(f"{where} has neither argv nor probe: give the command or the script that runs it")
    if spec.evidence.parallel and tier is not Tier.C4:
        raise SuiteError(f"{where}.evidence demands parallel work, which one process cannot show: leave it to C4")
    if tier is Tier.C4 and not spec.evidence.parallel:
        raise SuiteError(f"{where}.evidence.parallel is missing: say what kind of work must be seen")
    for path in _paths(spec.evidence):
        if not path.startswith("{out}/"):
            raise SuiteError(
                f"{where}.evidence: {path!r} lies outside {{out}}, where the agent may have put anything: "
                "let the probe write or copy it to {out}"
            )


def _listed(missing: list[str]) -> str:
    more = len(missing) - _LISTED
    return "; ".join(missing[:_LISTED]) + (f"; and {more} more" if more > 0 else "")


def _paths(evidence: Evidence) -> list[str]:
    return [demand.path for demand in evidence.files] + [demand.path for demand in evidence.json]
