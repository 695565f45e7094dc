"""What a finished run came to is judged again, and what flips is told."""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.lock import write_lock
from pytest_researchenv.model import Examination, Finding, Sign, Tier, Verdict
from pytest_researchenv.store import load_environment
from pytest_researchenv.verifying.rejudging import Again
from tests.unit.verifying.bench import Bench, again, only


def test_an_intact_run_is_judged_again_and_nothing_is_touched(bench: Bench) -> None:
    """Every verdict comes out again, the stored files are as before, and nothing is left in the engine."""
    before = bench.files()

    one = only(bench.verify())

    assert one.holds
    assert (one.altered, one.remarks) == ((), ())
    assert again(one) == {"integrity": Again.SAME, "C1": Again.SAME}
    assert bench.files() == before
    assert len(bench.lab.probe.tasks) == 2
    assert not bench.lab.sandbox.containers
    assert bench.lab.agent.worked == 1


def test_the_probe_gets_what_it_got_then(bench: Bench) -> None:
    """The environment as it was stored, and a copy of what was recorded: the audit reads it."""
    bench.verify()

    then, now = bench.lab.probe.tasks
    assert now.environment == then.environment
    assert now.settings == then.settings
    assert now.records not in (None, then.records)


def test_a_verdict_that_comes_out_otherwise_is_flipped(bench: Bench) -> None:
    """Both reasons are told."""
    bench.lab.probe.verdict = Verdict.FAILED

    one = only(bench.verify())

    flipped = one.verdicts[1]
    assert not one.holds
    assert one.altered == ()
    assert flipped.again is Again.FLIPPED
    assert flipped.why.startswith("passed then")
    assert "failed now" in flipped.why


def test_a_finding_that_is_gone_is_a_flip(bench: Bench) -> None:
    """The verdict is failed as before, and what is counted has changed."""
    finding = Finding(Sign.HOOK, "/etc/x.pth", "nothing", "code")
    bench.lab.checks = (lambda *_: Signs((finding, Finding(Sign.SHADOW, "/usr/bin/x", "nothing", "a file"))),)
    bench.run()
    bench.lab.checks = (lambda *_: Signs((finding,)),)

    verdict = only(bench.verify(tiers=[Examination.INTEGRITY])).verdicts[0]

    assert verdict.again is Again.FLIPPED
    assert "shadowed command /usr/bin/x" in verdict.why


def test_only_the_chosen_tier_is_judged_again(bench: Bench) -> None:
    """The records are checked all the same."""
    assert again(only(bench.verify(tiers=[Tier.C1]))) == {"C1": Again.SAME}
    assert only(bench.check()).verdicts == ()


def test_a_lost_image_cannot_be_verified(bench: Bench) -> None:
    """It is told, and held against nobody."""
    bench.lab.sandbox.remove_image(load_environment(bench.attempt).image)

    one = only(bench.verify())

    assert one.holds
    assert set(again(one).values()) == {Again.UNVERIFIABLE}
    assert any("the frozen image is gone" in remark for remark in one.remarks)


def test_a_lost_base_image_is_told(bench: Bench) -> None:
    """Without it nobody can tell whose fault a broken environment is."""
    bench.lab.sandbox.remove_image(bench.lab.base)

    assert any("the base image is gone" in remark for remark in only(bench.verify()).remarks)


@pytest.mark.parametrize("locked", [True, False])
def test_a_changed_suite_cannot_be_verified(bench: Bench, locked: bool) -> None:  # noqa: FBT001 - a parameter
    """What decides a tier has changed: with a lock the file is named, without one the digests."""
    if locked:
        write_lock(bench.suite)
    bench.describe(timeout=5)

    verdict = next(one for one in only(bench.verify()).verdicts if one.stored.tier is Tier.C1)

    assert verdict.again is Again.UNVERIFIABLE
    says = "thing/repo.toml has changed since the suite was locked" if locked else "had the digest"
    assert says in verdict.why


def test_a_change_that_decides_nothing_is_a_remark(bench: Bench) -> None:
    """Other files of the suite may change: the verdict is verified all the same."""
    (bench.suite / "README.md").write_text("More.\n")

    verdict = next(one for one in only(bench.verify()).verdicts if one.stored.tier is Tier.C1)

    assert verdict.again is Again.SAME
    assert verdict.remarks == ("files of the suite that have no part in it have changed since",)


def test_another_tree_cannot_be_verified(bench: Bench) -> None:
    """What the source's folder held then is what was judged."""
    (bench.suite.parent / "repo/run.py").write_text("print(2)\n")

    assert {one.again for one in only(bench.verify()).verdicts} == {Again.UNVERIFIABLE}


def test_an_unknown_suite_cannot_be_verified(bench: Bench) -> None:
    """The message says how to name it."""
    (bench.suite / "suite.toml").write_text('name = "other"\n')

    assert "--suite" in only(bench.verify()).verdicts[0].why


def test_trouble_with_the_engine_is_no_flip(bench: Bench) -> None:
    """Nothing is said of the verdict, and the others are judged."""
    bench.lab.probe.breaks = True

    one = only(bench.verify())

    assert one.holds
    assert again(one) == {"integrity": Again.SAME, "C1": Again.UNVERIFIABLE}
    assert "the engine went away" in one.verdicts[1].why


def test_an_error_was_no_verdict(bench: Bench) -> None:
    """There is nothing to verify."""
    bench.lab.probe.breaks = True
    with pytest.raises(RuntimeError):
        bench.run()
    bench.lab.probe.breaks = False

    assert "there was no verdict" in only(bench.verify()).verdicts[1].why


def test_another_harness_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer version judges again, and says that it is another."""
    monkeypatch.setattr("pytest_researchenv.verifying.rejudging.harness_identity", lambda: "9.9 other")

    one = only(bench.verify())

    assert one.holds
    assert all("this is version 9.9 (other)" in verdict.remarks[0] for verdict in one.verdicts)


def test_every_attempt_is_verified(bench: Bench) -> None:
    """Each with what was judged of it."""
    bench.run(rebuild=True)

    every = bench.verify()

    assert [one.key.attempt for one in every] == [1, 2]
    assert all(one.holds for one in every)
