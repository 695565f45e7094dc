"""JUnit XML of the xunit2 family, as Jenkins, GitLab and others read it.

The schema of the Jenkins xUnit plugin (junit-10.xsd), which refuses files that do not hold to it, knows properties of
suites and none of tests. Those stand first in a test's output, as `[[PROPERTY|name=value]]`, a convention that tools
for test management read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from pytest_researchenv.recording.entry import Entry, Outcome


__all__ = ["Suite", "names_of", "render_case", "render_suites"]

#: What XML 1.0 cannot hold, whatever is done to it.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: What makes a line of output more than text.
_MARK = re.compile(r"\[\[(?=/?(?:PROPERTY|ATTACHMENT))", re.IGNORECASE)

_TAGS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}
_TYPES = {Outcome.FAILED: "failed", Outcome.ERROR: "infrastructure", Outcome.SKIPPED: "pytest.skip"}


@dataclass(frozen=True, slots=True)
class Suite:
    """What one session contributes.

    Attributes:
        name: what it is called.
        started: seconds since 1970, UTC.
        properties: name → value.
        cases: each of its tests as XML, in order.
        counts: how many of them came to what.
        seconds: how long they took.
    """

    name: str
    started: float
    properties: Mapping[str, str]
    cases: Sequence[str]
    counts: Mapping[Outcome, int]
    seconds: float


def render_suites(suites: Sequence[Suite]) -> bytes:
    """Return a whole document."""
    total: Counter[Outcome] = Counter()
    for suite in suites:
        total.update(suite.counts)
    opening = _tag(
        "testsuites",
        name="researchenv",
        tests=sum(total.values()),
        failures=total[Outcome.FAILED],
        errors=total[Outcome.ERROR],
        time=_seconds(sum(suite.seconds for suite in suites)),
    )
    parts = ['<?xml version="1.0" encoding="utf-8"?>\n', opening, "\n"]
    for suite in suites:
        parts += _suite(suite)
    return "".join([*parts, "</testsuites>\n"]).encode()


def render_case(entry: Entry) -> str:
    """Return the XML of one test."""
    file, name = names_of(entry.test)
    parts = [_tag("testcase", classname=file, name=name, time=_seconds(entry.duration_s))]
    if tag := _TAGS.get(entry.outcome):
        opening = _tag(tag, type=_TYPES[entry.outcome], message=entry.message)
        parts.append(f"{opening}{_text(entry.details or entry.message)}</{tag}>")
    lines = [_property(name, value) for name, value in entry.properties if value]
    printed = {"end of the log": entry.log, "output": entry.output}
    lines += [f"--- {title} ---\n{_tame(text)}" for title, text in printed.items() if text]
    if lines:
        said = _text("\n".join(lines))
        parts.append(f"<system-out>{said}</system-out>")
    return "".join([*parts, "</testcase>\n"])


def names_of(test: str) -> tuple[str, str]:
    """Return class name and name of a test as pytest's own XML has them."""
    path, bracket, parameters = test.partition("[")
    file, *rest = path.split("::")
    names = [re.sub(r"\.py$", "", file).replace("/", "."), *(name for name in rest if name != "()")]
    names[-1] += bracket + parameters
    return ".".join(names[:-1]), names[-1]


def _suite(suite: Suite) -> list[str]:
    opening = _tag(
        "testsuite",
        name=suite.name,
        tests=len(suite.cases),
        failures=suite.counts.get(Outcome.FAILED, 0),
        errors=suite.counts.get(Outcome.ERROR, 0),
        skipped=suite.counts.get(Outcome.SKIPPED, 0),
        time=_seconds(suite.seconds),
        timestamp=datetime.fromtimestamp(suite.started, UTC).isoformat(timespec="seconds"),
    )
    properties = [f"{_tag('property', name=name, value=value)}</property>" for name, value in suite.properties.items()]
    return [opening, "<properties>", *properties, "</properties>\n", *suite.cases, "</testsuite>\n"]


def _property(name: str, value: str) -> str:
    name, value = _tame(name), _tame(value)
    if "\n" in value or "]" in value:
        return f"[[PROPERTY|{name}]]\n{value}\n[[/PROPERTY]]"
    return f"[[PROPERTY|{name}={value}]]"


def _tame(text: str) -> str:
    """Keep what an environment says from being read as a property, or as a file to attach."""
    return _MARK.sub("[ [", text)


def _tag(element: str, /, **attributes: object) -> str:
    shown = "".join(f" {key}={quoteattr(_allowed(str(value)))}" for key, value in attributes.items())
    return f"<{element}{shown}>"


def _text(text: str) -> str:
    # A bare carriage return would be read back as a line feed.
    return escape(_allowed(text), {"\r": "&#13;"})


def _allowed(text: str) -> str:
    """Escape visibly what XML cannot hold."""
    return _FORBIDDEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def _seconds(value: float) -> str:
    return f"{max(0.0, value):.3f}"
