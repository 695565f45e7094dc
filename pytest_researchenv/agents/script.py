"""Agents that are shell scripts: a suite's known-good recipe, its best baseline, and the agent that does nothing."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO, final

from pytest_researchenv.agents._cli import run_command
from pytest_researchenv.agents.protocol import REPORT_PATH, AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import Trajectory
from pytest_researchenv.errors import SuiteError
from pytest_researchenv.integrity.canaries import without_canaries
from pytest_researchenv.model import Repository


__all__ = ["ScriptAgent", "baseline_script", "noop_script", "oracle_script"]

#: Where the script lies until it has started. A command line holds 128 KiB at most.
_PLACE = "researchenv/agent.sh"

#: A line of a recipe in whose place the text of a file beside it stands: `@withheld/method.py@`.
_INCLUDED = re.compile(r"^@([A-Za-z0-9_][A-Za-z0-9_./-]*)@$", re.MULTILINE)


def oracle_script(repository: Repository) -> str:
    """Return the repository's known-good recipe, without the canaries by which it is known elsewhere.

    Raises:
        SuiteError: the suite has none.
    """
    return _recipe(repository, "oracle.sh", "recipe for the oracle")


def baseline_script(repository: Repository) -> str:
    """Return what runs the best baseline of a research task, and changes nothing; without canaries likewise.

    Raises:
        SuiteError: the suite has none.
    """
    return _recipe(
        repository, "baseline.sh", "script for the agent `baseline`, which runs a research task's best baseline"
    )


def _recipe(repository: Repository, name: str, what: str) -> str:
    folder = Path(repository.folder)
    path = folder / name

    def named(found: re.Match[str]) -> str:
        return (folder / found[1]).read_text(encoding="utf-8").rstrip("\n")

    try:
        text = _INCLUDED.sub(named, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{repository.name} has no {what}: {error}; write {path}") from error
    return without_canaries(text, repository)


def noop_script(repository: Repository) -> str:
    """Return a script that installs nothing and reports the bare interpreter, whatever the repository."""
    del repository
    return 'report /usr/bin/python3 system "" "nothing was installed"\n'


@final
class ScriptAgent:
    """Runs a shell script in the container, as any agent would run commands.

    The script removes its own file first, so that nothing of it is frozen. It may call
    `report PYTHON ENV_TOOL ENV_NAME [NOTES]` to write an honest self-report.
    """

    __slots__ = ("_environment", "_name", "_needs", "_script")

    def __init__(
        self,
        name: str,
        script: Callable[[Repository], str],
        *,
        environment: Mapping[str, str] | None = None,
        needs: Needs | None = None,
    ) -> None:
        self._name = name
        self._script = script
        self._environment = dict(environment or {})
        self._needs = needs or Needs(prompted=False)

    @property
    def name(self) -> str:
        """The name users select it by."""
        return self._name

    @property
    def free(self) -> bool:
        """Scripts cost no money."""
        return True

    @property
    def needs(self) -> Needs:
        """No model; an open network and no limit of its own, unless it was told otherwise."""
        return self._needs

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """The digest of the script with all that runs around it."""
        text = _inside("prologue.sh") + _inside("self_report.py") + self._script(repository)
        return {"agent": f"{self._name} {hashlib.sha256(text.encode()).hexdigest()}"}

    def work(self, task: AgentTask) -> Telemetry:
        """Run the script until it ends, or until the deadline."""
        text = _inside("prologue.sh") + self._script(task.repository)
        with _archive(text.encode()) as archive:
            task.container.put("/", archive)
        completed = run_command(
            task,
            ["bash", f"/{_PLACE}"],
            {
                **self._environment,
                "HOME": "/root",
                "DEBIAN_FRONTEND": "noninteractive",
                "RESEARCHENV_REPORT": REPORT_PATH,
                "RESEARCHENV_SELF_REPORT": _inside("self_report.py"),
            },
        )
        return Telemetry(ended=completed.how, numbers={"wall_s": round(completed.duration_s, 3)}, ok=completed.ok)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """A script's output cannot be told apart."""
        del transcript
        return None


@contextmanager
def _archive(script: bytes) -> Iterator[IO[bytes]]:
    with io.BytesIO() as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            entry = tarfile.TarInfo(_PLACE)
            entry.size = len(script)
            tar.addfile(entry, io.BytesIO(script))
        stream.seek(0)
        yield stream


def _inside(name: str) -> str:
    return (resources.files("pytest_researchenv.agents") / "inside" / name).read_text()
