"""Stands in for what a recipe calls: `stand_in.py NAME ARGUMENTS…`. Standard library only.

What `uv pip install` and `pip install` are asked for is resolved for the target, with what earlier commands resolved as
already installed, and written down; nothing is installed. `uv venv` makes an environment whose interpreter runs what
is given by `-c`, and ends well. Everything else is written down, does nothing, and ends well.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from .resolution import HOME, PYTHON, TARGET_PYTHON, UV, Resolution, installed, keep
from .wanted import Wanted, allows, name_of


RECORD = HOME / "record.jsonl"


def write(**values: object) -> None:
    """Add a line to the record."""
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def install(tool: str, arguments: list[str]) -> int:
    """Resolve what is to be installed, and note it."""
    wanted = Wanted(arguments)
    resolution = Resolution(wanted)
    resolution.run()
    before = installed()
    replaced = {
        name: f"{before[name]} by {version}"
        for name, version in resolution.found.items()
        if name in before and before[name] != version and not wanted.elsewhere
    }
    if not wanted.elsewhere:
        keep(before | resolution.found)
    write(
        kind="install",
        command=f"{tool} install {shlex.join(arguments)}",
        resolved=resolution.found,
        unresolved=resolution.unresolved,
        problem=resolution.problem,
        replaced=replaced,
    )
    return 0


# --- the other commands -----------------------------------------------------------------------------------


def release(request: str) -> str:
    """The release that `uv venv --python REQUEST` takes on the target, whose own Python is one.

    An exact one is fetched where it is not there. A range takes the target's own where that is in it, and otherwise
    the newest that uv knows.
    """
    exact = re.fullmatch(r"(?:cpython|python)?[@-]?(\d+\.\d+)(?:\.\d+)?t?", request)
    if exact:
        return exact[1]
    if not re.match(r"[<>=~!]", request):
        return TARGET_PYTHON  # `python3`, or a path.
    known = subprocess.run([UV, "python", "list", "--only-downloads"], capture_output=True, text=True, check=False)
    releases = re.findall(r"^cpython-(\d+\.\d+)\.\d+-", known.stdout, re.MULTILINE)
    return next((one for one in (TARGET_PYTHON, *releases) if allows(request, one)), TARGET_PYTHON)


def make_environment(arguments: list[str]) -> int:
    """Make an environment of the interpreter that is here, and have everything in it stand in."""
    request, folder, waiting = "", ".venv", list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=") if word.startswith("-") else (word, "", "")
        if name in {"-p", "--python", "--prompt", "--cache-dir"}:
            value = value if equals else (waiting.pop(0) if waiting else "")
            request = value if name in {"-p", "--python"} else request
        elif not word.startswith("-"):
            folder = word
    chosen = release(request) if request else TARGET_PYTHON
    PYTHON.write_text(chosen, encoding="utf-8")
    keep({})
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
    binaries = Path(folder, "bin").resolve()
    (binaries / "python").rename(binaries / ".real-python")
    for name in ("python", "python3", f"python{chosen}", "pip", "pip3"):
        stub = binaries / name
        stub.unlink(missing_ok=True)
        what = f"python {shlex.quote(str(binaries / '.real-python'))}" if name.startswith("python") else "pip"
        stub.write_text(f'#!/bin/sh\nexec {HOME}/call {what} "$@"\n', encoding="utf-8")
        stub.chmod(0o755)
    write(kind="python", command=shlex.join(["uv", "venv", *arguments]), python=chosen)
    return 0


def python(arguments: list[str]) -> int:
    """Be an environment's interpreter: `-m pip` is pip, `-c` is run and forgiven, all else is nothing."""
    real, *rest = arguments
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    plain = [word for word in rest if word not in {"-I", "-s", "-u", "-E"}]
    if plain[:2] == ["-m", "pip"]:
        return pip(plain[2:])
    if plain[:2] == ["-m", "venv"]:
        return make_environment([word for word in plain[2:] if not word.startswith("-")])
    if plain[:1] == ["-c"]:
        # What it imports is not there.
        subprocess.run([real, *rest], env=clean, stderr=subprocess.DEVNULL, check=False)
        return 0
    if plain[:1] in (["-V"], ["--version"]):
        return subprocess.run([real, *rest], env=clean, check=False).returncode
    write(kind="other", command=shlex.join(["python", *rest]))
    return 0


def pip(arguments: list[str], tool: str = "pip") -> int:
    """Be pip, or `uv pip`."""
    action, *rest = arguments or ["help"]
    if action == "install":
        return install(tool, rest)
    if action == "uninstall":
        gone = {name_of(word) for word in rest if not word.startswith("-")}
        keep({name: version for name, version in installed().items() if name not in gone})
    elif action in {"freeze", "list"}:
        sys.stdout.write("".join(f"{name}=={version}\n" for name, version in sorted(installed().items())))
    else:
        write(kind="other", command=f"{tool} {shlex.join(arguments)}")
    return 0


def uv(arguments: list[str]) -> int:
    """Be uv."""
    if arguments[:1] == ["venv"]:
        return make_environment(arguments[1:])
    if arguments[:1] == ["pip"]:
        return pip(arguments[1:], "uv pip")
    if arguments[:1] == ["python"] or arguments[:1] == ["--version"]:
        return 0
    write(kind="other", command=shlex.join(["uv", *arguments]))
    return 0


def main(name: str, arguments: list[str]) -> int:
    """Be whatever was called."""
    actions = {"uv": uv, "pip": pip, "pip3": pip, "python": python}
    if name in actions:
        return actions[name](arguments)
    if name != "nvidia-smi":
        write(kind="other", command=shlex.join([name, *arguments]))
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1], sys.argv[2:]))
