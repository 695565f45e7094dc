"""Rules of what ranks must have seen of one another."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_researchenv.probes.evidence import OutputFile, Outputs
from pytest_researchenv.probes.records import (
    Record,
    Records,
    collective_misses,
    independent_misses,
    read_records,
)


TOKENS = ("aa", "bb")
CALLS = {"all_reduce": 3}
RANKS = tuple(
    Record(10 + rank, "localhost", rank, 2, "gloo", TOKENS[rank], TOKENS, CALLS, {}, torch=False, problem="")
    for rank in range(2)
)
RAW = {
    "nonce": "n",
    "pid": 10,
    "hostname": "localhost",
    "rank": 0,
    "world_size": 2,
    "backend": "gloo",
    "token": "aa",
    "gathered": ["aa", "bb"],
    "calls": {"all_reduce": 3},
    "allocated": {"0": 4096},
    "torch": True,
    "problem": "",
}

Change = Callable[[Record], Record]


def outputs(*texts: str) -> Outputs:
    """The observer's folder with these files."""
    content = [text.encode() for text in texts]
    return Outputs({f"/o/records/rank-{n}.json": OutputFile(len(c), c) for n, c in enumerate(content)})


def test_ranks_that_received_each_others_tokens_met() -> None:
    """A process without a rank, such as the parent that started them, does not matter."""
    parent = replace(RANKS[0], rank=None, pid=9, world_size=0, gathered=(), calls={})

    assert collective_misses(Records((parent, *RANKS)), 2) == []
    # Started by a launcher of the script's own, with a RANK that it never used.
    assert collective_misses(Records((replace(parent, rank=0), *RANKS)), 2) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"world_size": 1, "gathered": ("bb",)}, "rank 1 (process 11) is in a process group of 1, not 2"),
        ({"world_size": 0, "gathered": ()}, "rank 1 (process 11) joined no process group"),
        ({"world_size": 4}, "rank 1 (process 11) is in a process group of 4, not 2"),
        ({"gathered": ()}, "rank 1 (process 11) exchanged nothing with the other ranks"),
        ({"gathered": ("aa", "xx")}, "rank 1 (process 11) received other values than the ranks sent"),
        ({"gathered": ("bb", "aa")}, "rank 1 (process 11) received other values than the ranks sent"),
        ({"gathered": ("aa", "bb", "cc")}, "rank 1 (process 11) received other values than the ranks sent"),
        ({"token": "cc"}, "rank 0 (process 10) received other values than the ranks sent"),
        ({"gathered": (), "problem": "timed out"}, "rank 1 (process 11): timed out"),
        ({"rank": 0}, "2 processes say that they are rank 0"),
        ({"rank": None}, "2 ranks must have run, and 1 did, of 2 observed processes"),
    ],
)
def test_every_way_not_to_meet_is_seen_and_said(change: dict[str, object], said: str) -> None:
    """Whatever one rank alone says or the other way round."""
    records = Records((RANKS[0], replace(RANKS[1], **change)))  # type: ignore[arg-type] # one name per field

    assert said in collective_misses(records, 2)


def test_a_meeting_without_work_is_no_work() -> None:
    """The exchange is the harness's own; the repository must have made a call or a parallel model itself."""
    idle = tuple(replace(record, calls={"new_group": 1}) for record in RANKS)

    assert collective_misses(Records(idle), 2) == ["no rank made a collective call or a parallel model"]


def test_too_many_ranks_are_no_match() -> None:
    """The harness said how many to start."""
    third = replace(RANKS[1], rank=2, pid=12)

    assert "2 ranks must have run, and 3 did, of 3 observed processes" in collective_misses(Records((*RANKS, third)), 2)


def test_nothing_observed_is_said() -> None:
    """With what was passed over."""
    missing = collective_misses(Records(problem="rank-0.json is no record of the observer's (not of this launch)"), 2)

    assert missing[:2] == [
        "2 ranks must have run, and 0 did, and no process was observed",
        "rank-0.json is no record of the observer's (not of this launch)",
    ]


def test_independent_ranks_need_no_group_but_ranks_of_their_own() -> None:
    """More than were asked for are fine: the repository's launcher decides."""
    alone = tuple(replace(record, world_size=0, gathered=(), calls={}) for record in RANKS)
    third = replace(alone[1], rank=2, pid=12)

    assert independent_misses(Records(alone), 2) == independent_misses(Records((*alone, third)), 2) == []
    assert independent_misses(Records((alone[0], replace(alone[1], rank=0))), 2) == [
        "2 processes say that they are rank 0"
    ]
    assert independent_misses(Records(alone[:1]), 2) == ["2 ranks must have run, and 1 did, of 1 observed processes"]


def test_a_record_is_read() -> None:
    """Every field, and the sum of what torch allocated."""
    records = read_records(outputs(json.dumps(RAW)), "n")

    assert records.all == (replace(RANKS[0], allocated={"0": 4096}, torch=True),)
    assert (records.allocated, records.used_torch, records.problem) == (4096, True, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '"n"',
        json.dumps({**RAW, "nonce": "of another launch"}),
        json.dumps({key: value for key, value in RAW.items() if key != "nonce"}),
        json.dumps({**RAW, "rank": -1}),
        json.dumps({**RAW, "rank": True}),
        json.dumps({**RAW, "rank": 0.0}),
        json.dumps({**RAW, "pid": None}),
        json.dumps({**RAW, "gathered": "aabb"}),
        json.dumps({**RAW, "gathered": [1]}),
        json.dumps({**RAW, "calls": {"all_reduce": "3"}}),
        json.dumps({**RAW, "problem": 1}),
        json.dumps({**RAW, "hostname": "x" * 2 * 1024**2}),
    ],
)
def test_what_is_no_record_of_this_launch_does_not_count(text: str) -> None:
    """It is named, and crashes nothing."""
    records = read_records(outputs(text), "n")

    assert records.all == ()
    assert "rank-0.json is no record of the observer's" in records.problem
