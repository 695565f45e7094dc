"""What is left of a budget, and from where work goes on: nothing that was spent is forgotten."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pytest_researchenv.detached.record import ACTIVITY, save_work
from pytest_researchenv.detached.stages import continuation_of, finished_stage, stages_up_to
from pytest_researchenv.durations import parse_duration
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.layerchanges import added_up
from pytest_researchenv.model import Environment, Stage
from pytest_researchenv.sandbox.protocol import Change, ChangeKind
from pytest_researchenv.settings import Extension
from pytest_researchenv.store import Attempt, Store
from tests.unit.archives import archive


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty run."""
    return Store(tmp_path, "run")


def begun(
    store: Store, *, goes_on: int = 0, limit_s: float = 3600, limit_usd: float | None = None, image: str = ""
) -> Attempt:
    """An attempt whose agent has begun to work."""
    attempt = store.begin("agent", "suite/task", "session", goes_on=goes_on)
    save_work(attempt, limit_s, limit_usd, image)
    return attempt


def finished(store: Store, attempt: Attempt, *, seconds: float, dollars: float = 0.0, image: str = "img") -> Stage:
    """Let it end by itself."""
    before = stages_up_to(store, store.attempt("agent", "suite/task", attempt.start.goes_on))
    numbers = {"cost_usd": dollars, "tokens_in": 70.0, "tokens_out": 7.0}
    own = finished_stage(attempt, numbers, ended=time.time(), seconds=seconds, image=image)
    attempt.save_environment(
        Environment(attempt.key, image, "base", "/w", None, "", (), {}, {}, "ended", "now", stages=(*before, own))
    )
    return own


def died(attempt: Attempt, *, after_s: float, dollars: float = 0.0) -> None:
    """Let what looked after it die."""
    sign = attempt.folder / ACTIVITY
    sign.touch()
    os.utime(sign, (time.time() + after_s, time.time() + after_s))
    call = {"kind": "call", "charged_usd": dollars, "usage": {"tokens_in": 40, "tokens_out": 2}}
    attempt.requests.write_bytes(json.dumps(call).encode() + b'\n{"kind": "egress"}\n{"kind": "ca')


def test_a_finished_run_goes_on_with_what_is_added(store: Store) -> None:
    """Time that it did not use is over; dollars are not, and what was spent stays spent."""
    first = begun(store, limit_s=3600, limit_usd=10.0)
    stage = finished(store, first, seconds=600, dollars=4.0)

    found = continuation_of(store, first, Extension(1800, 2.0))

    assert (found.timeout_s, found.image) == (1800, "img")
    assert found.max_cost_usd == pytest.approx(8.0)
    assert (found.changes, found.archive) == (first, None)
    assert found.stages == (stage,)
    assert (stage.seconds, stage.dollars, stage.tokens, stage.limit_s, stage.limit_usd) == (600, 4.0, 77, 3600, 10.0)
    assert (found.earlier.stages, found.earlier.seconds, found.earlier.restored) == (1, 600, False)


def test_a_dead_run_goes_on_with_what_was_left(store: Store) -> None:
    """Until its last sign of life it was at work, and its requests took from its budget; a torn line is none."""
    first = begun(store, limit_s=3600, limit_usd=10.0)
    died(first, after_s=1000, dollars=3.0)
    archive(first.folder)

    found = continuation_of(store, first, Extension(0.0))

    assert found.timeout_s == pytest.approx(2600, abs=2)
    assert found.max_cost_usd == pytest.approx(7.0)
    assert (found.image, found.archive) == ("", first.folder)
    assert found.stages[0].tokens == 42
    assert found.earlier.restored


def test_stages_add_up_over_deaths_and_ends(store: Store) -> None:
    """First finished, second dead, third finished: each is on record, in order, with its own time."""
    finished(store, begun(store), seconds=100, image="one")
    second = begun(store, goes_on=1, limit_s=1000, image="one")
    died(second, after_s=50)
    third = begun(store, goes_on=2)

    found = continuation_of(store, second, Extension(0.0))
    assert [(stage.attempt, stage.image) for stage in found.stages] == [(1, "one"), (2, "")]
    # Nothing was archived since: the image that it began from has all that there is.
    assert (found.image, found.archive) == ("one", None)
    assert found.changes == store.attempt("agent", "suite/task", 1)
    finished(store, third, seconds=10, image="three")

    assert [round(stage.seconds) for stage in stages_up_to(store, third)] == [100, 50, 10]


@pytest.mark.parametrize(
    ("limit_usd", "extension", "message"),
    [
        (None, Extension(0.0), "no time left"),
        (1.0, Extension(60, 0.0), "no money left"),
    ],
    ids=["time", "money"],
)
def test_who_has_nothing_left_is_told_what_to_give(
    store: Store, limit_usd: float | None, extension: Extension, message: str
) -> None:
    """A stage that could do nothing is not begun."""
    first = begun(store, limit_usd=limit_usd)
    finished(store, first, seconds=10, dollars=1.0)
    with pytest.raises(ConfigurationError, match=message):
        continuation_of(store, first, extension)


def test_nothing_goes_on_from_nothing(store: Store) -> None:
    """An attempt that died before anything was archived is begun anew."""
    first = begun(store)
    died(first, after_s=1)
    with pytest.raises(ConfigurationError, match="nothing of its work was archived"):
        continuation_of(store, first, Extension(60))
    with pytest.raises(ConfigurationError, match="had not begun"):
        continuation_of(store, store.begin("agent", "suite/task", "session"), Extension(60))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172_800), ("45M", 2700), (" 10s ", 10)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    """Seconds, or numbers with units."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1x", "h", "1 h", "nan", "inf", "99999d", "1h-1m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """With the text, and what to give instead."""
    with pytest.raises(ConfigurationError, match="give"):
        parse_duration(text)


def test_changes_of_two_layers_add_up() -> None:
    """What came and went is no change, and what was the image's own stays a change of it."""
    added, changed, removed = ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.REMOVED
    below = {"/a": added, "/b": added, "/c": changed, "/d": changed, "/e": removed}
    above = {"/a": removed, "/b": changed, "/c": removed, "/e": added, "/f": added}
    lower, upper = ([Change(kind, path) for path, kind in layer.items()] for layer in (below, above))

    assert sorted((change.path, change.kind) for change in added_up(lower, upper)) == [
        ("/b", added),
        ("/c", removed),
        ("/d", changed),
        ("/e", changed),
        ("/f", added),
    ]
    assert list(added_up(lower, [])) == lower
