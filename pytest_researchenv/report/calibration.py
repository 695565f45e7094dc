"""How well an agent knows what it built: of what it claimed, how much held; of what it doubted, how much would have.

`docs/c5.md` defines the words. Plain values and text: the terminal summary imports this, so nothing heavy is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import TYPE_CHECKING

from pytest_researchenv.model import Cause, Claim, FindingKind, Outcome, TierResult, Verdict


if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Calibration", "Tally", "calibration_line", "calibration_table", "claim_facts", "tally_of", "wilson"]

#: Narrow, so that a usual terminal has room for all of them.
_HEADINGS = (
    "claim-\ned",
    "held",
    "false",
    "share",
    "95 %",
    "doubt-\ned",
    "would\nhold",
    "under-\nclaim",
    "incon-\nclu-\nsive",
    "null",
)

#: What says that something is not there, as JSON.
_DENIALS = frozenset({"false", "0"})


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of some claims.

    Attributes:
        held: claims that something is there, and it is; those of a smaller number than there is among them.
        false: claims that something is there, and it is not.
        doubted: fields that are null, false or 0, where it was seen whether it is there.
        would_hold: of these, how many are there.
        inconclusive: claims that could not be checked.
        under_claims: claims of less than there is; each is among the held or the doubted, too.
        abstained: fields that are null, seen or not.
    """

    held: int = 0
    false: int = 0
    doubted: int = 0
    would_hold: int = 0
    inconclusive: int = 0
    under_claims: int = 0
    abstained: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, _numbers(self), _numbers(other)))

    @property
    def claimed(self) -> int:
        """Claims that something is there, and that could be checked."""
        return self.held + self.false

    @property
    def precision(self) -> float | None:
        """Share of what was claimed that held; None where nothing was."""
        return self.held / self.claimed if self.claimed else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """What the share may be by chance; None where nothing was claimed."""
        return wilson(self.held, self.claimed)

    @property
    def text(self) -> str:
        """In one line."""
        return (
            f"claimed {self.claimed}: {self.held} hold, {self.false} false; doubted {self.doubted}: "
            f"{self.would_hold} would have held; {self.inconclusive} inconclusive"
        )

    @classmethod
    def of_facts(cls, facts: Mapping[str, str]) -> Tally:
        """From what `claim_facts` gave."""
        return cls(*(int(facts.get(f"claims_{one.name}", 0)) for one in fields(cls)))

    @classmethod
    def of(cls, claim: Claim) -> Tally:
        """Of one claim."""
        denied = claim.claimed in _DENIALS
        match claim.outcome:
            case Outcome.FALSE:
                return cls(false=1)
            case Outcome.INCONCLUSIVE:
                return cls(inconclusive=1)
            case Outcome.ABSTAINED:
                seen = claim.would_hold is not None
                return cls(doubted=int(seen), would_hold=int(bool(claim.would_hold)), abstained=1)
            case Outcome.UNDER_CLAIM:
                return cls(doubted=1, would_hold=1, under_claims=1) if denied else cls(held=1, under_claims=1)
            case Outcome.HOLDS:
                return cls(doubted=1) if denied else cls(held=1)


_numbers = attrgetter(*(one.name for one in fields(Tally)))


def tally_of(claims: Iterable[Claim]) -> Tally:
    """Add up claims."""
    return sum(map(Tally.of, claims), Tally())


def claim_facts(result: TierResult) -> dict[str, object]:
    """What a test's report carries of what became of the claims: name → number; nothing where they do not count."""
    if _apart(result):
        return {}
    tally = tally_of(result.claims)
    return {f"claims_{one.name}": getattr(tally, one.name) for one in fields(Tally)}


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """Wilson's score interval of a share; None without trials.

    With p the share, n the trials and z the normal quantile, its ends are
    `(p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)`: E. B. Wilson, Probable inference, the law of succession, and
    statistical inference, J. Am. Stat. Assoc. 22 (1927) 209-212. It holds for few trials and for shares near 0 and 1,
    where the usual ± does not.

    Args:
        successes: how many trials succeeded.
        trials: how many there were.
        confidence: in how many of 1 cases the interval holds the true share.
    """
    if not trials:
        return None
    # Only who asks pays for it.
    from statistics import NormalDist  # noqa: PLC0415

    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    middle = share + weight / 2
    reach = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    # Exactly 0 and 1 at the ends, whatever rounding makes of them.
    low = 0.0 if successes == 0 else (middle - reach) / (1 + weight)
    high = 1.0 if successes == trials else (middle + reach) / (1 + weight)
    return low, high


# --- one agent --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Calibration:
    """What became of one agent's claims.

    Attributes:
        agent: its name.
        claims: those of all reports that could be judged.
        reports: how many reports that is.
        emulated: of these, how many were judged with the CPU in the place of devices.
        unreported: attempts without a usable report.
        tampered: reports about environments of which nothing can be believed; their claims do not count.
        errors: attempts whose C5 ended in an error.
        skipped: attempts whose C5 was skipped.
        unjudged: attempts without C5.
    """

    agent: str
    claims: tuple[Claim, ...] = ()
    reports: int = 0
    emulated: int = 0
    unreported: int = 0
    tampered: int = 0
    errors: int = 0
    skipped: int = 0
    unjudged: int = 0

    @classmethod
    def of(cls, agent: str, results: Iterable[TierResult | None]) -> Calibration:
        """Of the newest C5 of each attempt; None for an attempt without one."""
        found: list[TierResult] = []
        apart = dict.fromkeys(("unreported", "tampered", "errors", "skipped", "unjudged"), 0)
        for result in results:
            if name := _apart(result):
                apart[name] += 1
            elif result is not None:
                found.append(result)
        claims = tuple(claim for result in found for claim in result.claims)
        return cls(agent, claims, len(found), sum(result.emulated for result in found), **apart)

    @property
    def tally(self) -> Tally:
        """Of all claims."""
        return tally_of(self.claims)

    def rows(self) -> dict[str, Tally]:
        """All claims, then each category, then each field of it."""
        found = {"all": self.tally}
        for kind in FindingKind:
            of_kind = [claim for claim in self.claims if claim.category is kind]
            found[str(kind)] = tally_of(of_kind)
            for name in dict.fromkeys(claim.field for claim in of_kind):
                found[name] = tally_of(claim for claim in of_kind if claim.field == name)
        return found

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is no claim, and was counted apart."""
        counted = {
            "without a usable report": self.unreported,
            "of a tampered environment": self.tampered,
            "ended in an error": self.errors,
            "skipped": self.skipped,
            "not judged": self.unjudged,
        }
        emulated = (f"{self.emulated} of {self.reports} reports judged on the CPU, which says nothing about CUDA",)
        return (emulated if self.emulated else ()) + tuple(f"{count} {why}" for why, count in counted.items() if count)

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        names = ("agent", "reports", "emulated", "unreported", "tampered", "errors", "skipped", "unjudged")
        return {
            **{name: getattr(self, name) for name in names},
            "claims": {name: _document(tally) for name, tally in self.rows().items()},
        }


def _apart(result: TierResult | None) -> str:
    """Why a result's claims do not count, as an attribute of a calibration; empty when they do."""
    if result is None:
        return "unjudged"
    if result.verdict is Verdict.ERROR:
        return "errors"
    if result.verdict is Verdict.SKIPPED:
        return "skipped"
    if result.cause is Cause.TAMPERED:
        return "tampered"
    return "" if result.claims else "unreported"


def _document(tally: Tally) -> dict[str, object]:
    counts = {one.name: getattr(tally, one.name) for one in fields(Tally)}
    interval = tally.interval
    return {
        "claimed": tally.claimed,
        **counts,
        "precision": tally.precision,
        "interval": None if interval is None else list(interval),
    }


# --- text -------------------------------------------------------------------------------------------------


def calibration_line(agent: str, reports: Sequence[Mapping[str, str]]) -> str:
    """Return a line about an agent's claims, from the properties of its tests of C5; empty where it made none."""
    judged = [facts for facts in reports if "claims_held" in facts]
    if not judged:
        return ""
    total = sum((Tally.of_facts(facts) for facts in judged), Tally())
    emulated = sum(facts.get("emulated") == "true" for facts in judged)
    mark = f" ({emulated} of {len(judged)} reports emulated)" if emulated else ""
    return f"{agent}: {total.text}{mark}"


def calibration_table(calibration: Calibration) -> Table:
    """Return an agent's claims as a table."""
    from rich import box  # noqa: PLC0415 - the terminal summary needs no table of this
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        title=calibration.agent,
        title_justify="left",
        caption="; ".join(calibration.remarks) or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
    )
    table.add_column("claims", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    kinds = {"all", *FindingKind}
    for name, tally in calibration.rows().items():
        counts = (tally.doubted, tally.would_hold, tally.under_claims, tally.inconclusive, tally.abstained)
        table.add_row(
            name if name in kinds else f" {name}",
            *map(str, (tally.claimed, tally.held, tally.false)),
            *_share(tally),
            *map(str, counts),
            style="bold" if name == "all" else None,
        )
    return table


def _share(tally: Tally) -> tuple[str, str]:
    interval = tally.interval
    if interval is None:
        return "-", "-"
    low, high = interval
    return f"{tally.held / tally.claimed:.0%}", f"{100 * low:.0f}-{100 * high:.0f}"
