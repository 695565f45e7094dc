"""A place where scripts play agents at our research tasks, and real containers evaluate what they leave.

All work in one image that has a virtual environment with NumPy, and at copies of the tasks that ask for two seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fixtures.agents.research.corpus import Scripted
from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.agentwork import Order
from pytest_researchenv.engine import Engine
from pytest_researchenv.model import Audit, Environment
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.provision import provision
from pytest_researchenv.research.evaluation import ContainedEvaluation, EvaluationTask
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.verdict import concluded
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.sandbox.protocol import Limits, Mount
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Attempt, Store
from tests.unit.research.own_tasks import SUITE, bench


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner

__all__ = ["Gym"]

_log = logging.getLogger(__name__)

#: The interpreter that every script has.
PYTHON = "/opt/venv/bin/python"
_EQUIP = 'python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --disable-pip-version-check "numpy>=1.26"\n'
_REPORT = f"report {PYTHON} venv /opt/venv\n"
SECRET = b"what only evaluations of the tests know"


@dataclass
class Gym:
    """Lets scripts work at a task, and evaluates what they left.

    Attributes:
        engine: whose base image has NumPy in `PYTHON`.
        folder: for results and copies.
        tasks: name → copy of a task that asks for two seeds.
    """

    engine: Engine
    folder: Path
    tasks: dict[str, Task]
    attempts: dict[str, Attempt] = field(default_factory=dict)
    images: list[str] = field(default_factory=list)

    def worked(self, task: str, script: str, *, report: bool = True) -> Environment:
        """Let a script work at a task as root, as agents do."""
        place = workplace_of(self.tasks[task])
        agent = ScriptAgent("script", lambda _: script + (_REPORT if report else ""))
        attempt = Store(self.folder / "results", "tests").begin(agent.name, place.slug, "session")
        environment = provision(
            self.engine,
            Order(agent, agent.needs, place, 300, Limits()),
            attempt=attempt,
            tree=fetch(place, cache=self.folder / "cache"),
            inputs={},
        )
        self.images.append(environment.image)
        self.attempts[environment.image] = attempt
        return environment

    def scripted(self, agent: Scripted) -> Environment:
        """Let one of the scripted agents of our tasks work."""
        variables = f"export PYTHON={PYTHON} SUBTASK={agent.subtask} SEEDS='0 1' OMP_NUM_THREADS=1\n"
        # A subshell: its last `set` or `exit` is its own.
        return self.worked(agent.task, f"{variables}(\n{agent.script}\n) || true\n")

    def probe(self, task: Task, environment: Environment, *, audit: Audit | None = None) -> ProbeTask:
        """What an evaluation gets of an environment."""
        place = workplace_of(task)
        return ProbeTask(
            environment=environment,
            repository=place,
            tree=fetch(place, cache=self.folder / "cache"),
            sandbox=self.engine.sandbox,
            tools=self.engine.tools,
            log=lambda text: _log.debug("%s", text),
            settings={},
            audit=audit,
        )

    def evaluated(
        self,
        name: str,
        environment: Environment,
        subtask: str,
        *,
        altered: Callable[[Task], Task] = lambda task: task,
        audit: Audit | None = None,
    ) -> ResearchResult:
        """Evaluate a sub-task."""
        task = altered(self.tasks[name])
        given = EvaluationTask(task, subtask, self.probe(task, environment, audit=audit), self.engine, SECRET)
        return concluded(task, subtask, ContainedEvaluation().evaluate(given))


@pytest.fixture(scope="session")
def gym(
    docker_client: DockerClient,
    docker_sandbox: DockerSandbox,
    base_image: str,
    owner: Owner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gym]:
    """A gym whose images are removed at the end; its volumes stay, as those of tools do."""
    from docker.errors import APIError  # noqa: PLC0415 - docker only where it is asked for

    from pytest_researchenv.sandbox.hostsettings import host_settings  # noqa: PLC0415 - docker only where it is asked for
    from pytest_researchenv.sandbox.interpreter import ensure_interpreter  # noqa: PLC0415 - likewise
    from pytest_researchenv.sandbox.scripts import ensure_scripts  # noqa: PLC0415 - likewise
    from pytest_researchenv.sandbox.tools import ensure_tools  # noqa: PLC0415 - likewise

    folder = tmp_path_factory.mktemp("gym")
    host = host_settings(docker_client, owner=owner, image=base_image, say=_log.info)
    scripts: set[str] = set()

    def ensured(target: str, files: dict[str, Path]) -> Mount:
        mount = ensure_scripts(docker_client, target, files, owner=owner, image=base_image, say=_log.info)
        scripts.add(mount.volume)
        return mount

    engine = Engine(
        sandbox=docker_sandbox,
        base_image=base_image,
        base_key="",
        mounts=(host.mount,) if host.mount else (),
        environment=host.environment,
        tools=ensure_tools(docker_client, owner=owner, image=base_image, say=_log.info),
        scripts=ensured,  # type: ignore[arg-type] # a dictionary is a mapping
        interpreter=partial(ensure_interpreter, docker_client, owner=owner, say=_log.info),
    )
    tasks: dict[str, Task] = {}
    for name in ("digits-continual", "morpheme-tokens"):
        copy = bench(name, folder / name).task.parent
        (copy / "suite.toml").write_bytes((SUITE / "suite.toml").read_bytes())
        tasks[name] = load_research_suite(copy).tasks[0]
    made = Gym(engine, folder, tasks)
    equipped = made.worked("digits-continual", f"{_EQUIP}rm -rf /workspace/*\n", report=False)
    assert equipped.ended == "exited with code 0", equipped.ended
    made.engine = replace(engine, base_image=equipped.image)
    yield made
    for image in reversed(made.images):
        docker_sandbox.remove_image(image)
    for volume in scripts:
        # Volumes are named by their content: another worker's evaluations may be using it.
        with suppress(APIError):
            docker_client.volumes.get(volume).remove()
