"""What became of one test, as pytest's reports tell it piece by piece."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import final

import pytest

from pytest_researchenv.packedlogs import read_ends


__all__ = ["LOG", "Entry", "Finishing", "Outcome", "excerpt_of", "plain"]

#: Attribute of a report that carries the end of the probe's log, from workers, too.
LOG = "researchenv_log"

#: Most characters of a test's details, output and log; a report of thousands of tests must stay small.
_MOST = 4000

#: Most characters of the log of a test that passed or was skipped.
_FEW = 500


class Outcome(StrEnum):
    """What a test came to."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished test.

    Attributes:
        test: its id.
        outcome: what it came to.
        started: seconds since 1970, UTC.
        duration_s: how long it took, in seconds.
        message: why it did not pass, in one line.
        details: the same in full.
        properties: name and value of each of its properties, in order.
        output: the end of what it printed.
        log: the end of the probe's log.
        worker: which of several processes ran it; empty where there was one.
        crashed: whether the process died that ran it.
    """

    test: str
    outcome: Outcome
    started: float
    duration_s: float
    message: str = ""
    details: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    output: str = ""
    log: str = ""
    worker: str = ""
    crashed: bool = False


def plain(text: object) -> str:
    """Return what can be written as UTF-8: bytes that are no text are escaped."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def excerpt_of(path: Path, *, most: int = _MOST) -> str:
    """Return the end of a log in whole lines; empty where there is none."""
    try:
        ends = read_ends(path, head=0, tail=most)
    except OSError:
        return ""
    text = ends.tail.decode("utf-8", "replace")
    if not ends.omitted:
        return text
    _, _, whole = text.partition("\n")
    return f"[... {ends.omitted} bytes before it ...]\n{whole or text}"


def _end(text: str, most: int = _MOST) -> str:
    return text if len(text) <= most else f"[... {len(text) - most} characters before it ...]\n{text[-most:]}"


@final
class Finishing:
    """Puts the reports on a test's set-up, call and teardown together."""

    def __init__(self) -> None:
        self._reports: dict[str, list[pytest.TestReport]] = {}

    def feed(self, report: pytest.TestReport) -> Entry | None:
        """Take a report, and return the test's entry if it is its last."""
        if report.outcome == "rerun":  # type: ignore[comparison-overlap] # pytest-rerunfailures says so
            self._reports.pop(report.nodeid, None)
            return None
        reports = self._reports.setdefault(report.nodeid, [])
        reports.append(report)
        if report.when in ("setup", "call"):
            return None
        del self._reports[report.nodeid]
        return _entry(reports)


def _entry(reports: list[pytest.TestReport]) -> Entry:
    last = reports[-1]
    # What failed first tells why; a teardown that fails as well does not make a failure an error.
    deciding = next((report for report in reports if not report.passed), None)
    outcome = _outcome(deciding)
    failures = [report for report in reports if report.failed]
    details = "\n\n".join(_text(report) for report in failures)
    log = next((text for report in reports if (text := getattr(report, LOG, ""))), "")
    output = "\n".join("\n".join((f"--- {title} ---", text.rstrip("\n"))) for title, text in last.sections)
    bad = outcome in (Outcome.FAILED, Outcome.ERROR)
    return Entry(
        test=plain(last.nodeid),
        outcome=outcome,
        started=min((report.start for report in reports if report.start), default=time.time()),
        duration_s=sum(report.duration for report in reports),
        message=plain(_message(deciding)) if deciding else "",
        details=_end(plain(details)),
        properties=tuple((plain(name), plain(value)) for name, value in _properties(reports)),
        output=_end(plain(output)),
        log=_end(plain(log), _MOST if bad else _FEW),
        worker=str(getattr(last, "worker_id", "")).replace("master", ""),
        crashed=last.when not in ("setup", "call", "teardown"),
    )


def _outcome(deciding: pytest.TestReport | None) -> Outcome:
    if deciding is None:
        return Outcome.PASSED
    if deciding.skipped:
        return Outcome.SKIPPED
    return Outcome.FAILED if deciding.when == "call" else Outcome.ERROR


def _properties(reports: list[pytest.TestReport]) -> list[tuple[str, object]]:
    """Those of the newest report that has any: each holds what the former ones did."""
    return next((report.user_properties for report in reversed(reports) if report.user_properties), [])


def _message(report: pytest.TestReport) -> str:
    if report.skipped:
        if reason := getattr(report, "wasxfail", ""):
            return str(reason)
        where = report.longrepr
        return str(where[2]).removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash else str(report.longrepr or "")
    return next((line.strip() for line in text.splitlines() if line.strip()), "failed without a message")


def _text(report: pytest.TestReport) -> str:
    text = str(report.longrepr or "")
    return text if report.when in ("call", "setup") else f"{report.when}: {text}"
