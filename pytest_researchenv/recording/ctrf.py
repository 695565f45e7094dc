"""CTRF JSON (the Common Test Report Format, ctrf.io), version 0.0.0: what JUnit XML holds, for programs.

An error is a status `other` with the raw status `error`: nobody's failure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from pytest_researchenv.recording.entry import Entry, Outcome


__all__ = ["SPECIFICATION", "ctrf_report", "ctrf_test"]

#: Version of the format.
SPECIFICATION = "0.0.0"

_STATUS = {Outcome.PASSED: "passed", Outcome.FAILED: "failed", Outcome.ERROR: "other", Outcome.SKIPPED: "skipped"}


def ctrf_report(
    tests: Sequence[str], *, counts: Mapping[Outcome, int], started: float, ended: float, extra: Mapping[str, str]
) -> bytes:
    """Return a whole document.

    Args:
        tests: each test as JSON, in order.
        counts: how many of them came to what.
        started: when the first began, in seconds since 1970.
        ended: when the newest ended.
        extra: what is told of the run.
    """
    total = Counter(counts)
    summary = {
        "tests": len(tests),
        **{status: total[outcome] for outcome, status in _STATUS.items()},
        "pending": 0,
        "start": _milliseconds(started),
        "stop": _milliseconds(max(started, ended)),
    }
    head = {"name": "pytest", "version": version("pytest"), "extra": {"plugin": version("pytest-researchenv")}}
    parts = [f'"tool":{json.dumps(head)}', f'"summary":{json.dumps(summary)}', f'"extra":{json.dumps(dict(extra))}']
    body = ",\n".join([*parts, '"tests":[\n' + ",\n".join(tests) + "\n]"])
    return f'{{"reportFormat":"CTRF","specVersion":"{SPECIFICATION}","results":{{\n{body}\n}}}}\n'.encode()


def ctrf_test(entry: Entry, *, session: str) -> str:
    """Return the JSON of one test."""
    file = entry.test.partition("::")[0]
    document: dict[str, object] = {
        "name": entry.test,
        "testId": entry.test,
        "status": _STATUS[entry.outcome],
        "rawStatus": entry.outcome,
        "duration": _milliseconds(entry.duration_s),
        "start": _milliseconds(entry.started),
        "stop": _milliseconds(entry.started + entry.duration_s),
        "suite": [file or entry.test],
        "filePath": file,
        "extra": {**dict(entry.properties), "researchenv_session": session},
    }
    if entry.message:
        document["message"] = entry.message
    if entry.details:
        document["trace"] = entry.details
    if entry.worker:
        document["threadId"] = entry.worker
    if printed := [text for text in (entry.log, entry.output) if text]:
        document["stdout"] = "\n".join(printed).splitlines()
    return json.dumps(document)


def _milliseconds(seconds: float) -> int:
    return round(max(0.0, seconds) * 1000)
