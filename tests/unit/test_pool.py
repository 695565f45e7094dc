"""Several container engines: an environment is built where there is room, and judged where it was built."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import DaemonUnavailableError, ElsewhereError, InfrastructureError
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import Repository, Tier
from pytest_researchenv.pool import Host, Places, Pool
from pytest_researchenv.sandbox.protocol import Mount
from tests.unit.lab import Lab


class Site:
    """Engines by name, and sessions that work with some of them."""

    def __init__(self, folder: Path, **slots: int) -> None:
        self.slots = slots
        self.labs = {name: Lab(_made(folder / name)) for name in slots}
        self.first = next(iter(self.labs.values()))
        self.down: set[str] = set()
        self._sessions = 0

    def session(self, *names: str, rebuild: bool = False) -> Pool:
        """Begin a new one."""
        self._sessions += 1
        settings = replace(self.first.settings, session=str(self._sessions), rebuild=rebuild)

        def make(engine: Callable[[], Engine]) -> Harness:
            probes = {self.first.probe.tier: self.first.probe}
            return Harness(settings, engine=engine, probes=probes, agents=lambda _: self.first.agent, checks=())

        folder = settings.results / settings.run
        chosen = names or tuple(self.labs)
        return Pool(chosen, make=make, connect=self._engine, look=self._host, folder=folder, session=settings.session)

    def _host(self, name: str) -> Host:
        if name in self.down:
            raise DaemonUnavailableError(f"the engine {name!r} does not answer")
        return Host(f"id of {name}", self.slots[name])

    def _engine(self, name: str) -> Engine:
        self._host(name)
        lab = self.labs[name]
        mount = Mount("tools", "/researchenv/tools")
        return Engine(lab.sandbox, lab.base, "base-1", (), {}, mount, id=f"id of {name}", name=name, pooled=True)

    def judge(self, pool: Pool, slug: str = "thing") -> tuple[str, tuple[str, ...]]:
        """Judge a repository; return the engine where it is by its record, and what people are told."""
        judged = pool.judge("fake", self.repository(slug), Tier.C1)
        assert judged.folder
        assert judged.environment
        record = json.loads((judged.folder / "environment.json").read_text())
        assert self.labs[record["engine_name"]].sandbox.image_exists(judged.environment.image)
        return record["engine_name"], judged.notes

    def repository(self, slug: str) -> Repository:
        """One by another name."""
        return replace(self.first.repository, name=f"owner/{slug}")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two engines, one with more room."""
    return Site(tmp_path, small=1, large=2)


def test_what_is_judged_later_is_judged_where_it_was_built(site: Site) -> None:
    """Within a session, and in a later one that would build elsewhere."""
    assert site.judge(site.session())[0] == "large"

    site.slots["small"] = 9
    pool = site.session()

    assert site.judge(pool)[0] == "large"
    assert site.judge(pool, "other")[0] == "small"
    assert site.first.agent.worked == 2


def test_a_context_may_be_renamed(site: Site) -> None:
    """The engine is known by its own id."""
    site.judge(site.session())
    site.labs["renamed"], site.slots["renamed"] = site.labs["large"], 1
    host = site._host

    def renamed(name: str) -> Host:
        return replace(host(name), id="id of large") if name == "renamed" else host(name)

    site._host = renamed  # type: ignore[method-assign] # the engine's answer by its new name

    assert site.judge(site.session("small", "renamed"))[0] == "large"
    assert site.first.agent.worked == 1


def test_an_engine_that_does_not_answer_is_named_where_an_environment_is_in_it(site: Site) -> None:
    """That is an error, and never a new environment in silence, be the agent free or not."""
    site.judge(site.session())
    site.down.add("large")

    with pytest.raises(DaemonUnavailableError, match=r"'large' does not answer\nThe environment is there"):
        site.judge(site.session())

    assert site.first.agent.worked == 1


def test_what_is_new_goes_to_engines_that_answer_and_that_is_told(site: Site) -> None:
    """The summary says which was left out; when none answers all are named."""
    site.down.add("large")
    pool = site.session()

    name, notes = site.judge(pool)

    assert name == "small"
    assert notes == ("nothing was built in the container engine 'large', which did not answer",)

    site.down.add("small")

    with pytest.raises(DaemonUnavailableError, match=r"'small'.*\n.*'large'"):
        site.judge(site.session(), "other")


def test_an_engine_that_was_not_named_is_told(site: Site) -> None:
    """With what to do."""
    site.judge(site.session())

    with pytest.raises(ElsewhereError, match=r"'large' \(id of large\), which is none of small: give .*-docker"):
        site.judge(site.session("small"))

    assert site.first.agent.worked == 1


@pytest.mark.parametrize("free", [True, False], ids=["free", "paid"])
def test_a_session_with_another_engine_builds_again_only_what_is_free(site: Site, *, free: bool) -> None:
    """Without the option, as where nodes of a cluster share a results folder; the error names the engine."""
    site.judge(site.session())
    site.first.agent.free = free
    engine = replace(site._engine("small"), pooled=False, name="")
    settings = replace(site.first.settings, session="later")
    harness = Harness(
        settings,
        engine=lambda: engine,
        probes={Tier.C1: site.first.probe},
        agents=lambda _: site.first.agent,
        checks=(),
    )

    if free:
        judged = harness.judge("fake", site.repository("thing"), Tier.C1)
        assert judged.environment
        assert (judged.environment.key.attempt, judged.environment.engine) == (2, "id of small")
    else:
        with pytest.raises(ElsewhereError, match=r"engine 'large' \(id of large\), and id of small was asked: name"):
            harness.judge("fake", site.repository("thing"), Tier.C1)
        assert site.first.agent.worked == 1


def test_an_engine_that_dies_is_asked_again_before_more_is_built_there(site: Site) -> None:
    """What was at work in it ends in an error; the next environment is built elsewhere."""
    pool = site.session()
    site.judge(pool)
    site.first.agent.breaks = True

    with pytest.raises(InfrastructureError):
        site.judge(pool, "other")

    site.first.agent.breaks = False
    site.down.add("large")

    assert site.judge(pool, "another")[0] == "small"


def test_an_environment_that_another_worker_has_built_meanwhile_is_judged_there(site: Site) -> None:
    """Two workers that begin with one environment build it once."""
    pool = site.session()
    other = site.session()
    other._places._session = pool._places._session
    # As seen before the other one had begun.
    pinned, seen = pool.environments.pinned, iter([None])
    pool.environments.pinned = lambda *a, **k: next(seen, None) or pinned(*a, **k)  # type: ignore[method-assign] # a race
    site.judge(other)
    site.slots["small"] = 9

    assert site.judge(pool)[0] == "large"
    assert site.first.agent.worked == 1


@contextmanager
def _process(folder: Path, slots: dict[str, int]) -> Iterator[str]:
    """Another process of the same session that takes a place; yields where."""
    code = (
        "import sys; from pathlib import Path; from pytest_researchenv.pool import Places\n"
        f"print(Places(Path({str(folder)!r}), 'one').take({slots!r}), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_workers_spread_by_free_slots_and_the_dead_leave_theirs(tmp_path: Path) -> None:
    """Counted over all processes of the run; who is killed counts no more."""
    slots = {"a": 1, "b": 2}
    with _process(tmp_path, slots) as first, _process(tmp_path, slots) as second, _process(tmp_path, slots) as third:
        assert sorted((first, second, third)) == ["a", "b", "b"]
        assert Places(tmp_path, "one").take({"a": 1, "b": 4}) == "b"

    assert Places(tmp_path, "one").take(slots) == "b"


def test_a_damaged_file_of_places_is_no_reason_to_stop(tmp_path: Path) -> None:
    """It tells of room, and of nothing else."""
    (tmp_path / ".places.json").write_bytes(b"\xff{")

    assert Places(tmp_path, "one").take({"a": 1}) == "a"


def test_a_context_that_does_not_exist_is_a_usage_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and nothing is done; so is the file without which contexts are not found."""
    monkeypatch.setenv("DOCKER_CONFIG", str(pytester.path))

    without = pytester.runpytest_inprocess("--researchenv-docker=nowhere")
    (pytester.path / "config.json").write_text(json.dumps({}))
    unknown = pytester.runpytest_inprocess("--researchenv-docker=nowhere")

    assert (without.ret, unknown.ret) == (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.USAGE_ERROR)
    without.stderr.fnmatch_lines(["*'nowhere'*there is no *config.json: write {} into*"])
    unknown.stderr.fnmatch_lines(["*--researchenv-docker is 'nowhere', which does not exist*docker context ls*"])
