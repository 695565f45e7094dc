"""How much code the suite for ResearchEnvBench is, and that its probes do not repeat one another."""

from __future__ import annotations

import ast
import io
import itertools
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest_researchenv
from pytest_researchenv.suite import find_suite


_SUITE = find_suite("researchenvbench")
_MOST_LINES = 6000
#: So many lines in a row, imports, docstrings, comments and blank ones aside, belong into a shared module.
_SAME_LINES = 6


def _scripts() -> list[Path]:
    """The probe scripts and what those of this suite alone share; the kit comes with the package, for every suite."""
    return sorted([*_SUITE.glob("*/probes/*.py"), *_SUITE.glob("_shared/*.py")])


def _code(text: str) -> Iterator[str]:
    """The lines of code of a script, with white space evened out."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        text_alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (text_alone or isinstance(node, ast.Import | ast.ImportFrom)):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    yield from (" ".join(line.split()) for line in lines if line.strip())


def _repeated(scripts: dict[str, str]) -> dict[tuple[str, str], int]:
    """Pairs of scripts that hold the same lines in a row, and how many such rows of six."""
    holders: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for name, text in scripts.items():
        code = list(_code(text))
        for start in range(len(code) - _SAME_LINES + 1):
            holders[tuple(code[start : start + _SAME_LINES])].add(name)
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for names in holders.values():
        for one, other in itertools.combinations(sorted(names), 2):
            found[one, other] += 1
    return dict(found)


def test_the_suite_is_small_enough_to_be_read() -> None:
    """Descriptions, probes and what probes share are fewer than 6,000 lines."""
    files = [*_SUITE.glob("*/repo.toml"), *_scripts()]

    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)

    assert lines < _MOST_LINES


def test_no_probe_repeats_six_lines_of_another() -> None:
    """What two probes need lies in a shared module, and what the kit has is taken from it."""
    kit = Path(pytest_researchenv.__file__).parent / "probes" / "kit"
    scripts = {str(file): file.read_text(encoding="utf-8") for file in (*_scripts(), *kit.glob("*.py"))}

    assert _repeated(scripts) == {}


def test_lines_are_compared_without_what_is_no_code() -> None:
    """Indentation, comments, blank lines, docstrings and imports neither make lines equal nor keep them apart."""
    body = [f"x{number} = {number}" for number in range(_SAME_LINES)]
    plain = "import os\n" + "\n".join(body) + "\n"
    dressed = "def f():\n" + '    """Say.\n\n    More.\n    """\n' + "".join(f"    {line}  # why\n\n" for line in body)
    broken = "\n".join([*body[:3], "y = 1", *body[3:]]) + "\n"

    assert _repeated({"a": plain, "b": dressed}) == {("a", "b"): 1}
    assert _repeated({"a": plain, "b": broken}) == {}
    assert _repeated({"a": plain.replace("import os", "import re"), "b": "\n".join(body[1:])}) == {}
