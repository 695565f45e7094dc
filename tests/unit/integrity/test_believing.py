"""What an audit means for the tiers: a pass that could be forged is none, and nothing else changes."""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity.believing import believed
from pytest_researchenv.model import Audit, Cause, Examination, Finding, Sign, Tier, TierResult, Verdict


#: Signs of code that could answer as it likes.
VOIDING = (Sign.INTERPRETER, Sign.SYSTEM, Sign.STUB, Sign.FRAMEWORK, Sign.DISTRIBUTION, Sign.UNREADABLE)


def _audit(*signs: Sign) -> Audit:
    findings = tuple(Finding(sign, "/usr/bin/python3", "an ELF", "a script") for sign in signs)
    return Audit(TierResult(Examination.INTEGRITY, Verdict.FAILED, Cause.TAMPERED, findings=findings))


@pytest.mark.parametrize("sign", Sign)
def test_a_pass_is_void_where_it_could_be_forged(sign: Sign) -> None:
    """Signs of code that can answer as it likes void a pass; those that are taken out of the probe's world do not."""
    passed = TierResult(Tier.C1, Verdict.PASSED, reason="exited with code 0", evidence={"exit_code": 0})

    result = believed(passed, _audit(sign))

    if sign in VOIDING:
        assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.TAMPERED)
        assert f"{sign}: /usr/bin/python3: a script" in result.reason
        assert result.evidence == {"exit_code": 0, "probe_verdict": "passed", "probe_reason": "exited with code 0"}
    else:
        assert result == passed


@pytest.mark.parametrize("sign", Sign)
def test_c0_is_void_only_where_files_cannot_be_believed(sign: Sign) -> None:
    """C0 looks for modules from outside and counts stand-ins itself: edited code does not make them more or fewer."""
    result = believed(TierResult(Tier.C0, Verdict.PASSED), _audit(sign))

    void = sign in {Sign.INTERPRETER, Sign.SYSTEM, Sign.UNREADABLE}
    assert (result.verdict is Verdict.FAILED) is void


@pytest.mark.parametrize("sign", Sign)
def test_c5_is_void_only_where_its_answers_cannot_be_believed(sign: Sign) -> None:
    """C5 asks the interpreter and torch: a stand-in for something else makes no claim false, and no count differ."""
    result = believed(TierResult(Tier.C5, Verdict.PASSED), _audit(sign))

    assert (result.verdict is Verdict.FAILED) is (sign in VOIDING and sign is not Sign.STUB)
    assert result.findings == ()


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.SKIPPED, Verdict.ERROR])
def test_what_did_not_pass_stays_what_it_is(verdict: Verdict) -> None:
    """A failure keeps its own cause, and neither a skip nor an error becomes a failure."""
    result = TierResult(Tier.C3, verdict, Cause.TIMEOUT, "timed out")

    assert believed(result, _audit(*VOIDING)) == result


def test_a_reason_lists_a_few_of_many() -> None:
    """However many findings there are, the reason stays short and says how many there are."""
    result = believed(TierResult(Tier.C1, Verdict.PASSED), _audit(*[Sign.DISTRIBUTION] * 500))

    assert result.reason.endswith("; and 497 more")
    assert len(result.reason) < 500
