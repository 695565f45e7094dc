"""One command, resolved for the target. Standard library only: it runs in the container."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from .wanted import FLAGS, Wanted, name_of, path_of, pins


__all__ = ["HOME", "PYTHON", "TARGET_PYTHON", "UV", "Resolution", "installed", "keep"]

HOME = Path(os.environ["RESEARCHENV_RESOLVE"])
PYTHON = HOME / "python.txt"
UV = os.environ["RESEARCHENV_UV"]
TARGET_PYTHON = os.environ["RESEARCHENV_PYTHON"]
_STATE = HOME / "installed.txt"
_PLATFORM = os.environ["RESEARCHENV_PLATFORM"]

#: How often what cannot be built is left out, before that is given up.
_ROUNDS = 25
_LIMIT_S = 900

_NO_FOLDER = "its folder holds no project: the tree could not be had, or lacks it"
_ONLY_A_BUILD = "only a build, which is not possible here, tells what it depends on"

_NO_BUILD = re.compile(r"Wheels are required for `([^`]+)`|[Bb]uilding source distributions for `([^`]+)` is disabled")
_NO_METADATA = re.compile(r"Failed to (?:build|download and build|prepare|generate|read metadata)[^`\n]*`([^`]+)`")
_ADDRESS = re.compile(r"Failed to (?:download|fetch)[^`\n]*`([^`]+ @ http[^`]+)`")
_NO_PROJECT = re.compile(r"`([^`]+)` does not appear to be a Python project")
_NETWORK = re.compile(r"dns error|error sending request|Failed to fetch|client error|Could not connect|timed out")


def installed() -> dict[str, str]:
    """What earlier commands resolved."""
    return pins(_STATE.read_text(encoding="utf-8")) if _STATE.exists() else {}


def keep(state: dict[str, str]) -> None:
    """Note what is installed from now on."""
    _STATE.write_text("".join(f"{name}=={version}\n" for name, version in sorted(state.items())), encoding="utf-8")


class Resolution:
    """One command, resolved."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.unresolved: list[list[str]] = []
        self.without: list[str] = []
        self.problem = ""
        self.found: dict[str, str] = {}
        self.files = [self._readable(file) for file in wanted.files]
        wanted.direct = [one for one in wanted.direct if not self._is_foreign(one)]
        if "--no-deps" in wanted.flags:
            # A project in a folder brings nothing but itself: it has to be there.
            wanted.direct = [one for one in wanted.direct if not self._is_project(one)]

    def _is_foreign(self, requirement: str) -> bool:
        if "git+" in requirement:
            self.unresolved.append([requirement, "it comes from Git, which is not asked"])
            return True
        if re.search(r"(?<!file)://", requirement):
            self.unresolved.append([requirement, "it comes from an address of its own, which is not asked"])
            return True
        return False

    def _is_project(self, requirement: str) -> bool:
        folder = path_of(requirement)
        if folder is None or folder.is_file():
            return False
        if not any((folder / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
            self.unresolved.append([requirement, _NO_FOLDER])
        return True

    def _readable(self, name: str) -> str:
        """A file of requirements without those that no index has, beside it: paths in it are relative."""
        file = Path(name)
        if not file.is_file():
            return name
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if line.lstrip().startswith(("#", "-")) or not self._is_foreign(line)]
        if kept == lines:
            return name
        copy = file.with_name(f".resolve-{len(self.unresolved)}-{file.name}")
        copy.write_text("\n".join(kept) + "\n", encoding="utf-8")
        return str(copy)

    def run(self) -> None:
        """Resolve, again and again without what cannot be decided, until something comes of it."""
        for _ in range(_ROUNDS):
            if not self.wanted.direct and not self.files:
                return
            code, said = self._compile(self.wanted.direct, self.files, no_deps="--no-deps" in self.wanted.flags)
            if code == 0:
                return
            if not self._left_out(said):
                self._fail(said)
                return
        self.problem = f"more than {_ROUNDS} packages cannot be decided"

    def _compile(self, direct: list[str], files: list[str], *, no_deps: bool) -> tuple[int, str]:
        pinned = HOME / "resolved.txt"
        keep_as = "" if self.wanted.elsewhere else "".join(f"{name}=={one}\n" for name, one in installed().items())
        pinned.write_text(keep_as, encoding="utf-8")
        left_out = HOME / "left-out.txt"
        left_out.write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in self.without), encoding="utf-8")
        python = PYTHON.read_text(encoding="utf-8") if PYTHON.exists() else TARGET_PYTHON
        command = [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--output-file", str(pinned)]
        command += ["--python-version", python, "--python-platform", _PLATFORM, "--override", str(left_out)]
        command += [flag for flag in sorted(self.wanted.flags & FLAGS) if flag != "--no-deps"]
        command += ["--no-deps"] if no_deps else []
        # What is to be compiled against what is installed cannot be here; its metadata would need that, too.
        command += ["--no-build"] if self.wanted.flags & {"--no-build-isolation"} and not no_deps else []
        command += [*self.wanted.options, *files, *(["-"] if direct or not files else [])]
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        # A build that asks Git for its version asks the real one.
        clean["PATH"] = clean["PATH"].replace(f"{HOME}/bin:", "")
        given = "\n".join(direct)
        try:
            done = subprocess.run(
                command, env=clean, input=given, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return 1, f"timed out after {_LIMIT_S} s"
        if done.returncode == 0:
            self.found.update(pins(pinned.read_text(encoding="utf-8")))
        return done.returncode, done.stderr

    def _left_out(self, said: str) -> bool:
        """Leave out what an error names as undecidable; whether there was something new."""
        if found := _NO_PROJECT.search(said):
            return self._drop(found[1], _NO_FOLDER)
        if found := _ADDRESS.search(said):
            return self._drop(found[1], "it comes from an address of its own, which does not answer")
        if found := _NO_BUILD.search(said) or _NO_METADATA.search(said):
            what = next(group for group in found.groups() if group)
            return self._drop(what, "it comes from Git, which is not asked" if "git+" in what else _ONLY_A_BUILD)
        # A project in a folder whose build fails is not named.
        local = [one for one in self.wanted.direct if path_of(one)] if "build backend returned an error" in said else []
        self.wanted.direct = [one for one in self.wanted.direct if one not in local]
        self.unresolved += [[one, _ONLY_A_BUILD] for one in local]
        return bool(local)

    def _drop(self, what: str, reason: str) -> bool:
        """Leave out a project in a folder, by its path, or a package, by its name."""
        path = what.partition(" @ ")[2].partition("file://")[2] or what
        local = [one for one in self.wanted.direct if path_of(one) == Path(path)]
        name = name_of(what)
        if local:
            self.wanted.direct = [one for one in self.wanted.direct if one not in local]
        elif not name or name in self.without or what.startswith("/"):
            return False
        else:
            self.without.append(name)
            asked = [one for one in self.wanted.direct if name_of(one) == name]
            self._check_alone(name, asked)
            local = asked
        self.unresolved.append([local[0] if local else what, reason])
        return True

    def _check_alone(self, name: str, asked: list[str]) -> None:
        """Ask whether a package that is left out is there at all, in the version that is asked for."""
        kept, self.without = self.without, [one for one in self.without if one != name]
        if asked:
            code, said = self._compile(asked, [], no_deps=True)
            if code:
                self._fail(said)
        self.without = kept

    def _fail(self, said: str) -> None:
        text = re.sub(r"^warning:.*\n(?:  cause:.*\n)*", "", said, flags=re.MULTILINE).strip()
        if "No solution found" in said:
            self.problem = self.problem or text[:2000]
        elif _NETWORK.search(said):
            self.unresolved.append([self._words(), f"something does not answer: {text[:300]}"])
        elif Path(".researchenv-no-tree").exists():
            self.unresolved.append([self._words(), f"the tree could not be had: {text[:300]}"])
        else:
            self.problem = self.problem or text[:2000]

    def _words(self) -> str:
        return shlex.join([*self.wanted.direct, *(f"-r {file}" for file in self.wanted.files)])
