"""Pages of the documentation that are executed: their files, their console sessions, their calculations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


__all__ = ["DOCS", "Block", "blocks_of", "commands_of", "missing_line", "repeat", "write_file"]

DOCS = Path(__file__).parents[1] / "docs"
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


def write_file(block: Block, folder: Path, where: str) -> None:
    """Write the file that a block is."""
    assert block.rest, f"{where}: neither a console session nor a file with a name"
    path = folder / block.rest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.body)


def repeat(block: Block, folder: Path, where: str) -> None:
    """Run the commands of a console session; each must end and print as it is shown."""
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
