"""How C0 hands sources to pyright, and reads its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_researchenv.probes.pyright import PyrightError, blank_suppressions, parse_report


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a  # type: ignore\n", "import a  #\n"),
        ("import a  # type:ignore[import] # why\n", "import a  #\n"),
        ("import a  # noqa # pyright: ignore\n", "import a  #\n"),
        ("# pyright: strict\r\nimport a\r\n", "#\r\nimport a\r\n"),
        ("\x0cimport a # TYPE: IGNORE", "\x0cimport a #"),
        ('x = """\n# type: ignore\n"""  # pyright: basic\n', 'x = """\n# type: ignore\n"""  #\n'),
        ("x = '# type: ignore'\n", "x = '# type: ignore'\n"),
        ("x = 1  # a type we do not ignore\n", "x = 1  # a type we do not ignore\n"),
        ("x = '\u2028'  # type: ignore\n", "x = '\u2028'  #\n"),
    ],
)
def test_only_comments_that_silence_are_blanked(source: str, expected: str) -> None:
    """Strings, other comments, line ends and line numbers stay as they are."""
    assert blank_suppressions(source.encode()).decode() == expected


def test_blanking_keeps_the_encoding() -> None:
    """A file declared as latin-1 stays latin-1, and a byte order mark stays."""
    latin = "# coding: latin-1\nx = 'é'  # type: ignore\n".encode("latin-1")

    assert blank_suppressions(latin) == latin.replace(b"# type: ignore", b"#")
    assert blank_suppressions(b"\xef\xbb\xbfx = 1 # type: ignore\n") == b"\xef\xbb\xbfx = 1 #\n"


@pytest.mark.parametrize("source", [b"x = (  # type: ignore\n", b"\xff # type: ignore", b"# coding: nothing\n"])
def test_what_cannot_be_tokenized_stays_as_it_is(source: bytes) -> None:
    """Byte for byte."""
    assert blank_suppressions(source) == source


def answer(*diagnostics: dict[str, Any], files: int = 1) -> str:
    """What pyright prints."""
    report = {"version": "1.1.414", "generalDiagnostics": diagnostics, "summary": {"filesAnalyzed": files}}
    return json.dumps(report, indent=4)


def diagnostic(message: str, rule: str | None = "reportMissingImports") -> dict[str, Any]:
    """One item of its report."""
    item = {"file": "/r/a/b.py", "message": message, "range": {"start": {"line": 4, "character": 0}}}
    return item | ({"rule": rule} if rule else {})


def test_imports_are_read_out_of_pyrights_answer() -> None:
    """Whatever node prints around it; rules and syntax errors that are not about imports are passed over."""
    text = answer(
        diagnostic('Import "a.b" could not be resolved'),
        diagnostic('Import ".c" could not be resolved'),
        diagnostic('Import "yaml" could not be resolved from source', "reportMissingModuleSource"),
        diagnostic("Expected expression", None),
        files=7,
    )

    report = parse_report(f"(node) warning {{\n{text}\nmore", 1, folder="/r")

    assert report.files == 7
    assert [(item.name, item.module, item.relative) for item in report.diagnostics] == [
        ("a", "a.b", False),
        ("", ".c", True),
        ("yaml", "yaml", False),
    ]
    assert str(report.diagnostics[0]) == 'a/b.py:5: Import "a.b" could not be resolved'


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("", 0),
        ("No source files found.", 0),
        (answer(), 2),
        (answer(), 137),
        (answer()[:-20], 1),
        ('{\n    "version": "1"}', 0),
        (answer(diagnostic("Der Import konnte nicht aufgelöst werden")), 1),
        ('{\n    "version": "1", "generalDiagnostics": [3], "summary": {"filesAnalyzed": 1}}', 1),
    ],
)
def test_an_answer_that_is_none_is_never_nothing_missing(output: str, code: int) -> None:
    """Silence, a crash, a cut-off answer and unknown words all raise."""
    with pytest.raises(PyrightError):
        parse_report(output, code, folder="/r")
