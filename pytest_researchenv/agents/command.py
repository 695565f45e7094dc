"""Agents that are any command line: a user's own."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import final

from pytest_researchenv.agents._cli import digest_of, run_command
from pytest_researchenv.agents._scratch import write_text
from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH, TOOL_TARGET, AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import Trajectory
from pytest_researchenv.errors import ConfigurationError, ImageError
from pytest_researchenv.model import Repository


__all__ = ["CommandAgent", "FilesTool"]

_PROMPT_PATH = f"{SCRATCH}/prompt.md"

#: What may stand in braces; `${model}` is the shell's.
_WORDS = ("prompt", "prompt_file", "report", "workdir", "scratch", "files", "url", "token", "model")
_PLACEHOLDER = re.compile(rf"(?<!\$)\{{({'|'.join(_WORDS)})\}}")

#: Names in a folder of files that are not for agents.
_LEFT_OUT = re.compile(r"\.env(\..*)?|\.git|\.venv|venv|__pycache__|\.pytest_cache|researchenv-results")

#: What looks like one.
_BRACES = re.compile(r"(?<!\$)\{([a-z_]+)\}")

_OF_THE_MODEL = frozenset({"url", "token", "model"})


@final
class CommandAgent:
    """Runs one command in the agent's container, in the repository's folder, with the prompt as its file.

    In the arguments and in the values of variables, braces stand for what is known only when it starts:

    - `{prompt}`, `{prompt_file}`: what is to be done, and the file that holds it;
    - `{report}`, `{workdir}`: where the self-report belongs, and the repository's folder;
    - `{files}`, `{scratch}`: where the profile's own files are mounted, and a folder that is never frozen;
    - `{model}`, `{url}`, `{token}`: the model, where it answers, and what to show there in place of a key.

    The token stands in variables only: an engine shows the arguments of commands to everyone who may ask it.
    The command finds RESEARCHENV_PROMPT_FILE, RESEARCHENV_REPORT and RESEARCHENV_WORKDIR, too.

    Args:
        name: the name users select it by.
        command: what to run, an argument each; a line for a shell is `("sh", "-c", LINE)`.
        environment: variables that it gets beside those of every agent.
        needs: what must be there for it to work.

    Raises:
        ConfigurationError: the command is empty, shows the token, or asks for a model or files that `needs` lacks.
    """

    def __init__(
        self,
        *,
        name: str,
        command: tuple[str, ...],
        environment: Mapping[str, str] | None = None,
        needs: Needs | None = None,
    ) -> None:
        self._name = name
        self._command = command
        self._environment = dict(environment or {})
        self._needs = needs or Needs()
        self._check()

    @property
    def name(self) -> str:
        """The name users select it by."""
        return self._name

    @property
    def free(self) -> bool:
        """Without a model it costs no money."""
        return self._needs.service is None

    @property
    def needs(self) -> Needs:
        """As it was told."""
        return self._needs

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """Digest of its command, its variables, its files, and which model it asks."""
        del repository
        service = self._needs.service
        said = {
            "command": self._command,
            "environment": self._environment,
            "files": self._needs.tool.key if self._needs.tool else None,
            "model": [service.api, *service.models] if service else None,
        }
        return {"agent": f"{self._name} command {digest_of(said)}"}

    def work(self, task: AgentTask) -> Telemetry:
        """Run the command until it ends, or until the deadline.

        Raises:
            SandboxError: the prompt could not be written, or the engine failed.
        """
        known = self._known(task)
        write_text(task.container, _PROMPT_PATH, task.prompt)
        completed = run_command(
            task,
            [_filled(argument, known) for argument in self._command],
            {
                **{name: _filled(value, known) for name, value in self._environment.items()},
                "RESEARCHENV_PROMPT_FILE": _PROMPT_PATH,
                "RESEARCHENV_REPORT": REPORT_PATH,
                "RESEARCHENV_WORKDIR": task.repository.workdir,
            },
        )
        return Telemetry(ended=completed.how, numbers={"wall_s": round(completed.duration_s, 3)}, ok=completed.ok)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """None: what a command prints has no form of ours."""
        del transcript
        return None

    def _check(self) -> None:
        if not self._command or not self._command[0]:
            raise ConfigurationError(f"{self._name} has no command: give it in its profile, as a list of arguments")
        shown = _asked(self._command)
        asked = shown | _asked(self._environment.values())
        for word in _BRACES.findall("\n".join((*self._command, *self._environment.values()))):
            if word not in _WORDS and (near := get_close_matches(word, _WORDS, n=1)):
                raise ConfigurationError(f"{self._name}: {{{word}}} stands for nothing; did you mean {{{near[0]}}}?")
        if "token" in shown:
            raise ConfigurationError(
                f"{self._name} has {{token}} among its arguments, where it can be seen: put it into a variable"
            )
        if self._needs.service is None and (missing := sorted(asked & _OF_THE_MODEL)):
            raise ConfigurationError(f"{self._name} asks for {{{missing[0]}}}, but its profile names no model")
        if self._needs.tool is None and "files" in asked:
            raise ConfigurationError(f"{self._name} asks for {{files}}, but its profile names none")

    def _known(self, task: AgentTask) -> dict[str, str]:
        known = {
            "prompt": task.prompt,
            "prompt_file": _PROMPT_PATH,
            "report": REPORT_PATH,
            "workdir": task.repository.workdir,
            "scratch": SCRATCH,
            "files": self._needs.tool.place if isinstance(self._needs.tool, FilesTool) else TOOL_TARGET,
        }
        if self._needs.service is not None and task.model is not None:
            known |= {"model": self._needs.service.model, "url": task.model.url, "token": task.model.token}
        return known


@final
class FilesTool:
    """A file or a folder of this host for the agent's container; links in a folder are kept, never followed.

    Of a folder, what holds keys or grows with every run is left out: `.env` files, Git's, Python's and pytest's own
    folders, virtual environments, results.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def place(self) -> str:
        """Where the file or the folder is in the container."""
        return TOOL_TARGET if self._path.is_dir() else f"{TOOL_TARGET}/{self._path.name}"

    @cached_property
    def key(self) -> str:
        """The name, and a digest of all names, modes and contents.

        Raises:
            ConfigurationError: they cannot be read.
        """
        digest = hashlib.sha256()
        try:
            for name, path in self._found():
                digest.update(f"{name}\0{path.lstat().st_mode:o}\0".encode())
                content = _content(path)
                digest.update(b"%d\0%s" % (len(content), content))
        except OSError as error:
            raise ConfigurationError(f"cannot read the agent's files: {error}; correct its profile") from error
        return f"{re.sub('[^A-Za-z0-9_.-]', '-', self._path.name)[:40]}-{digest.hexdigest()[:16]}"

    def fill(self, archive: tarfile.TarFile, *, architecture: str) -> None:
        """Add the file, or all that is in the folder.

        Raises:
            ImageError: it cannot be read.
        """
        del architecture
        try:
            for name, path in self._found():
                archive.add(path, name, recursive=False, filter=_roots)
        except OSError as error:
            raise ImageError(f"cannot read the agent's files: {error}") from error

    def _found(self) -> Iterator[tuple[str, Path]]:
        if not self._path.is_dir():
            yield self._path.name, self._path
            return
        for path in sorted(self._path.rglob("*")):
            name = path.relative_to(self._path)
            if not any(_LEFT_OUT.fullmatch(part) for part in name.parts):
                yield name.as_posix(), path


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return bytes(path.readlink())
    return path.read_bytes() if path.is_file() else b""


def _roots(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _asked(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(_PLACEHOLDER.findall("\n".join(texts)))


def _filled(text: str, known: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: known[found[1]], text)
