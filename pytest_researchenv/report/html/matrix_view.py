"""What the matrix of a run's page shows: repositories by agents and tiers; values only, wherever they come from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


__all__ = ["AttemptCell", "Cell", "Matrix", "MatrixRow", "State"]


class State(StrEnum):
    """What a cell of the matrix looks like."""

    PASSED = "passed"
    MIXED = "mixed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    NONE = "none"

    @property
    def symbol(self) -> str:
        """What tells it without colour."""
        return _SYMBOLS[self]

    @property
    def words(self) -> str:
        """What it means."""
        return _WORDS[self]


_SYMBOLS = {
    State.PASSED: "✓",
    State.MIXED: "◐",
    State.FAILED: "✗",
    State.ERROR: "!",
    State.SKIPPED: "–",  # noqa: RUF001 - a dash, and no minus
    State.NONE: "·",
}

_WORDS = {
    State.PASSED: "passed",
    State.MIXED: "passed in some attempts",
    State.FAILED: "failed",
    State.ERROR: "error of the infrastructure",
    State.SKIPPED: "skipped",
    State.NONE: "not judged",
}


@dataclass(frozen=True, slots=True)
class AttemptCell:
    """What one attempt came to in one tier.

    Attributes:
        attempt: its number.
        verdict: the verdict's word.
        cause: why it did not pass, in a word; empty when it did.
        words: the line that decided, or the reason.
        duration_s: the probe's wall time.
        page: address of the environment's page with the tier's anchor; empty where there is none.
        emulated: whether the CPU stood in for devices.
        counted: whether it enters the figures; what another attempt has superseded does not.
    """

    attempt: int
    verdict: str
    cause: str
    words: str
    duration_s: float
    page: str
    emulated: bool = False
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """What an agent's attempts at a repository came to in one tier.

    Attributes:
        attempts: oldest first; none where nobody judged.
        idle: why nothing was judged, where that is known.
    """

    attempts: tuple[AttemptCell, ...] = ()
    idle: str = ""

    @property
    def counted(self) -> tuple[AttemptCell, ...]:
        """The attempts that the cell tells of: those that count, else all."""
        return tuple(one for one in self.attempts if one.counted) or self.attempts

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(one.verdict == State.PASSED for one in self.counted)

    @property
    def judged(self) -> int:
        """How many passed or failed."""
        return sum(one.verdict in {State.PASSED, State.FAILED} for one in self.counted)

    @property
    def emulated(self) -> bool:
        """Whether the CPU stood in for devices."""
        return any(one.emulated for one in self.counted)

    @property
    def state(self) -> State:
        """What it looks like."""
        if self.judged:
            return {0: State.FAILED, self.judged: State.PASSED}.get(self.passed, State.MIXED)
        if self.counted:
            return State.ERROR if any(one.verdict == State.ERROR for one in self.counted) else State.SKIPPED
        return State.SKIPPED if self.idle else State.NONE

    @property
    def text(self) -> str:
        """What stands in it: a symbol, or of several attempts how many passed of how many."""
        mark = "*" if self.emulated and self.judged else ""
        several = self.judged and len(self.counted) > 1
        return f"{self.passed}/{self.judged}{mark}" if several else f"{self.state.symbol}{mark}"

    @property
    def words(self) -> str:
        """What it says, for those who do not see it."""
        emulated = ", emulated" if self.emulated and self.judged else ""
        if self.judged and len(self.counted) > 1:
            return f"{self.text} attempts passed{emulated}"
        return f"{self.idle or self.state.words}{emulated}"

    @property
    def page(self) -> str:
        """Address of the newest attempt's page."""
        return next((one.page for one in reversed(self.counted) if one.page), "")


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One repository.

    Attributes:
        repository: its key.
        name: what is shown.
        domain: its research area.
        cells: for each agent, for each tier.
    """

    repository: str
    name: str
    domain: str
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Repositories by agents and tiers."""

    rows: tuple[MatrixRow, ...]

    @property
    def domains(self) -> tuple[str, ...]:
        """All research areas, sorted."""
        return tuple(sorted({row.domain for row in self.rows if row.domain}))

    @property
    def emulated(self) -> bool:
        """Whether the CPU stood in for devices anywhere."""
        return any(cell.emulated for row in self.rows for cells in row.cells for cell in cells)

    @property
    def several(self) -> bool:
        """Whether any cell tells of several attempts."""
        return any(len(cell.counted) > 1 for row in self.rows for cells in row.cells for cell in cells)

    @property
    def causes(self) -> tuple[str, ...]:
        """All causes, the most frequent first."""
        count: dict[str, int] = {}
        for row in self.rows:
            for cell in (cell for cells in row.cells for cell in cells):
                for one in cell.attempts:
                    if one.cause:
                        count[one.cause] = count.get(one.cause, 0) + 1
        return tuple(sorted(count, key=lambda cause: (-count[cause], cause)))
