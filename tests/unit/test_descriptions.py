"""What a repo.toml says beside the probes: what is not probed and why, pins, deviations, sabotage, canary."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import SuiteError
from pytest_researchenv.model import Cause, SabotageKind, Tier
from pytest_researchenv.suite import load_suite


HEAD = 'name = "owner/one"\n[source]\npath = "tree"\n[tiers.C0]\n'
C1 = '[tiers.C1]\nargv = ["{python}", "run.py"]\nevidence.files = [{ path = "{out}/x" }]\n'


def write(folder: Path, text: str, *, header: str = 'name = "mine"\n') -> Path:
    """Write a suite of one repository."""
    (folder / "one").mkdir(exist_ok=True)
    (folder / "suite.toml").write_text(header)
    (folder / "one/repo.toml").write_text(text)
    return folder


def problems(folder: Path, text: str) -> str:
    """Return what is wrong with it, in words."""
    with pytest.raises(SuiteError) as caught:
        load_suite(write(folder, text))
    return str(caught.value)


def test_a_tier_is_idle_for_one_of_three_reasons(tmp_path: Path) -> None:
    """Not applicable, no probe yet, impossible at the commit: told apart, and the last two count as applicable."""
    text = (
        f'{HEAD}[tiers.C1]\npending = "later"\n[tiers.C3]\ndefective_upstream = "never worked"\n'
        '[tiers.C4]\nsupported = false\nskip_reason = "one device only"\n'
    )

    (repository,) = load_suite(write(tmp_path, text)).repositories

    assert repository.spec(Tier.C0).idle == (Cause.NONE, "")
    assert repository.spec(Tier.C1).idle == (Cause.NO_PROBE, "later")
    assert repository.spec(Tier.C3).idle == (Cause.DEFECTIVE_UPSTREAM, "never worked")
    assert repository.spec(Tier.C4).idle == (Cause.NOT_APPLICABLE, "one device only")
    assert [repository.spec(tier).supported for tier in (Tier.C1, Tier.C3, Tier.C4)] == [True, True, False]


@pytest.mark.parametrize(
    ("tier", "says"),
    [
        (
            'pending = "x"\nsupported = false\nskip_reason = "y"',
            "pending and defective_upstream are of tiers that apply",
        ),
        ('pending = "x"\ndefective_upstream = "y"', "give pending or defective_upstream, not both"),
        ('pending = "x"\nargv = ["y"]', "a tier with argv or probe is neither pending nor defective_upstream"),
    ],
)
def test_reasons_that_exclude_one_another_are_refused(tmp_path: Path, tier: str, says: str) -> None:
    """A tier cannot be probed and not be probed."""
    assert says in problems(tmp_path, f"{HEAD}[tiers.C1]\n{tier}\n")


def test_pins_and_sabotage_are_read(tmp_path: Path) -> None:
    """They arrive in the model as they were written."""
    text = f'{HEAD}{C1}[pins]\ntorch = "==2.1.0"\n[sabotage.package]\ntarget = "einops"\ntiers = ["C0", "C1"]\n'

    (repository,) = load_suite(write(tmp_path, text)).repositories

    assert repository.pins == {"torch": "==2.1.0"}
    assert repository.sabotage[SabotageKind.PACKAGE].target == "einops"
    assert repository.sabotage[SabotageKind.PACKAGE].tiers == (Tier.C0, Tier.C1)


def test_deviations_lie_beside_the_description_and_in_the_suites_own(tmp_path: Path) -> None:
    """Those of one repository, and those of all."""
    one = '[[deviations]]\ntiers = ["C1"]\npublished = "a"\nhere = "b"\n'
    folder = write(tmp_path, f"{HEAD}{C1}", header='name = "mine"\n' + one.replace('"a"', '"c"'))
    (folder / "one" / "deviations.toml").write_text(one)

    suite = load_suite(folder)

    assert [(item.published, item.here, item.why) for item in suite.repositories[0].deviations] == [("a", "b", "")]
    assert [item.published for item in suite.deviations] == ["c"]


def test_a_slip_in_the_deviations_is_named_with_its_file(tmp_path: Path) -> None:
    """As in every other file of a suite."""
    folder = write(tmp_path, f"{HEAD}{C1}")
    (folder / "one" / "deviations.toml").write_text('[[deviations]]\ntiers = ["C1"]\npublished = "a"\nhear = "b"\n')

    with pytest.raises(SuiteError, match=r"deviations\.toml: deviations\[0\]\.hear: .* did you mean 'here'\?"):
        load_suite(folder)


def test_tiers_of_the_suite_apply_where_a_repository_has_no_table(tmp_path: Path) -> None:
    """A table of its own wins, as always."""
    text = f'{HEAD}{C1}[tiers.C2]\nsupported = false\nskip_reason = "no framework"\n'

    (repository,) = load_suite(write(tmp_path, text, header='name = "mine"\ntiers = ["C2", "C5"]\n')).repositories

    assert repository.spec(Tier.C5).supported
    assert not repository.spec(Tier.C2).supported
    assert not repository.spec(Tier.C3).supported


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[pins]\ntorch = "2.1"\n', "pins.torch: '2.1' is no version specifier"),
        ('[sabotage.packge]\ntarget = "x"\ntiers = ["C0"]\n', "did you mean 'package'?"),
        ('[sabotage.package]\ntarget = "x"\ntiers = []\n', "sabotage.package.tiers: missing"),
        ('[sabotage.package]\ntarget = "x"\ntiers = ["C3"]\n', "C3 is not probed, so it cannot notice"),
        ('[sabotage.package]\ntarget = "a b"\ntiers = ["C0"]\n', "'a b' is no name of one package"),
        ('[sabotage.entry]\ntarget = "run.sh"\ntiers = ["C0"]\n', "'run.sh' must be a Python file"),
        ('[tiers.C1]\nprobe = ".hidden/c1.py"\n', "'.hidden/c1.py' is hidden, and no lock holds hidden files"),
        ('[sabotage.version]\ntarget = "a b"\ntiers = ["C0"]\n', "'a b' is no requirement like"),
        ('[sabotage.package]\ntarget = "x"\ntier = ["C0"]\n', "did you mean 'tiers'? (known: target, tiers)"),
        ('[[deviations]]\ntiers = ["C1"]\n', "move it to deviations.toml beside this file"),
    ],
)
def test_slips_are_named_with_the_fix(tmp_path: Path, text: str, says: str) -> None:
    """File, key, value, and what was probably meant."""
    assert says in problems(tmp_path, f"{HEAD}{text}")


def test_each_probe_and_recipe_holds_the_suites_canary(tmp_path: Path) -> None:
    """Where a suite has a canary, a file without it is named; the suite's own test module needs none."""
    header = 'name = "mine"\ncanary = "canary 123"\n'
    folder = write(tmp_path, HEAD, header=header)
    (folder / "test_pyramid.py").write_text("")
    (folder / "one/oracle.sh").write_text("# canary 123\n")
    (folder / "one/probes").mkdir()
    (folder / "one/probes/c1.py").write_text("")

    with pytest.raises(SuiteError, match=r"c1\.py: lacks the suite's canary: add a comment line with 'canary 123'"):
        load_suite(folder)
    (folder / "one/probes/c1.py").write_text("# canary 123\n")
    assert load_suite(folder).canary == "canary 123"
