"""What a repo.toml may say shorter stands for the long form, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv._shorthand import OBSERVED
from pytest_researchenv.errors import SuiteError
from pytest_researchenv.model import JsonEvidence, Tier, TierSpec
from pytest_researchenv.suite import load_suite


HEAD = 'name = "owner/one"\n[source]\npath = "tree"\n'
C1 = '[tiers.C1]\nargv = ["run"]\n'


def load(folder: Path, tiers: str) -> dict[Tier, TierSpec]:
    """Read the tiers of a suite of one repository."""
    (folder / "one").mkdir()
    (folder / "suite.toml").write_text('name = "mine"\n')
    (folder / "one" / "repo.toml").write_text(f"{HEAD}{tiers}")
    return load_suite(folder).repositories[0].tiers


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("steps == 3", {"field": "steps", "equals": 3}),
        ("there == true", {"field": "there", "equals": True}),
        ('device == "cpu"', {"field": "device", "equals": "cpu"}),
        ("share == 0.5", {"field": "share", "equals": 0.5}),
        ("0 <= error <= 1e-3", {"field": "error", "min": 0.0, "max": 0.001}),
        ("-.5<=x<=+2.", {"field": "x", "min": -0.5, "max": 2.0}),
        ("losses.0 >= 0.5", {"field": "losses.0", "min": 0.5}),
        ("loss <= 9", {"field": "loss", "max": 9.0}),
    ],
)
def test_a_condition_stands_for_a_value_that_is_demanded(tmp_path: Path, text: str, meant: dict[str, Any]) -> None:
    """Equality, a range with both ends, or one end."""
    tiers = load(tmp_path, f"{C1}evidence.observed = ['{text}']\n")

    assert tiers[Tier.C1].evidence.json == (JsonEvidence(path=OBSERVED, **meant),)


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ("'steps = 3'", "observed[0]: 'steps = 3' is no condition: write it like"),
        ("'steps < 3'", "'steps < 3' is no condition"),
        ("'steps == three'", "is no condition"),
        ("'steps == [1]'", "is no condition"),
        ("'steps == NaN'", "is no condition"),
        ("'x == 1e999'", "is no condition"),
        ("'0 <= x <= nan'", "is no condition"),
        ("'x <= 1e999'", "is no condition"),
        (f"'x == {'[' * 5000}'", "is no condition"),
        ("'3 >= x'", "is no condition"),
        ("''", "'' is no condition"),
        ("3", "must be a list of conditions, not [3]"),
        ("'a == 1', 'a <= 2'", "observed[1]: 'a' has a condition already"),
        ("'2 <= a <= 1'", "min 2.0 is larger than max 1.0"),
    ],
)
def test_what_is_no_condition_is_named(tmp_path: Path, conditions: str, says: str) -> None:
    """A slip must not become a demand that is never made."""
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, f"{C1}evidence.observed = [{conditions}]\nevidence.files = [{{ path = '{{out}}/a' }}]\n")
    assert says in str(caught.value)


def test_a_tier_like_another_takes_what_it_does_not_say_itself(tmp_path: Path) -> None:
    """Tables are merged, conditions field by field; lists and values replace; the other tier stays as it is."""
    tiers = load(
        tmp_path,
        f"""{C1}environment = {{ A = "1", B = "2" }}
evidence.files = [{{ path = "{{out}}/a" }}]
evidence.observed = ["ranks == 1", "0 <= error <= 1"]
[tiers.C4]
like = "C1"
environment.B = "3"
evidence = {{ parallel = "collective", observed = ["ranks == 2", "other == 0"] }}
""",
    )
    one, four = tiers[Tier.C1], tiers[Tier.C4]

    assert four.argv == one.argv
    assert (one.environment, four.environment) == ({"A": "1", "B": "2"}, {"A": "1", "B": "3"})
    assert four.evidence.files == one.evidence.files
    assert [demand.equals for demand in four.evidence.json] == [2, None, 0]
    assert [demand.equals for demand in one.evidence.json] == [1, None]
    assert one.evidence.parallel is None


@pytest.mark.parametrize(
    ("tiers", "says"),
    [
        ('[tiers.C3]\nlike = "C1"\n', "tiers.C3.like: 'C1' is no tier that this file has a table of"),
        ('[tiers]\nC1 = 3\nC3 = { like = "C1" }\n', "a table of (it has: no other)"),
        ('[tiers.C3]\nlike = "C3"\n', "a tier cannot be like itself"),
        ("[tiers.C3]\nlike = 1\n", "1 is no tier"),
        (f'{C1}like = "C3"\n[tiers.C3]\nlike = "C4"\n[tiers.C4]\nargv = ["x"]\n', "C3 is like another tier itself"),
        (f'{C1}[tiers.C3]\nlike = "C1"\n[tiers.C4]\nlike = "C3"\n', "tiers.C4.like: C3 is like another tier itself"),
        (f'{C1}evidence.observe = ["a == 1"]\n', "did you mean 'observed'?"),
        (f'{C1}lik = "C1"\n', "did you mean 'like'?"),
    ],
)
def test_a_tier_that_is_like_nothing_is_named(tmp_path: Path, tiers: str, says: str) -> None:
    """A chain, a circle, a slip."""
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, tiers)
    assert says in str(caught.value)
