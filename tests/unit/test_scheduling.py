"""Which worker does which test next, on made-up workers and a made-up clock."""

from __future__ import annotations

import pytest

from benchmarks.scheduling import Site
from pytest_researchenv.scheduling import Dispatch, in_order
from pytest_researchenv.testids import environment_of, shape_of, trial_of


def test_while_there_is_something_to_build_an_environments_tests_stay_together() -> None:
    """Workers build side by side, and nobody waits for another's environment."""
    site = Site(builds=[10] * 8, probes=[[1, 1, 1]] * 8, workers=4)

    assert site.run() == 2 * 13
    assert site.waited_s == 0
    assert all(len(workers) == 1 for workers in site.built_by.values())
    assert sorted(test for tests in site.ran.values() for test in tests) == list(range(24))


def test_probes_that_are_left_are_shared() -> None:
    """One environment on six workers: once it is built its other tests run at once, and not one after the other."""
    site = Site(builds=[10], probes=[[1, 5, 5, 5, 5, 5]], workers=6)

    assert site.run() == 10 + 1 + 5
    assert site.waited_s == 0


def test_workers_with_engines_of_their_own_judge_what_they_have_built() -> None:
    """An environment is in the engine of the worker that built it, and its last verdict is not held back."""
    site = Site(builds=[30, 5], probes=[[10] * 6, [1] * 6], workers=2, spread=False)

    site.run()

    assert sorted(map(sorted, site.ran.values())) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert site.ended.index(11.0) == 5


def test_a_worker_that_has_nothing_to_build_helps_the_others() -> None:
    """The short environment's worker takes probes of the long one as soon as that is built."""
    alone = 30 + 6 * 10

    assert Site(builds=[30, 5], probes=[[10] * 6, [1]], workers=2).run() < alone * 0.8


def test_a_last_test_is_not_held_back_while_another_worker_builds() -> None:
    """Whoever is done with its own environment reports all of it before the other one is built."""
    site = Site(builds=[1000, 5], probes=[[1] * 6, [1, 1]], workers=2)

    site.run()

    assert site.ended[:2] == [6, 7]


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 32])
@pytest.mark.parametrize("environments", [1, 2, 7, 44])
@pytest.mark.parametrize("spread", [True, False], ids=["one-engine", "engines"])
def test_every_test_is_run_once(workers: int, environments: int, *, spread: bool) -> None:
    """Whatever there is of either, nothing is lost, and nothing is built twice."""
    builds = [60.0 * (1 + number % 5) for number in range(environments)]
    probes = [[1 + number % 3] * 6 for number in range(environments)]
    site = Site(builds=builds, probes=probes, workers=workers, spread=spread)

    took = site.run()

    assert sorted(test for tests in site.ran.values() for test in tests) == list(range(6 * environments))
    assert all(len(by) == 1 for by in site.built_by.values())
    work = sum(builds) + sum(map(sum, site.probes))
    longest = max(build + sum(probes) for build, probes in zip(builds, site.probes, strict=True))
    assert took <= work / workers + longest


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("spread", [True, False], ids=["one-engine", "engines"])
def test_what_a_dead_worker_had_is_done_by_others(workers: int, at: int, *, spread: bool) -> None:
    """All but the one test at which it died, which is not begun again: an agent may have been paid for it."""
    site = Site(builds=[10, 20, 30], probes=[[1] * 6] * 3, workers=workers, dies=(0, at), spread=spread)

    site.run()

    ran = sorted(test for tests in site.ran.values() for test in tests)
    assert len(ran) == len(set(ran)) == 17


def test_a_test_that_is_to_be_run_again_is() -> None:
    """As pytest-rerunfailures has it for a test at which a worker died."""
    given: dict[str, list[int]] = {"a": [], "b": []}
    dispatch: Dispatch[str] = Dispatch(
        [[0, 1]], send=lambda worker, tests: given[worker].extend(tests), end=lambda _: None
    )
    dispatch.join("a")
    dispatch.deal()

    crashed = dispatch.leave("a")
    dispatch.join("b")
    assert crashed is not None
    dispatch.again(crashed)

    assert sorted(given["b"]) == [0, 1]


def test_the_longest_come_first_and_what_is_unknown_before_them() -> None:
    """So that no worker begins the longest when the others have nothing left; later attempts come after all first."""
    groups = {name: [number] for number, name in enumerate(["short", "new", "long", "long-2"])}

    ordered = in_order(groups, trials={"long-2": 2}, expected={"short": 1.0, "long": 50.0, "long-2": 60.0})

    assert ordered == ["new", "long", "short", "long-2"]


def test_longest_first_ends_sooner() -> None:
    """44 environments of very different lengths on eight workers: within a tenth of what is possible."""
    builds = [30.0 * 1.15**number for number in range(44)]
    probes = [[5.0] * 6] * 44
    best = max((sum(builds) + 44 * 30) / 8, builds[-1] + 5)
    names = [str(number) for number in range(44)]
    order = in_order({name: [] for name in names}, trials={}, expected=dict(zip(names, builds, strict=True)))

    as_collected = Site(builds, probes, 8).run()
    longest_first = Site([builds[int(name)] for name in order], probes, 8).run()

    assert longest_first <= 1.1 * best
    assert longest_first < as_collected


def test_only_tests_of_suites_are_kept_together() -> None:
    """A test of the user's own that has parameters, too, is distributed by itself."""
    suite = "suites/a/test_pyramid.py::test_c1_cpu_execution[oracle-x]"
    other = "tests/test_other.py::test_things[fast-x]"

    assert environment_of(suite, ["oracle"]) == environment_of(suite.replace("c1_cpu", "c0_static"), ["oracle"])
    assert environment_of(suite, ["oracle"]) != environment_of(suite.replace("/a/", "/b/"), ["oracle"])
    assert environment_of(other, ["oracle"]) == other


def test_later_attempts_are_told_by_their_ids() -> None:
    """`x-2` is a second attempt where there is a first one, and a repository's name otherwise."""
    first, second = (f"a/test_pyramid.py[oracle-x{suffix}]" for suffix in ("", "-2"))

    assert trial_of(second, [first, second]) == 2
    assert trial_of(second, [second]) == 1
    assert trial_of(first, [first, second]) == 1
    assert shape_of("f::t[noop-x-2]", "noop", 2) == shape_of("f::t[oracle-x]", "oracle", 1)
