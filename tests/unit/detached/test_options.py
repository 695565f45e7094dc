"""Options of research runs: what is wrong is said before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--researchenv-extend=1h"], "*needs --researchenv-run*"),
        (["--researchenv-extend=1x", "--researchenv-run=r"], "*'1x' is no time*"),
        (["--researchenv-extend-dollars=1"], "*needs --researchenv-extend*"),
        (["--researchenv-extend=0", "--researchenv-run=r", "--researchenv-extend-dollars=-1"], "*US dollars*"),
        (["--researchenv-extend=0", "--researchenv-run=r", "--researchenv-rebuild"], "*begins anew*"),
        (["--researchenv-archive-interval=-1"], "*a number of seconds, or 0*"),
        (["--researchenv-archive-limit=0"], "*a positive number of GiB*"),
        (["--researchenv-interrupt=ask"], "*give leave or stop*"),
        (["--researchenv-data=nowhere"], "*which is no folder*"),
        (["--researchenv-research-prompt=nothing.md"], "*which is no file*"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_a_usage_error(pytester: pytest.Pytester, arguments: list[str], message: str) -> None:
    """With the option, its value, and what to give."""
    pytester.makepyfile("def test_one(): pass")

    result = pytester.runpytest(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_what_is_right_is_taken(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """All of them together."""
    pytester.makepyfile("def test_one(): pass")
    (tmp_path / "my.md").write_text("{{ report_path }}")

    result = pytester.runpytest(
        "--researchenv-extend=1h30m",
        "--researchenv-extend-dollars=2.5",
        "--researchenv-run=r",
        "--researchenv-archive-interval=0",
        "--researchenv-archive-limit=0.5",
        "--researchenv-interrupt=stop",
        f"--researchenv-data={tmp_path}",
        f"--researchenv-research-prompt={tmp_path / 'my.md'}",
    )

    assert result.ret == pytest.ExitCode.OK
