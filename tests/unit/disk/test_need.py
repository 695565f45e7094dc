"""What a build needs, as told by earlier attempts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_researchenv.disk.keep import parse_keep
from pytest_researchenv.disk.need import UNKNOWN_BYTES, Need, predicted
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Verdict


PASSED, FAILED, ERROR, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.SKIPPED


def _attempt(results: Path, name: str, telemetry: object) -> None:
    folder = results / name
    folder.mkdir(parents=True)
    (folder / "environment.json").write_text(json.dumps({"telemetry": telemetry}))


def test_without_an_attempt_it_is_a_guess(tmp_path: Path) -> None:
    """An attempt at another repository says nothing."""
    _attempt(tmp_path, "r/codex/suite/other/attempt-001", {"added_image_bytes": 5})

    assert predicted(tmp_path, "codex", "suite/thing") == Need(UNKNOWN_BYTES)
    assert not predicted(tmp_path, "codex", "suite/thing").known


def test_the_agents_own_largest_counts_and_anybodys_where_it_has_none(tmp_path: Path) -> None:
    """In any run; twice, since it lies in the container and in the image."""
    _attempt(tmp_path, "r/codex/suite/thing/attempt-001", {"added_image_bytes": 5.0})
    _attempt(tmp_path, "s/codex/suite/thing/attempt-002", {"added_image_bytes": 7.0})
    _attempt(tmp_path, "r/oracle/suite/thing/attempt-001", {"added_image_bytes": 90.0})

    assert predicted(tmp_path, "codex", "suite/thing") == Need(14, "s/codex/suite/thing/attempt-002")
    assert predicted(tmp_path, "claude", "suite/thing") == Need(180, "r/oracle/suite/thing/attempt-001")


@pytest.mark.parametrize("damaged", [None, [], {"added_image_bytes": "5"}, {"added_image_bytes": -1}, {}])
def test_a_record_that_says_nothing_is_passed_over(tmp_path: Path, damaged: object) -> None:
    """So is one that cannot be read."""
    _attempt(tmp_path, "r/codex/suite/thing/attempt-001", damaged)
    _attempt(tmp_path, "r/codex/suite/thing/attempt-002", {"added_image_bytes": 5.0})
    _attempt(tmp_path, "r/codex/suite/thing/attempt-003", {})
    (tmp_path / "r/codex/suite/thing/attempt-003/environment.json").write_text("{")

    assert predicted(tmp_path, "codex", "suite/thing").like == "r/codex/suite/thing/attempt-002"


@pytest.mark.parametrize(
    ("policy", "verdicts", "kept"),
    [
        ("all", (PASSED,), True),
        ("none", (PASSED, FAILED, SKIPPED), False),
        ("none", (PASSED, ERROR), True),
        ("none", (), True),
        ("failed", (PASSED, FAILED), True),
        ("failed", (PASSED, SKIPPED), False),
        ("failed", (PASSED, ERROR), True),
        ("3", (PASSED,), False),
        ("0", (ERROR,), True),
    ],
)
def test_what_a_policy_keeps(policy: str, verdicts: tuple[Verdict, ...], kept: bool) -> None:  # noqa: FBT001 - a table
    """An error is no verdict: what is still to be judged is kept by every policy."""
    assert parse_keep(policy).keeps(verdicts) is kept


@pytest.mark.parametrize("text", ["", "some", "-1", "1.5", "\u0663", "10000000"])
def test_what_is_no_policy_is_refused(text: str) -> None:
    """With the forms that there are."""
    with pytest.raises(ConfigurationError, match="give all, failed, none"):
        parse_keep(text)
