"""What a command of uv or pip asks for. Standard library only: it runs in the container."""

from __future__ import annotations

import os
import re
from pathlib import Path


__all__ = ["FLAGS", "Wanted", "allows", "name_of", "path_of", "pins"]

#: Options of uv and pip that take a value: those of a resolver are handed on, the others are left out.
_HANDED = {
    "-c": "--constraint",
    "--constraint": "--constraint",
    "--constraints": "--constraint",
    "--override": "--override",
    "--overrides": "--override",
    "--prerelease": "--prerelease",
    "--resolution": "--resolution",
    "--exclude-newer": "--exclude-newer",
    "-i": "--index-url",
    "--index-url": "--index-url",
    "--default-index": "--default-index",
    "--index": "--index",
    "--extra-index-url": "--extra-index-url",
    "--index-strategy": "--index-strategy",
    "-f": "--find-links",
    "--find-links": "--find-links",
    "--no-binary": "--no-binary",
    "--only-binary": "--only-binary",
}
_DROPPED = {
    *("-p", "--python", "-C", "--config-setting", "--config-settings", "--config-settings-package"),
    *("--python-version", "--python-platform", "--cache-dir", "--root", "--timeout", "--retries", "--link-mode"),
    *("--no-build-isolation-package", "--torch-backend", "--trusted-host", "--log", "--proxy", "--cert"),
}
_ELSEWHERE = {"-t", "--target", "--prefix"}
#: Flags of a resolver.
FLAGS = {"--no-deps", "--pre", "--upgrade", "--no-sources", "--no-index"}
_SHORT = {"-U": "--upgrade", "-e": "--editable", "-r": "--requirement", "--requirements": "--requirement"}


class Wanted:
    """What one command asks for.

    Attributes:
        direct: requirements and, after `-e `, editable projects.
        files: files of requirements.
        options: options for the resolver.
        flags: names of flags.
        elsewhere: whether it is installed outside of the environment.
    """

    def __init__(self, arguments: list[str]) -> None:
        self.direct: list[str] = []
        self.files: list[str] = []
        self.options: list[str] = []
        self.flags: set[str] = set()
        self.elsewhere = False
        waiting = list(arguments)
        while waiting:
            self._take(waiting.pop(0), waiting)

    def _take(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=") if word.startswith("--") else _short(word)
        name = _SHORT.get(name, name)
        if not name.startswith("-"):
            self.direct.append(word)
        elif name in {"--editable", "--requirement", *_HANDED, *_DROPPED, *_ELSEWHERE}:
            value = value if equals else (rest.pop(0) if rest else "")
            if name == "--editable":
                self.direct.append(f"-e {value}")
            elif name == "--requirement":
                self.files.append(value)
            elif name in _HANDED:
                self.options += [_HANDED[name], value]
            self.elsewhere |= name in _ELSEWHERE
        else:
            self.flags.add(name)


def _short(word: str) -> tuple[str, str, str]:
    """A short option, and the value that is glued to it, if any: `-rx.txt`, `-r=x.txt`."""
    name, glued = word[:2], word[2:]
    takes = _SHORT.get(name, name) in {"--editable", "--requirement", *_HANDED, *_DROPPED, *_ELSEWHERE}
    return (name, "=", glued.removeprefix("=")) if word.startswith("-") and glued and takes else (word, "", "")


def name_of(requirement: str) -> str:
    """The normalised name of a requirement, or an empty text."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def pins(text: str) -> dict[str, str]:
    """Name → version, of a list of pinned requirements."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", text, re.MULTILINE)
    return {name_of(name): version for name, version in found}


def path_of(requirement: str) -> Path | None:
    """The absolute path that a requirement is, without extras; None where it is none."""
    editable = requirement.startswith("-e ")
    text = re.sub(r"\[[^\]]*\]$", "", requirement.removeprefix("-e ").partition(" @ ")[2] or requirement)
    text = text.removeprefix("-e ").removeprefix("file://")
    return Path(os.path.abspath(text)) if editable or text.startswith((".", "/")) else None  # noqa: PTH100 - no link


def allows(specifier: str, candidate: str) -> bool:
    """Whether a PEP 440 specifier of whole releases allows one."""
    found = tuple(map(int, candidate.split(".")))
    for clause in specifier.split(","):
        parts = re.match(r"\s*([<>=~!]+)\s*([\d.]+)", clause)
        operator, wanted = parts.groups() if parts else ("", "0")
        bound = tuple(map(int, wanted.rstrip(".").split(".")))[:2]
        # `<3.13.1` allows 3.13 and `<3.13.0` does not; `>3.10.2` allows some of 3.10, and `~=3.10.2` nothing else.
        patched = wanted.count(".") > 1
        later = patched and bool(wanted.split(".")[2].strip("0"))
        holds = {
            "<": found < bound or (later and found == bound),
            "<=": found <= bound,
            ">": found > bound or (patched and found == bound),
            ">=": found >= bound,
            "==": found[: len(bound)] == bound,
            "~=": found == bound if patched else found >= bound and found[0] == bound[0],
            "!=": found[: len(bound)] != bound or patched,
        }
        if not holds.get(operator, True):
            return False
    return True
