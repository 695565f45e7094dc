"""The patterns of rules: plain text in which a star stands for anything.

Parts are looked for one behind the other within a line, so that there is nothing to go back to: the time that a match
takes is linear in the line's length, whatever an environment printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


__all__ = ["Text"]


@dataclass(frozen=True, slots=True)
class Text:
    """One pattern.

    Attributes:
        parts: what must stand in the line, in this order.
        from_start: whether the line must begin with the first (`^` in front).
        to_end: whether the line must end with the last (`$` behind).
        longest: the longest part; without it, no line fits.
    """

    parts: tuple[str, ...]
    from_start: bool
    to_end: bool
    longest: str

    @classmethod
    def of(cls, pattern: str) -> Self:
        """Read a pattern.

        Raises:
            ValueError: it would fit every line.
        """
        from_start, to_end = pattern.startswith("^"), pattern.endswith("$")
        parts = tuple(part for part in pattern.removeprefix("^").removesuffix("$").split("*") if part)
        if not any(part.strip() for part in parts):
            raise ValueError(f"{pattern!r} fits every line: say what must stand in it")
        return cls(parts, from_start, to_end, max(parts, key=len))

    def fits(self, line: str) -> bool:
        """Whether a line says this."""
        line = line.strip()
        end = len(line)
        parts = self.parts
        if self.to_end:
            if not line.endswith(parts[-1]):
                return False
            if len(parts) == 1 and self.from_start:
                return line == parts[0]
            end, parts = end - len(parts[-1]), parts[:-1]
        at = 0
        for number, part in enumerate(parts):
            found = line.find(part, at, end)
            if found < 0 or (self.from_start and number == 0 and found != 0):
                return False
            at = found + len(part)
        return True
