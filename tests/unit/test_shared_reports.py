"""What pytest's controller keeps of tests that ran in workers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pytest_researchenv import xdist
from pytest_researchenv.xdist import XdistHooks


def sent(number: int) -> dict[str, Any]:
    """A report as xdist has it from a worker: each text of it is an object of its own."""
    own = "".join
    return {
        "$report_type": own(["Test", "Report"]),
        "nodeid": own(["test_pyramid.py::test_c", str(number)]),
        "keywords": {own(["C", "0"]): 1, own(["no", "op"]): 1},
        "user_properties": [(own(["ver", "dict"]), own(["pass", "ed"])), (own(["num", "ber"]), number)],
        "longrepr": {"lines": [own(["las", "t"]), None], "at": (own(["fi", "le"]), 3)},
        "duration": 0.5,
    }


@pytest.mark.parametrize("ours", [True, False])
def test_what_reports_share_is_held_once(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, *, ours: bool
) -> None:
    """Thousands have the same properties; what a report says stays as it was. Sessions of others are left alone."""
    monkeypatch.setattr(xdist, "named_agents", lambda _: ("noop",) if ours else ())
    hooks, reports = XdistHooks(), [sent(1), sent(2)]
    before = copy.deepcopy(reports)

    for report in reports:
        hooks.pytest_report_from_serializable(pytestconfig, report)

    assert reports == before
    first, second = reports
    assert (first["user_properties"][0] is second["user_properties"][0]) is ours
    assert all((one is other) is ours for one, other in zip(first["keywords"], second["keywords"], strict=True))
    assert (first["longrepr"]["lines"][0] is second["longrepr"]["lines"][0]) is ours
