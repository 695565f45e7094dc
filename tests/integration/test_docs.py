"""Documentation that is executed: a page's files are written, its commands run, its outcomes compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import DockerClient


DOCS = Path(__file__).parents[2] / "docs"
DEADLINE_S = 240
FENCE = re.compile(r"^```(?P<kind>\w*) ?(?P<rest>.*?)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: a file to write, or a console session to repeat.

    Attributes:
        kind: first word of the info string.
        rest: the file's path, or `exit=N` where the session's last command ends with that code.
        body: what stands in it.
        line: where it begins on the page.
    """

    kind: str
    rest: str
    body: str
    line: int

    @property
    def exit_code(self) -> int:
        """Code that the session's last command must end with."""
        return int(self.rest.removeprefix("exit=") or 0)


def blocks_of(page: str) -> list[Block]:
    """Return a page's fenced blocks in order."""
    return [
        Block(found["kind"], found["rest"], found["body"], page.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(page)
    ]


def commands_of(session: str) -> list[tuple[str, list[str]]]:
    """Return a console session's commands, each with the lines that are shown below it."""
    commands: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), []))
        elif line.strip() not in ("", "..."):
            commands[-1][1].append(line)
    return commands


def missing_line(shown: list[str], printed: str) -> str | None:
    """Return the first shown line that was not printed in this order; `...` stands for anything in a line."""
    lines = iter(printed.splitlines())
    for wanted in shown:
        pattern = ".*".join(r"\s+".join(map(re.escape, part.split())) for part in wanted.split("..."))
        if not any(re.fullmatch(pattern, line.strip()) for line in lines):
            return wanted
    return None


@pytest.fixture
def workplace(tmp_path: Path, docker_client: DockerClient) -> Iterator[Path]:
    """An empty folder; what was frozen from there is removed in the end."""
    yield tmp_path
    for image in {json.loads(record.read_text())["image"] for record in tmp_path.rglob("environment.json")}:
        docker_client.images.remove(image, force=True)


@pytest.mark.parametrize("name", ["add-your-own-repository.md", "results.md", "verify.md"])
def test_a_page_does_what_it_says(name: str, workplace: Path) -> None:
    """Every fenced block of the page is a file or a session, and every session ends and prints as it shows."""
    for block in blocks_of((DOCS / name).read_text()):
        where = f"{name}:{block.line}"
        if block.kind == "console":
            _repeat(block, workplace, where)
        else:
            assert block.rest, f"{where}: neither a console session nor a file with a name"
            path = workplace / block.rest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body)


def _repeat(block: Block, folder: Path, where: str) -> None:
    commands = commands_of(block.body)
    assert commands, f"{where}: a console session without a command"
    for number, (command, shown) in enumerate(commands, start=1):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            env=_environment(),
        )
        expected = block.exit_code if number == len(commands) else 0
        assert done.returncode == expected, f"{where}: {command} ended with {done.returncode}:\n{done.stdout}"
        missing = missing_line(shown, done.stdout)
        assert missing is None, f"{where}: {command} did not print {missing!r}, but:\n{done.stdout}"


def _environment() -> dict[str, str]:
    """As in a reader's terminal, with this project's commands first on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RESEARCHENV_", "PYTEST_"))}
    kept.pop("CI", None)
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "COLUMNS": "100"}


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
