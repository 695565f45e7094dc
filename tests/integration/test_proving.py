"""The command that shows that probes can be believed, on a real engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.report.validation import validation_page
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.store import Store, load_environment
from pytest_researchenv.suite import load_suite


TINY = Path(__file__).parents[2] / "fixtures" / "suites" / "tiny"


@pytest.fixture
def prove(docker_sandbox: DockerSandbox, base_image: str, tmp_path: Path) -> Iterator[Callable[..., int]]:
    """The command, with results in a folder of the test's own; what it froze is removed at the end."""
    del base_image

    def run(*arguments: str) -> int:
        folders = ["--results", str(tmp_path / "results"), "--cache", str(tmp_path / "cache")]
        return main(["prove", *arguments, "--accelerator", "cpu", *folders])

    yield run
    images = {load_environment(file.parent).image for file in tmp_path.glob("results/**/environment.json")}
    # An image cannot go before those made from it.
    while images:
        before = len(images)
        for image in sorted(images):
            with suppress(SandboxError):
                docker_sandbox.remove_image(image)
                images.remove(image)
        assert len(images) < before


def test_good_bare_and_broken_environments_are_told_apart(
    prove: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The oracle passes; the bare environment, one without the package and one without the entry point's work fail."""
    assert prove(str(TINY), "--only", "needy") == 0
    said = capsys.readouterr().out
    for line in (
        "ok: needy oracle C0 passed",
        "ok: needy oracle C1 passed",
        "ok: needy noop C1 failed",
        "ok: needy sabotage-package C0 failed: 1 of",
        "ok: needy sabotage-package C1 failed",
        "ok: needy sabotage-entry C1 failed",
    ):
        assert line in said
    page = validation_page(load_suite(TINY), Store(tmp_path / "results", "proof"))
    assert "| needy | C0, C1 | `tinydep`: C0, C1 | - | `run.py`: C1 |" in page

    # What stands is not done again.
    assert prove(str(TINY), "--only", "needy") == 0
    assert "agent at work" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        pytest.param(
            'entry]\ntarget = "gone.py"\ntiers = ["C0"]',
            "names 'gone.py', which is no file of the pinned tree",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            'package]\ntarget = "not-installed"\ntiers = ["C0"]',
            "NOT failed: needy sabotage-package C0 passed",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_sabotage_that_is_missed_is_told(
    prove: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], sabotage: str, says: str
) -> None:
    """Whether the probe missed it or there was nothing to break, the command ends with code 1."""
    suite = tmp_path / "suite"
    (suite / "needy").mkdir(parents=True)
    (suite / "suite.toml").write_text('name = "tiny"\n')
    text = (TINY / "needy" / "repo.toml").read_text().partition("\n[sabotage")[0]
    text = text.replace("../../../repos", str(TINY.parents[1] / "repos"))
    (suite / "needy" / "repo.toml").write_text(f"{text}\n[sabotage.{sabotage}\n")
    (suite / "needy" / "oracle.sh").write_text((TINY / "needy" / "oracle.sh").read_text())

    assert prove(str(suite)) == 1

    assert says in "".join(capsys.readouterr())
