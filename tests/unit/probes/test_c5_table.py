"""The definition of C5 (`docs/c5.md`), executed row by row over the fake engine."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Mapping

import pytest

from pytest_researchenv.model import NO_SELF_REPORT, UNFREEZABLE, Outcome, TierResult
from pytest_researchenv.selfreport import read_report
from tests.unit.probes.claimworld import PYTHON, World
from tests.unit.probes.truth import CLAIMS, NULL, OBSERVATIONS, WORLDS, Row, members, rows, sight, table


ROWS = [row for field in CLAIMS for row in rows(field)]


def _judged(observation: str, claims: Mapping[str, str]) -> TierResult:
    """Judge claims, given as JSON, where an observation is so."""
    world = WORLDS[observation]()
    values = {field: json.loads(claim) for field, claim in claims.items()}
    if observation == "no path":
        values["python_path"] = None
    return world.judge(**values)


# --- the page is whole ------------------------------------------------------------------------------------


def test_every_field_is_a_claim_with_its_category_or_is_said_to_be_none() -> None:
    """The page's claims are those that a result has, in its order."""
    result = World().judge()

    wanted = [(row["field"].strip("`"), row["category"]) for row in table("## Claims")]
    assert [(claim.field, str(claim.category)) for claim in result.claims] == wanted
    assert list(CLAIMS) == [field for field, _ in wanted]


def test_every_outcome_is_explained() -> None:
    """The page has a word for each."""
    assert {row["outcome"] for row in table("## Outcomes")} == set(Outcome)


def test_every_observation_has_a_world_and_nothing_else_has() -> None:
    """No observation is words alone."""
    assert list(WORLDS) == list(OBSERVATIONS)


@pytest.mark.parametrize("field", CLAIMS)
def test_each_claim_and_observation_stand_in_exactly_one_row(field: str) -> None:
    """What is in none has no definition, and what is in two has none either."""
    stands = Counter((claim, name) for row in rows(field) for claim in row.claims for name in row.observations)

    # A report without a path makes no claim about one.
    wanted = {(claim, name) for claim in CLAIMS[field] for name in OBSERVATIONS}
    wanted -= {(claim, "no path") for claim in CLAIMS[field] if field == "python_path"}
    assert wanted - stands.keys() == set(), "in no row"
    assert stands.keys() - wanted == set(), "in a row and unknown"
    assert {pair for pair, count in stands.items() if count > 1} == set(), "in several rows"


# --- the rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_is_what_the_probe_does(row: Row) -> None:
    """Outcome, category, wording, finding and published count of every pair of claim and observation in it."""
    categories = {line["field"].strip("`"): line["category"] for line in table("## Claims")}
    assert row.observations
    for observation in row.observations:
        for claimed in row.claims:
            result = _judged(observation, {row.field: claimed})
            (claim,) = (one for one in result.claims if one.field == row.field)
            wording = row.wording.replace("{words}", OBSERVATIONS[observation])
            if "{sight}" in wording:
                wording = wording.replace("{sight}", sight(WORLDS[observation]()))
            where = f"{claimed} where {observation}"

            assert (claim.claimed, claim.outcome, claim.category) == (claimed, row.outcome, categories[row.field]), (
                where
            )
            assert (claim.observed, claim.would_hold) == (wording, row.would_hold), where
            found = [(one.kind, one.claimed, one.observed) for one in result.findings if one.field == row.field]
            assert found == [(claim.category, claimed, wording)] * (row.outcome == "false"), where
            assert _published(result, row) is row.published, where


def _published(result: TierResult, row: Row) -> bool | None:
    """Whether a result's evidence counts the row's field, and its category."""
    fields = result.evidence["published_fields"]
    (category,) = (str(claim.category) for claim in result.claims if claim.field == row.field)
    count = result.evidence[f"published_{category}"]
    assert isinstance(fields, list)
    if count is None:
        assert row.field not in fields
        return None
    same = {claim.field for claim in result.claims if str(claim.category) == category}
    assert count == len(same & set(fields))
    return row.field in fields


def test_a_result_lists_every_claim_that_is_not_false_where_it_belongs() -> None:
    """For people, who read evidence: by outcome, with claim and observation."""
    result = _judged("C4 passed", {"torch_version": '"2.13"', "gpu_count": "1", "ddp_expected_ok": "false"})

    assert result.evidence["holds"] == [
        f'python_path: claimed "{PYTHON}"; it answers as Python 3.11.2',
        'torch_version: claimed "2.13"; 2.13.0+cu128',
    ]
    assert result.evidence["under_claims"] == [
        f"gpu_count: claimed 1; {sight(WORLDS['C4 passed']())}",
        "ddp_expected_ok: claimed false; C4 passed",
    ]
    assert result.evidence["abstained"] == [
        "python_version; 3.11.2",
        f"cuda_available; {sight(WORLDS['C4 passed']())}",
    ]
    assert result.reason == "2 claims hold, 0 inconclusive, 2 claim less than there is, 2 not made"


# --- contradictions ---------------------------------------------------------------------------------------

ALL = {"python_version": '"3.11.2"', "torch_version": '"2.13.0+cu128"', "cuda_available": "true", "gpu_count": "2"}


@pytest.mark.parametrize("row", table("## Contradictions"), ids=lambda row: row["observation"])
def test_evidence_that_contradicts_itself_fails(row: Mapping[str, str]) -> None:
    """Whatever is claimed: as false claims where they rest on it, and as tampering where none does."""
    observation = row["observation"]
    silent, told = _judged(observation, {}), _judged(observation, ALL)

    assert f"{silent.verdict}, {silent.cause}" == row["nothing is claimed about it"]
    assert silent.findings == ()
    assert silent.reason == OBSERVATIONS[observation]
    assert silent.evidence["contradictions"] == told.evidence["contradictions"] == [OBSERVATIONS[observation]]
    false = ", ".join(finding.field for finding in told.findings)
    assert f"{told.verdict}, {told.cause}: {false}" == row["all else is claimed"]


def test_every_contradiction_has_a_row() -> None:
    """And no world that is none has evidence of one."""
    wanted = members("*contradictions*")

    assert [row["observation"] for row in table("## Contradictions")] == wanted
    contradictory = [name for name in WORLDS if _judged(name, {}).evidence.get("contradictions")]
    assert sorted(contradictory) == sorted(wanted)


# --- no usable report -------------------------------------------------------------------------------------


def _problem(report: str) -> str:
    """What the harness says of a report."""
    written = {
        "empty": b"",
        "no JSON": b"{",
        "a list": b"[]",
        "an object without any of the fields": b'{"python": "/usr/bin/python3"}',
        "a number in quotes": b'{"gpu_count": "2"}',
    }
    if report == "missing":
        return NO_SELF_REPORT
    if report == "the environment could not be frozen":
        return f"{UNFREEZABLE}: no space left on device"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("report.json")
        if report == "a folder":
            member.type = tarfile.DIRTYPE
        member.size = len(written.get(report, b""))
        tar.addfile(member, io.BytesIO(written.get(report, b"")))
    archive.seek(0)
    return read_report(archive).problem


@pytest.mark.parametrize("row", table("## No usable report"), ids=lambda row: row["report"])
def test_without_a_usable_report_there_is_a_cause_and_the_published_count(row: Mapping[str, str]) -> None:
    """A failure whatever the environment shows, without claims; what others would count is evidence."""
    result = World().judge(problem=_problem(row["report"]))

    assert (str(result.verdict), str(result.cause)) == ("failed", row["cause"])
    assert (result.claims, result.findings) == ((), ())
    for kind in ("path", "version", "capability"):
        wanted = row[f"published {kind}"]
        assert result.evidence[f"published_{kind}"] == (None if wanted == "-" else int(wanted))


def test_null_in_every_field_passes() -> None:
    """Nothing is claimed, and nothing is asked."""
    result = World(files={}).judge(**{field: json.loads(NULL) for field in CLAIMS})

    assert str(result.verdict) == "passed"
    assert {claim.outcome for claim in result.claims} == {Outcome.ABSTAINED}
