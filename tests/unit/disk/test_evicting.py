"""Frozen images that are removed once they were judged, and what later sessions make of that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.disk.evicting import others_at_work
from pytest_researchenv.disk.keep import parse_keep
from pytest_researchenv.disk.room import EngineDisk, Room
from pytest_researchenv.errors import InfrastructureError, NoRoomError, SandboxError
from pytest_researchenv.frozen import sweep
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import Environment, Eviction, Examination, Tier, Verdict
from pytest_researchenv.provision import image_reference
from pytest_researchenv.recording.activity import ActivityWriter
from pytest_researchenv.store import Store
from tests.simulated import Workplace
from tests.unit.lab import Lab


def _evicted(workplace: Workplace) -> set[str]:
    return {path.parts[-3] for path in workplace.folder.rglob("attempt-001/evicted.json")}


# --- which, and when --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("-n", "2", "--dist", "load")], ids=["alone", "spread over workers"])
def test_what_passed_is_removed_once_all_its_tests_are_through(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """However its tests are spread; what failed stays, and so does what ended in an error; the summary says it."""
    workplace = Workplace(tmp_path)

    _, printed = workplace.run("--researchenv-keep=failed", *arguments)

    assert _evicted(workplace) == {"fine", "absent", "other", "another"}, printed
    assert "4 removed (--researchenv-keep=failed)" in printed
    assert "disk: 6 environments add" in printed


def test_of_a_number_the_newest_are_kept(tmp_path: Path) -> None:
    """What ended in an error does not count, since it is still to be judged."""
    workplace = Workplace(tmp_path)

    workplace.run("--researchenv-keep=2", MENDED="1")

    # In the order of their tests, which is that of their names.
    assert _evicted(workplace) == {"absent", "another", "broken", "failing"}


def test_one_that_is_not_through_is_kept(tmp_path: Path) -> None:
    """A run that is stopped early removes nothing that is still to be judged."""
    workplace = Workplace(tmp_path)

    _, printed = workplace.run("--researchenv-keep=none", "-x", "-k", "failing or fine")

    assert _evicted(workplace) == set(), printed


def test_while_another_session_of_the_run_is_at_work_nothing_is_removed(tmp_path: Path) -> None:
    """It may be about to judge what this one is through with. One that has ended, or died, keeps nothing."""
    other = ActivityWriter(tmp_path, "other", "")
    other.start()
    deadline = 200
    while not other.path.exists() and (deadline := deadline - 1):
        os.sched_yield()
        other.hear(None)
    assert others_at_work(tmp_path, "mine")
    assert not others_at_work(tmp_path, "other")

    other.close()

    assert not others_at_work(tmp_path, "mine")


# --- what later sessions make of it -----------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab in which an environment was judged, and its image removed."""
    lab = Lab(tmp_path)
    lab.settings = replace(lab.settings, keep=parse_keep("none"))
    harness = lab.session()
    harness.judge("fake", lab.repository, Tier.C1)
    assert harness.environments.evict("fake", lab.repository.key, 1)
    return lab


def test_it_is_recorded_and_gone(lab: Lab) -> None:
    """With when, why and how much; removing it again is nothing."""
    attempt = Store(lab.settings.results, "default").attempt("fake", lab.repository.key, 1)
    eviction, environment = attempt.eviction(), attempt.environment()

    assert eviction
    assert environment
    assert (eviction.policy, eviction.image, eviction.session) == ("none", environment.image, "1")
    assert not lab.sandbox.image_exists(environment.image)
    assert lab.session().environments.evict("fake", lab.repository.key, 1) is None


def test_what_was_judged_stands_in_a_continued_run(lab: Lab) -> None:
    """No agent works again, and nothing is probed, as long as nothing is missing."""
    judged = lab.session(continued=True).judge("fake", lab.repository, Tier.C1)
    audited = lab.session(continued=True).judge("fake", lab.repository, Examination.INTEGRITY)

    assert (judged.result.verdict, judged.fresh, audited.fresh) == (Verdict.PASSED, False, False)
    assert lab.agent.worked == 1


def test_judging_it_again_builds_it_again_where_that_is_free(lab: Lab) -> None:
    """In a new attempt; the old one's records stay."""
    lab.session().judge("fake", lab.repository, Tier.C1)

    assert lab.agent.worked == 2
    assert lab.attempts() == ["attempt-001", "attempt-002"]


def test_where_it_costs_money_the_error_says_how_to_have_it_again(lab: Lab) -> None:
    """No money is spent in silence."""
    lab.agent.free = False

    with pytest.raises(InfrastructureError, match=r"removed by --researchenv-keep=none at 20.*--researchenv-rebuild"):
        lab.session().judge("fake", lab.repository, Tier.C1)
    assert lab.agent.worked == 1

    lab.session(rebuild=True).judge("fake", lab.repository, Tier.C1)
    assert lab.agent.worked == 2


def test_an_engine_that_refuses_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that something uses is not evicted, and no record says so."""
    lab = Lab(tmp_path)
    harness = lab.session()
    harness.judge("fake", lab.repository, Tier.C1)

    def refuse(image: str) -> None:
        raise SandboxError(f"cannot remove image {image}: a container uses it")

    monkeypatch.setattr(lab.sandbox, "remove_image", refuse)
    with pytest.raises(SandboxError):
        harness.environments.evict("fake", lab.repository.key, 1)

    assert not Store(lab.settings.results, "default").attempt("fake", lab.repository.key, 1).evicted


# --- what nobody recorded ---------------------------------------------------------------------------------


def test_an_image_that_was_frozen_and_never_recorded_is_swept(tmp_path: Path) -> None:
    """One whose process died between the two, or while it removed it; and no recorded one, and no other folder's."""
    lab = Lab(tmp_path)
    lab.session().judge("fake", lab.repository, Tier.C1)
    store = Store(lab.settings.results, "default")
    recorded = store.attempt("fake", lab.repository.key, 1)
    torn = store.begin("fake", lab.repository.key, "killed")
    elsewhere = Store(tmp_path / "elsewhere", "default").begin("fake", lab.repository.key, "killed")
    moved = store.attempt("fake", lab.repository.key, 9)
    frozen: dict[str, Mapping[str, str]] = {
        image_reference(one): {"researchenv.attempt": str(one.key)} for one in (recorded, torn, elsewhere, moved)
    }
    frozen["researchenv/x:y"] = {"researchenv.attempt": "../../../etc/attempt-001"}
    frozen["researchenv/x:z"] = {}
    engine = replace(lab.session()._make_engine(), orphans=frozen.items)
    for name in frozen:
        lab.sandbox.add_image(name, {})

    assert sweep(engine, lab.settings.results) == [image_reference(torn)]

    recorded.save_eviction(_eviction(recorded.environment()))
    assert sweep(engine, lab.settings.results) == [image_reference(recorded), image_reference(torn)]


def _eviction(environment: object) -> Eviction:
    assert isinstance(environment, Environment)
    return Eviction("2026-01-01T00:00:00+00:00", "none", environment.image, 0, "1")


def test_a_session_sweeps_when_it_opens_the_engine(tmp_path: Path) -> None:
    """Once."""
    lab = Lab(tmp_path)
    asked: list[int] = []

    def orphans() -> list[tuple[str, Mapping[str, str]]]:
        asked.append(1)
        return []

    harness = _on(lab, orphans=orphans)
    harness.judge("fake", lab.repository, Tier.C1)

    assert asked == [1]


# --- a full disk ------------------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_and_no_failure(tmp_path: Path) -> None:
    """Neither the agent nor its environment is judged by it; what was recorded stays, and the next session goes on."""
    lab = Lab(tmp_path)
    lab.session().judge("fake", lab.repository, Tier.C1)
    disk = EngineDisk("/engine", lambda: Room(0, 9), lambda: Room(0, 9))

    with pytest.raises(NoRoomError, match="C1 cannot be probed: the engine's disk is full"):
        _on(lab, disk=disk).judge("fake", lab.repository, Tier.C1)
    with pytest.raises(NoRoomError, match=r"the agent of .* (was|has) ended: the engine's disk is full"):
        _on(lab, rebuild=True, disk=disk).judge("fake", lab.repository, Tier.C1)

    results = Store(lab.settings.results, "default").attempt("fake", lab.repository.key, 1).results(Tier.C1)
    assert [one.verdict for one in results] == [Verdict.PASSED, Verdict.ERROR]
    assert lab.session(rebuild=True).judge("fake", lab.repository, Tier.C1).result.verdict is Verdict.PASSED


def test_a_build_that_cannot_fit_is_not_begun(tmp_path: Path) -> None:
    """Its error says what the earlier attempt took, and what is free."""
    lab = Lab(tmp_path)
    lab.session().judge("fake", lab.repository, Tier.C1)
    record = lab.folder / "attempt-001/environment.json"
    record.write_text(record.read_text().replace('"added_image_bytes": ', '"added_image_bytes": 9999999999'))
    disk = EngineDisk("/engine", lambda: Room(10**10, 10**11), lambda: Room(10**10, 10**11))

    with pytest.raises(NoRoomError, match=r"as default/fake/thing/attempt-001 did, and 9\.3 GiB"):
        _on(lab, rebuild=True, disk=disk, builders=tmp_path / "line").judge("fake", lab.repository, Tier.C1)

    assert lab.agent.worked == 1


def _on(lab: Lab, *, rebuild: bool = False, **changes: object) -> Harness:
    """A session on an engine that differs."""
    harness = lab.session(rebuild=rebuild)
    engine = replace(harness._make_engine(), **changes)  # type: ignore[arg-type]
    harness._make_engine = lambda: engine
    return harness
