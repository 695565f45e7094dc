"""What every tier needs first: the interpreter that the self-report names."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from pytest_researchenv.model import NO_SELF_REPORT, UNFREEZABLE, Cause, Environment


__all__ = ["Unreported", "reported_python"]


class Unreported(NamedTuple):
    """Why there is no interpreter to judge by: a failure, whatever the tier."""

    cause: Cause
    reason: str


def reported_python(environment: Environment) -> str | Unreported:
    """Return the absolute path of the reported interpreter, or why there is none."""
    report = environment.report
    if report is None:
        if environment.report_problem.startswith(UNFREEZABLE):
            return Unreported(Cause.BROKEN_ENVIRONMENT, environment.report_problem)
        if environment.report_problem == NO_SELF_REPORT:
            ended = (
                f"; how its work ended: {environment.ended} (transcript.log has what it printed)"
                if environment.ended
                else ""
            )
            return Unreported(Cause.NO_REPORT, NO_SELF_REPORT + ended)
        return Unreported(Cause.INVALID_REPORT, environment.report_problem)
    if report.python_path is None:
        return Unreported(Cause.INVALID_REPORT, "the self-report names no interpreter: python_path is null")
    if not PurePosixPath(report.python_path).is_absolute():
        return Unreported(Cause.INVALID_REPORT, f"python_path is no absolute path: {report.python_path!r}")
    return report.python_path
