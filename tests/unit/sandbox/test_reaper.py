"""What the reaper may remove."""

from __future__ import annotations

import pytest

from pytest_researchenv.sandbox.labels import PREFIX, Owner
from pytest_researchenv.sandbox.reaper import abandoned


OWNER = Owner.current("tests")
HERE = OWNER.host
MINE = OWNER.process
#: Process 1 of this boot started at another time than this one says.
DEAD = "/".join([*MINE.split("/")[:2], "1", "999999999999"])
UNKNOWN = "/".join([MINE.split("/")[0], "another-namespace", "1", "1"])
PAST, FUTURE = "99", "101"


def _labels(kind: str, host: str, process: str, expires: str) -> dict[str, str]:
    values = {"kind": kind, "host": host, "process": process, "expires": expires}
    return {f"{PREFIX}{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("labels", "by_default", "with_everything"),
    [
        pytest.param({}, False, False, id="not ours"),
        pytest.param({f"{PREFIX}kind": "container"}, False, False, id="half labelled"),
        pytest.param(_labels("container", HERE, MINE, PAST), False, False, id="alive"),
        pytest.param(_labels("container", HERE, DEAD, FUTURE), True, True, id="dead"),
        pytest.param(_labels("container", HERE, UNKNOWN, FUTURE), False, False, id="unknown, unexpired"),
        pytest.param(_labels("container", HERE, UNKNOWN, PAST), True, True, id="unknown, expired"),
        pytest.param(_labels("container", "elsewhere", DEAD, FUTURE), False, False, id="elsewhere, unexpired"),
        pytest.param(_labels("container", "elsewhere", DEAD, PAST), True, True, id="elsewhere, expired"),
        pytest.param(_labels("snapshot", HERE, DEAD, PAST), False, True, id="snapshot"),
        pytest.param(_labels("base-image", HERE, DEAD, PAST), False, True, id="base image"),
        pytest.param(_labels("tool-volume", HERE, MINE, PAST), False, True, id="tool volume of the one who asks"),
        pytest.param(_labels("snapshot", "elsewhere", DEAD, PAST), False, False, id="snapshot elsewhere"),
    ],
)
def test_only_what_nobody_can_use_goes(labels: dict[str, str], by_default: bool, with_everything: bool) -> None:  # noqa: FBT001 - a table.
    """Dead owners' things go, other hosts' after expiry, what is kept for later only on demand."""
    answers = [abandoned(labels, owner=OWNER, everything=everything, now=100) for everything in (False, True)]

    assert answers == [by_default, with_everything]


def test_another_live_process_keeps_what_it_made() -> None:
    """Removing everything takes no snapshot from a run that is going on."""
    asking = Owner(OWNER.run, HERE, DEAD)

    assert not abandoned(_labels("snapshot", HERE, MINE, FUTURE), owner=asking, everything=True, now=100)
