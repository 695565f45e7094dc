"""How C0 hands sources to pyright, and reads its answer."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from pytest_researchenv.probes.pyright import (
    PyrightError,
    analysed,
    blank_suppressions,
    parse_report,
    plain_path,
    renamed,
)


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


@pytest.mark.parametrize(
    "path",
    [
        "a/b.py",
        "with space/ünï.py",
        ".hidden/x-y.z.py",
        "..py",
        "case.py",
        "Case.py",
        "-p.py",
        "क्या.py",
        "a/__init__.py",
    ],
)
def test_plain_names_stay(path: str) -> None:
    """What may be imported is an identifier; spaces, dots and hyphens do no harm."""
    assert plain_path(path) == path


def test_other_names_become_plain_ones_one_to_one() -> None:
    """Bytes that are no text, and what means something in an address or a pattern, in files and in folders."""
    odd = [os.fsdecode(bytes([byte])) for byte in range(1, 256) if byte != ord("/")]
    names = [f"{letter}{number}" for number in (1, 2) for letter in odd if not f"_{letter}".isidentifier()]
    paths = [f"{name}/{name}.py" for name in names]

    plain = [plain_path(path) for path in paths]

    assert len(set(plain)) == len(paths)
    assert all(re.fullmatch(r"[\w .-]+/[\w .-]+\.py", path, re.ASCII) for path in plain)
    assert [analysed(path) for path in plain] == [analysed(path) for path in paths]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a, b.c as d, a.x as y\n", "import P_a, b.c as d, P_a.x as y\n"),
        ("from a import (q,\n  a)\nfrom a.b import *\n", "from P_a import (q,\n  a)\nfrom P_a.b import *\n"),
        ("if 1: from \\\r\n\ta.b import z; import a\r\n", "if 1: from \\\r\n\tP_a.b import z; import P_a\r\n"),
        (
            "from . import a\nfrom .a import b\nfrom ab import a\n",
            "from . import a\nfrom .a import b\nfrom ab import a\n",
        ),
        ("x = 'é import a'; import a  # import a\n", "x = 'é import a'; import P_a  # import a\n"),
        ("\x0cimport a\rimport a", "\x0cimport P_a\rimport P_a"),
        ("import b\n", "import b\n"),
        ("import a\nprint 'hello'\n", "import a\nprint 'hello'\n"),
    ],
)
def test_only_absolute_imports_of_the_given_names_are_renamed(source: str, expected: str) -> None:
    """Everything else stays byte for byte; what is no Python stays altogether."""
    assert renamed(source.encode(), {"a"}, "P_") == expected.encode()


def test_renaming_keeps_the_encoding() -> None:
    """Declared, or by a byte order mark."""
    latin = "# coding: latin-1\nx = 'é'; import a\n".encode("latin-1")

    assert renamed(latin, {"a"}, "P_") == latin.replace(b"import a", b"import P_a")
    assert renamed(b"\xef\xbb\xbfimport a\n", {"a"}, "P_") == b"\xef\xbb\xbfimport P_a\n"
    assert renamed(b"\xff import a\n", {"a"}, "P_") == b"\xff import a\n"


def test_a_report_speaks_of_the_trees_own_names() -> None:
    """Neither of the names that files got for pyright, nor of those that were put behind a prefix."""
    text = answer(diagnostic('Import "P_a.b" could not be resolved'))

    report = parse_report(text, 1, folder="/r", paths={"a/b.py": "a/é?.py"}, prefix="P_")

    assert str(report.diagnostics[0]) == 'a/é?.py:5: Import "a.b" could not be resolved'
    assert report.diagnostics[0].name == "a"
