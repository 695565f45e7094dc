"""C1: the repository's own entry point runs on the CPU, with every accelerator hidden."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_researchenv.errors import SuiteError
from pytest_researchenv.model import Cause, Evidence, Tier, TierResult, TierSpec, Verdict
from pytest_researchenv.probes.evidence import decisive_line, misses
from pytest_researchenv.probes.launch import Broken, Finished, launch
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.sandbox.protocol import Completed, Termination
from pytest_researchenv.suite import resolve_probe


__all__ = ["C1Probe"]

_CAUSES = {
    Termination.EXITED: Cause.EXIT_CODE,
    Termination.SIGNALLED: Cause.SIGNAL,
    Termination.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    Termination.TIMED_OUT: Cause.TIMEOUT,
}

#: The engine's init process says so when the command cannot be executed (a dangling link, a missing execute bit), and
#: ends with one of these codes.
_NOT_STARTED = (126, 127)
_REFUSAL = re.compile(r"^\[FATAL tini \(\d+\)\] (exec .* failed: .*)$", re.MULTILINE)

#: How many demands that were not met a reason lists.
_LISTED = 3


class C1Probe:
    """Decides tier C1: exit code 0 and all the evidence that the suite demands."""

    @property
    def tier(self) -> Tier:
        """The tier it decides."""
        return Tier.C1

    def judge(self, task: ProbeTask) -> TierResult:
        """Run the repository's C1 command or probe script, and compare what it left with the evidence.

        Raises:
            SandboxError: the engine fails on the base image, too.
            SuiteError: the suite describes no C1 that can be run.
        """
        spec = task.repository.tiers.get(self.tier)
        if spec is None or not spec.supported:
            reason = spec.skip_reason if spec else "repo.toml does not describe this tier"
            return TierResult(self.tier, Verdict.SKIPPED, Cause.NOT_APPLICABLE, reason)
        _check_runnable(task, spec)
        python = reported_python(task.environment)
        if isinstance(python, Unreported):
            return _failed(python.cause, python.reason)
        script = resolve_probe(task.repository, self.tier) if spec.probe else None
        ended = launch(task, spec, python, script=script, hide_devices=True)
        if isinstance(ended, Broken):
            return _failed(Cause.BROKEN_ENVIRONMENT, ended.reason)
        return _verdict(ended)


def _verdict(ended: Finished) -> TierResult:
    completed = ended.completed
    text = completed.output.text()
    result = TierResult(
        Tier.C1,
        Verdict.PASSED,
        reason=completed.how,
        duration_s=completed.duration_s,
        evidence=_observed(completed, ended),
    )
    if completed.exit_code in _NOT_STARTED and (refusal := _REFUSAL.search(text)):
        return _failed(Cause.BROKEN_ENVIRONMENT, f"the probe could not be started: {refusal[1]}")
    if not completed.ok:
        return replace(
            result,
            verdict=Verdict.FAILED,
            cause=_CAUSES[completed.termination],
            reason=f"the probe {completed.how}",
            decisive=decisive_line(text),
        )
    if missing := misses(ended.evidence, ended.outputs, text):
        return replace(
            result,
            verdict=Verdict.FAILED,
            cause=Cause.NO_EVIDENCE,
            # The folder's random name says nothing to a person.
            reason=_listed(missing).replace(ended.out, "{out}"),
            decisive=decisive_line(text),
        )
    return result


def _observed(completed: Completed, ended: Finished) -> dict[str, bool | int | float | str | list[str] | None]:
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


def _check_runnable(task: ProbeTask, spec: TierSpec) -> None:
    """Refuse what the suite got wrong before anything runs: it is the suite's fault, never the agent's."""
    where = f"{task.repository.name}: tiers.C1"
    if not (spec.argv or spec.probe):
        raise SuiteError(f"{where} has neither argv nor probe: give the command or the script that runs it")
    if spec.evidence.parallel:
        raise SuiteError(f"{where}.evidence demands parallel work, which one process cannot show: leave it to C4")
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


def _failed(cause: Cause, reason: str) -> TierResult:
    return TierResult(Tier.C1, Verdict.FAILED, cause, reason)
