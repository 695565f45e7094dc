"""Commands that a page shows without a session that is repeated: each is one that there is, and selects something."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pytest_researchenv.commands import command_of, parser_of
from tests.pages import DOCS


ROOT = DOCS.parent
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))


def shown(program: str) -> list[str]:
    """The command lines of a program, as all pages have them, each once."""
    lines = (line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines())
    found = (re.match(rf"(?:    |\$ )({program} .+)", line) for line in lines)
    return sorted({match[1] for match in found if match and not re.search(r"[|<>&$]|…| \.\.\.", match[1])})


RESEARCHENV, PYTEST = shown("researchenv"), shown("pytest")


@pytest.mark.parametrize("line", RESEARCHENV)
def test_a_command_is_called_as_it_wants(line: str) -> None:
    """No option or value that it does not know, and none that it lacks."""
    given = shlex.split(line, comments=True)[1:]
    command = command_of(given)
    own = given[: given.index("--")] if command and command.passes_on and "--" in given else given

    if "--help" not in own:
        assert parser_of(own).parse_args(own).run


@pytest.mark.parametrize("line", [line for line in PYTEST if "--researchenv-suite" in line])
def test_a_session_selects_tests(pytester: pytest.Pytester, line: str) -> None:
    """Of a suite that comes with this package."""
    result = pytester.runpytest(*shlex.split(line, comments=True)[1:], "--collect-only", "-q")

    assert result.ret == 0
    assert "test_" in result.stdout.str()


def test_options_that_are_named_are_there(pytester: pytest.Pytester) -> None:
    """Wherever a page speaks of one of pytest's, not in command lines alone."""
    option = re.compile(r"--researchenv-[a-z0-9-]*[a-z0-9]")
    known = set(option.findall(pytester.runpytest("--help").stdout.str()))
    named = {(page.name, found) for page in PAGES for found in option.findall(page.read_text(encoding="utf-8"))}

    assert len(known) > 20
    assert {(page, found) for page, found in named if found not in known} == set()


@pytest.mark.parametrize("line", [line for line in PYTEST if re.search(r" tests/", line)])
def test_tests_that_are_named_are_there(line: str) -> None:
    """By file."""
    paths = [Path(word.partition("::")[0]) for word in shlex.split(line, comments=True) if word.startswith("tests/")]

    assert all((ROOT / path).exists() for path in paths)


def test_many_are_looked_at() -> None:
    """So that the tests above are no empty ones."""
    assert len(RESEARCHENV) > 40
    assert len(PYTEST) > 10
