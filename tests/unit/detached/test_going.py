"""What a session does with attempts that processes of their own look after: it waits, retries, goes on, or asks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.detached.going import Starting
from pytest_researchenv.detached.job import PROVIDER
from pytest_researchenv.detached.record import (
    ACTIVITY,
    Keeper,
    going_on,
    keeper_of,
    request_stop,
    save_keeper,
    save_work,
    stop_requested,
)
from pytest_researchenv.environments import Environments
from pytest_researchenv.errors import InfrastructureError, StaleEnvironmentError
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import Repository, Verdict
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.settings import AgentSettings, Extension
from pytest_researchenv.store import Attempt
from pytest_researchenv.suite import find_suite
from tests.unit.archives import archive
from tests.unit.lab import Lab


_TASKS = load_research_suite(find_suite("researchgym")).tasks


class Children:
    """Starts children that do what they are told, and note for which attempts."""

    def __init__(self, *scripts: str) -> None:
        self._scripts = list(scripts)
        self.attempts: list[Attempt] = []

    def __call__(self, agent: str, repository: Repository, attempt: Attempt) -> subprocess.Popen[bytes]:
        """Start the next."""
        del agent, repository
        self.attempts.append(attempt)
        save_work(attempt, 3600, None, "")
        script = textwrap.dedent(self._scripts.pop(0))
        process = subprocess.Popen([sys.executable, "-c", script], cwd=attempt.folder, start_new_session=True)
        save_keeper(attempt, process.pid)
        return process


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab whose agent works at a research task."""
    lab = Lab(tmp_path)
    lab.repository = workplace_of(next(task for task in _TASKS if task.name == "digits-continual"))
    lab.settings = replace(lab.settings, agents=AgentSettings(retry_delay_s=0.01))
    return lab


def session(lab: Lab, start: Starting, *, extension: Extension | None = None) -> Environments:
    """A new session, whose research is done by children."""
    harness: Harness = lab.session(continued=True)
    environments = harness.environments
    settings = replace(environments._settings, extension=extension)
    return Environments(
        settings, engine=environments._open, agents=environments._find_agent, say=environments._say, start=start
    )


def fail(message: str, code: int) -> str:
    """A child that ends in an error, having archived something."""
    return f"import pathlib; pathlib.Path('error.txt').write_text({message!r}); raise SystemExit({code})"


def test_an_attempt_in_this_process_is_a_stage_all_the_same(lab: Lab) -> None:
    """Without anything that starts processes, all is done here, and recorded alike."""
    environments = lab.session().environments
    attempt, environment = environments.get("fake", lab.repository)

    (stage,) = environment.stages
    assert (stage.attempt, stage.limit_s, stage.image) == (1, 60, environment.image)
    assert keeper_of(attempt.folder) is None


def test_trouble_of_the_provider_goes_on_from_the_archive(lab: Lab) -> None:
    """The next try has what was archived, and is its next stage; one without an archive begins anew."""
    children = Children(fail("overloaded", PROVIDER), fail("overloaded", PROVIDER), fail("disk full", 1))

    def archiving(agent: str, repository: Repository, attempt: Attempt) -> subprocess.Popen[bytes]:
        if len(children.attempts) == 1:
            archive(attempt.folder)
        return children(agent, repository, attempt)

    environments = session(lab, archiving)
    with pytest.raises(InfrastructureError, match="disk full"):
        environments.get("fake", lab.repository)

    assert [attempt.start.goes_on for attempt in children.attempts] == [0, 0, 2]


def test_a_process_that_dies_is_an_error_that_says_what_can_be_done(lab: Lab) -> None:
    """Work that was archived is not thrown away in silence: the next session asks; without any it begins anew."""
    children = Children("import os; os.kill(os.getpid(), 9)", fail("second", 1))
    first = session(lab, children)
    with pytest.raises(InfrastructureError, match=r"died; .*Nothing of its work was archived"):
        first.get("fake", lab.repository)
    with pytest.raises(InfrastructureError, match="second"):
        session(lab, children).get("fake", lab.repository)
    archive(children.attempts[1].folder)

    later = session(lab, Children())
    assert "--researchenv-extend=0" in later.problem("fake", lab.repository)
    with pytest.raises(StaleEnvironmentError, match="--researchenv-rebuild"):
        later.get("fake", lab.repository)
    assert len(lab.session().environments._store.attempts("fake", lab.repository.key)) == 2


def test_a_stage_that_came_to_nothing_does_not_hide_the_one_before(lab: Lab) -> None:
    """What was frozen stands, and is what the next extension goes on from."""
    done, _ = lab.session().environments.get("fake", lab.repository)
    children = Children(fail("no disk", 1), fail("no disk again", 1))
    with pytest.raises(InfrastructureError, match="no disk"):
        session(lab, children, extension=Extension(60)).get("fake", lab.repository)

    attempt, _ = session(lab, Children()).get("fake", lab.repository)
    assert attempt == done
    with pytest.raises(InfrastructureError, match="again"):
        session(lab, children, extension=Extension(60)).get("fake", lab.repository)
    assert [one.start.goes_on for one in children.attempts] == [1, 1]


def test_a_session_waits_for_what_another_has_begun(lab: Lab) -> None:
    """No second agent is set to work; how it ended is taken from the record."""
    store = lab.session().environments._store
    attempt = store.begin("fake", lab.repository.key, "before")
    children = Children("import time; time.sleep(1)")
    process = children("fake", lab.repository, attempt)

    def end() -> None:
        process.wait()

    threading.Thread(target=end).start()
    began = time.monotonic()
    with pytest.raises(InfrastructureError, match="that looked after it died"):
        session(lab, Children()).get("fake", lab.repository)
    assert time.monotonic() - began > 0.5


def test_whether_a_process_lives_is_told_by_its_signs_where_it_cannot_be_seen(lab: Lab) -> None:
    """Of another machine, ten minutes of silence count as its death."""
    attempt = lab.session().environments._store.begin("fake", "x/y", "before")
    assert not going_on(attempt)
    elsewhere = Keeper("another host", "boot/1/2/3", 2, time.time())
    (attempt.folder / "keeper.json").write_text(
        f'{{"host": "{elsewhere.host}", "process": "{elsewhere.process}", "pid": 2, "created": {time.time() - 601}}}'
    )
    assert not going_on(attempt)
    (attempt.folder / ACTIVITY).touch()
    assert going_on(attempt)
    assert not stop_requested(attempt)
    request_stop(attempt)
    assert stop_requested(attempt)


def test_a_subtask_without_its_data_is_skipped_and_says_what_to_fetch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No agent is set to work for it."""
    task = next(task for task in _TASKS if task.name == "continual-learning")
    monkeypatch.setattr("pytest_researchenv.researching.evaluator_of", lambda _: object())

    result = lab.session().research.judge("fake", task, "cub200_n10").result

    assert result.verdict is Verdict.SKIPPED
    assert "FOLDER/continual-learning/CUB-200" in result.reason
    assert lab.agent.worked == 0
