"""Documentation that is executed: a page's files are written, its commands run, its outcomes compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from tests.choosing import mostly_slow
from tests.pages import DOCS, blocks_of, missing_line, repeat, write_file


@pytest.fixture
def workplace(tmp_path: Path, docker_client: DockerClient) -> Iterator[Path]:
    """An empty folder; what was frozen from there is removed in the end."""
    yield tmp_path
    for image in {json.loads(record.read_text())["image"] for record in tmp_path.rglob("environment.json")}:
        docker_client.images.remove(image, force=True)


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        ("add-your-own-repository.md", "commands.md", "diagnosis.md", "results.md", "sharing.md", "verify.md"),
        # What most others say is tried for every change by tests of the commands that they are about.
        but={"diagnosis.md"},
    ),
)
def test_a_page_does_what_it_says(name: str, workplace: Path) -> None:
    """Every fenced block of the page is a file or a session, and every session ends and prints as it shows."""
    for block in blocks_of((DOCS / name).read_text()):
        where = f"{name}:{block.line}"
        if block.kind == "console":
            repeat(block, workplace, where)
        else:
            write_file(block, workplace, where)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["a", "b"], "b\na\n"),
        (["1 passed in ..."], "2 passed in 3s\n"),
        (["a"], "ab\n"),
        (["a", "a"], "a\n"),
        (["a"], ""),
    ],
)
def test_what_was_not_printed_is_missed(shown: list[str], printed: str) -> None:
    """Order, whole lines and repetitions count."""
    assert missing_line(shown, printed) in shown


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["a", "c"], "a\nb\nc\n"),
        (["... passed in ..."], "== 2 passed in 3s ==\n"),
        (["  log:   x"], "  log: x\n"),
    ],
)
def test_what_was_printed_is_found(shown: list[str], printed: str) -> None:
    """Lines between, three dots and the width of spaces do not count."""
    assert missing_line(shown, printed) is None
