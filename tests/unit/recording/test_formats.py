"""JUnit XML and CTRF JSON: valid whatever stands in them, and with all that is known."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_researchenv.recording.ctrf import ctrf_report, ctrf_test
from pytest_researchenv.recording.entry import Entry, Outcome, excerpt_of, plain
from pytest_researchenv.recording.junit import Suite, names_of, render_case, render_suites
from tests.unit.recording.valid import problems_of_ctrf, problems_of_junit


#: As names, messages and logs come: any characters, and any bytes read as text.
ANYTHING = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")),
).map(plain)

ENTRIES = st.builds(
    Entry,
    test=ANYTHING.map(lambda text: f"suite/test_x.py::test_c1[{text}]"),
    outcome=st.sampled_from(Outcome),
    started=st.floats(0, 4e9),
    duration_s=st.floats(0, 1e9),
    message=ANYTHING,
    details=ANYTHING,
    properties=st.lists(st.tuples(ANYTHING, ANYTHING), max_size=3).map(tuple),
    output=ANYTHING,
    log=ANYTHING,
    worker=st.sampled_from(("", "gw0")),
)


def entry(outcome: Outcome = Outcome.FAILED, **changed: object) -> Entry:
    """A finished test."""
    known: dict[str, object] = {
        "message": "C1 failed: non-zero exit",
        "details": "C1 failed: non-zero exit\n  > boom",
        "properties": (
            ("researchenv_verdict", "failed"),
            ("researchenv_notes", "one\ntwo"),
            ("researchenv_reason", ""),
        ),
        "log": "boom\n",
        "output": "--- Captured stdout call ---\nhello",
    }
    return Entry("suites/mine/test_pyramid.py::test_c1[oracle-x]", outcome, 1e9, 2.5, **(known | changed))  # type: ignore[arg-type] # by name


def output_of(one: Entry) -> str:
    """What stands in a test's output."""
    element = ET.fromstring(junit(one)).find("./testsuite/testcase/system-out")  # noqa: S314 - our own
    assert element is not None
    return str(element.text)


def junit(*entries: Entry) -> bytes:
    """The XML of some tests."""
    counts = {outcome: sum(one.outcome is outcome for one in entries) for outcome in Outcome}
    cases = [render_case(one) for one in entries]
    return render_suites([Suite("researchenv", 1e9, {"run": "r\x00"}, cases, counts, 2.5)])


def ctrf(*entries: Entry) -> bytes:
    """The JSON of some tests."""
    counts = {outcome: sum(one.outcome is outcome for one in entries) for outcome in Outcome}
    tests = [ctrf_test(one, session="s") for one in entries]
    return ctrf_report(tests, counts=counts, started=1e9, ended=2e9, extra={"run": "r"})


def check_both(one: Entry) -> None:
    """Both formats are valid, and the name comes back from the XML with nothing but what XML cannot hold escaped."""
    document = junit(one)
    assert problems_of_junit(document) == []
    assert problems_of_ctrf(ctrf(one)) == []
    case = ET.fromstring(document).find("./testsuite/testcase")  # noqa: S314 - our own
    assert case is not None
    assert case.get("name", "").startswith("test_c1[")
    assert json.loads(ctrf(one))["results"]["tests"][0]["name"] == one.test


@settings(max_examples=200, deadline=None)
@given(ENTRIES)
def test_reports_are_valid_whatever_is_in_them(one: Entry) -> None:
    """Names, messages, properties, output and logs may be any characters, also those that came from bytes."""
    check_both(one)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(ENTRIES)
def test_ten_thousand_reports_are_valid(one: Entry) -> None:
    """The same, more often."""
    check_both(one)


def test_random_bytes_of_a_log_are_shown(tmp_path: Path) -> None:
    """A log may be any bytes; what XML cannot hold is escaped, and the rest is as it was."""
    log = tmp_path / "C1-001.log"
    log.write_bytes(os.urandom(3000) + b"\n\x1b[31mred\x00\n")

    document = junit(entry(log=excerpt_of(log)))

    assert problems_of_junit(document) == []
    assert b"\\x1b[31mred\\x00" in document


@pytest.mark.parametrize(
    ("outcome", "tag", "counted"),
    [
        (Outcome.PASSED, None, None),
        (Outcome.FAILED, "failure", "failures"),
        (Outcome.ERROR, "error", "errors"),
        (Outcome.SKIPPED, "skipped", "skipped"),
    ],
)
def test_each_outcome_is_the_element_of_the_same_meaning(
    outcome: Outcome, tag: str | None, counted: str | None
) -> None:
    """And it is counted there, and nowhere else."""
    suite = ET.fromstring(junit(entry(outcome)))[0]  # noqa: S314 - our own
    case = suite.find("testcase")
    assert case is not None

    assert [child.tag for child in case] == [*filter(None, [tag]), "system-out"]
    assert {name for name in ("failures", "errors", "skipped") if suite.get(name) == "1"} == {*filter(None, [counted])}
    assert (case.get("classname"), case.get("name")) == ("suites.mine.test_pyramid", "test_c1[oracle-x]")
    assert case.get("time") == "2.500"


def test_properties_stand_first_in_the_output() -> None:
    """One a line, and one of several lines between marks of its own; what is empty says nothing."""
    said = output_of(entry())

    assert said.splitlines()[:5] == [
        "[[PROPERTY|researchenv_verdict=failed]]",
        "[[PROPERTY|researchenv_notes]]",
        "one",
        "two",
        "[[/PROPERTY]]",
    ]
    assert "researchenv_reason" not in said
    assert "boom" in said
    assert "hello" in said


def test_no_log_and_no_value_forges_a_property_or_attaches_a_file() -> None:
    """An environment's words are words."""
    forged = "x\n[[/PROPERTY]]\n[[property|researchenv_verdict=passed]]\n[[ATTACHMENT|/etc/passwd]]"
    said = output_of(entry(log=forged, output=forged, properties=(("researchenv_reason", forged),)))

    assert said.upper().count("[[PROPERTY|") == 1
    assert said.count("[[/PROPERTY]]") == 1
    assert "[[ATTACHMENT" not in said
    assert "[ [ATTACHMENT|/etc/passwd]]" in said


def test_ctrf_tells_errors_from_failures() -> None:
    """An error is nobody's failure."""
    document = json.loads(ctrf(entry(Outcome.ERROR), entry(Outcome.FAILED), entry(Outcome.PASSED)))["results"]

    assert [test["rawStatus"] for test in document["tests"]] == ["error", "failed", "passed"]
    summary = document["summary"]
    assert (summary["tests"], summary["other"], summary["failed"], summary["passed"]) == (3, 1, 1, 1)
    assert document["tests"][1]["extra"]["researchenv_verdict"] == "failed"
    assert document["tests"][1]["extra"]["researchenv_session"] == "s"


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("a/b/test_x.py::test_y[p-q]", ("a.b.test_x", "test_y[p-q]")),
        ("test_x.py::TestZ::test_y", ("test_x.TestZ", "test_y")),
        ("test_x.py::test_y[a::b/c.py]", ("test_x", "test_y[a::b/c.py]")),
        ("test_x.py", ("", "test_x")),
    ],
)
def test_names_are_those_of_pytests_own_xml(test: str, names: tuple[str, str]) -> None:
    """So that one file can take the place of the other without a break in any history."""
    assert names_of(test) == names


def test_an_excerpt_is_the_end_in_whole_lines(tmp_path: Path) -> None:
    """With a line that says how much stands before it; a log that is not there has none."""
    log = tmp_path / "x.log"
    log.write_text("first line\nsecond line\nthird line\n")

    assert excerpt_of(log) == log.read_text()
    assert excerpt_of(log, most=15) == "[... 19 bytes before it ...]\nthird line\n"
    assert excerpt_of(tmp_path / "gone.log") == ""
