"""Completion, asked of the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv.commands import COMMANDS


#: A shell that does not complete is waited for no longer.
DEADLINE_S = 60

BASH = """
source ./script
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
COMP_LINE="${{COMP_WORDS[*]}}"
COMP_POINT=${{#COMP_LINE}}
function=$(complete -p researchenv | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" researchenv "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "pytest_researchenv.cli", "completion", shell]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def shell_or_skip(name: str) -> str:
    """The shell's program; bash is everywhere."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not on PATH")
    return program


def completed(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in ("researchenv", *words))
    text = BASH.format(words=quoted, count=len(words) + 1)
    done = subprocess.run(["bash", "-c", text], cwd=folder, check=True, capture_output=True, text=True)
    return {line.strip() for line in done.stdout.splitlines()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the script of bash, a file and a folder."""
    (tmp_path / "script").write_text(script("bash"))
    (tmp_path / "my-folder").mkdir()
    (tmp_path / "my-file.json").touch()
    return tmp_path


def test_bash_completes_commands(folder: Path) -> None:
    """All of them where nothing was typed yet; those that begin so otherwise."""
    assert set(COMMANDS) <= completed(folder, "")
    assert completed(folder, "do") == {"doctor", "document"}


def test_bash_completes_options_of_a_command(folder: Path) -> None:
    """Its own, and no other's."""
    assert completed(folder, "doctor", "--acc") == {"--accelerator"}
    assert completed(folder, "stats", "--acc") == {""}


def test_bash_completes_values_folders_and_files(folder: Path) -> None:
    """Where an option takes one of some words, a folder, a file."""
    assert completed(folder, "doctor", "--accelerator", "c") == {"cpu", "cuda"}
    assert completed(folder, "completion", "") >= {"bash", "zsh", "fish"}
    assert completed(folder, "stats", "--results", "my-") == {"my-folder"}
    assert completed(folder, "trajectory", "my-") >= {"my-file.json"}


ZSH = r"""
zmodload zsh/zpty
zpty shell 'PS1=READY; exec zsh -f -i'
zpty -w shell "fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; print SE''T"
zpty -r shell said '*SET*'
zpty -w -n shell $'researchenv calib\t'
zpty -r shell said '*calibration*'
zpty -w -n shell $'--ru\t'
zpty -r shell said '*--run*'
print completed
zpty -d shell
"""


def test_zsh_completes_commands_and_options(tmp_path: Path) -> None:
    """In a real zsh, on a terminal of its own: keys go in, and what it shows is waited for."""
    program = shell_or_skip("zsh")
    (tmp_path / "_researchenv").write_text(script("zsh"))
    command = [program, "-f", "-c", ZSH]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=DEADLINE_S)

    assert done.stdout == "completed\n"


def test_fish_completes_commands_and_options(tmp_path: Path) -> None:
    """As fish itself would list them."""
    program = shell_or_skip("fish")
    (tmp_path / "researchenv.fish").write_text(script("fish"))

    def offered(line: str) -> set[str]:
        text = f"source {tmp_path}/researchenv.fish; complete --do-complete '{line}'"
        done = subprocess.run(
            [program, "--no-config", "-c", text],
            check=True,
            capture_output=True,
            text=True,
            env={"HOME": str(tmp_path)},
        )
        return {one.partition("\t")[0] for one in done.stdout.splitlines()}

    assert offered("researchenv do") == {"doctor", "document"}
    assert "--accelerator" in offered("researchenv doctor --acc")
