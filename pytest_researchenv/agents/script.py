"""Agents that are shell scripts: the known-good recipe of a suite, and the agent that does nothing."""

from __future__ import annotations

import hashlib
import io
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


__all__ = ["ScriptAgent", "noop_script", "oracle_script"]

#: Where the script lies until it has started. A command line holds 128 KiB at most.
_PLACE = "researchenv/agent.sh"


def oracle_script(repository: Repository) -> str:
    """Return the repository's known-good recipe, without the canaries by which it is known elsewhere.

    Raises:
        SuiteError: the suite has none.
    """
    path = Path(repository.folder) / "oracle.sh"
    try:
        return without_canaries(path.read_text(encoding="utf-8"), repository)
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{repository.name} has no recipe for the oracle: {error}; write {path}") from error


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
