"""Drawings as SVG: a few marks, coloured by classes that a page's or a file's style sheet gives a colour.

There are no style attributes, so that a page's policy can forbid them, and no scripts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from markupsafe import Markup

from pytest_researchenv.report.html.text import cut, visible


__all__ = ["Drawing"]

#: Mean width of a letter as a share of its size: enough to tell what fits.
_LETTER = 0.56


@final
@dataclass(slots=True)
class Drawing:
    """A canvas.

    Attributes:
        width: in units of which a usual letter is 13 high.
        height: likewise.
        words: what it shows, for those who do not see it.
    """

    width: float
    height: float
    words: str = ""
    _marks: list[Markup] = field(default_factory=list)

    @property
    def marks(self) -> Markup:
        """All marks, without the element around them."""
        return Markup("").join(self._marks)

    @property
    def svg(self) -> Markup:
        """An element to be put into a page, which takes the width that there is."""
        hidden = Markup('aria-hidden="true"')
        named = Markup('role="img" aria-label="{}"').format(visible(self.words)) if self.words else hidden
        return Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="xMinYMid" {}>{}</svg>').format(
            _number(self.width), _number(self.height), named, self.marks
        )

    def rect(self, x: float, y: float, width: float, height: float, kind: str, *, title: str = "") -> None:
        """Fill a rectangle."""
        self._marks.append(
            Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}">{}</rect>').format(
                *map(_number, (x, y, max(0, width), max(0, height))), kind, _title(title)
            )
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a straight line."""
        self._marks.append(
            Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(*map(_number, (x1, y1, x2, y2)), kind)
        )

    def dot(self, x: float, y: float, radius: float, kind: str, *, title: str = "") -> None:
        """Draw a filled circle."""
        self._marks.append(
            Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>').format(
                *map(_number, (x, y, radius)), kind, _title(title)
            )
        )

    def dots(self, places: list[tuple[float, float]], kind: str) -> None:
        """Draw many equal dots as one mark; the class gives their size as the width of a stroke with round ends."""
        if places:
            path = "".join(f"M{_number(x)} {_number(y)}h0" for x, y in places)
            self._marks.append(Markup('<path d="{}" class="{}"/>').format(path, kind))

    def text(self, x: float, y: float, text: str, kind: str = "t", *, room: float = 0, size: float = 13) -> None:
        """Write on the line at y.

        Args:
            x: where it begins, or ends, or its middle, as the class says.
            y: the base line.
            text: anybody's words.
            kind: class.
            room: how wide it may get; 0 for no limit.
            size: height of its letters, as the class has it.
        """
        shown = visible(text)
        fitting = cut(shown, max(2, int(room / size / _LETTER))) if room else shown
        self._marks.append(
            Markup('<text x="{}" y="{}" class="{}">{}{}</text>').format(
                _number(x), _number(y), kind, fitting, _title(shown if fitting != shown else "")
            )
        )

    def put(self, other: Drawing, x: float, y: float) -> None:
        """Put another drawing on this one."""
        self._marks.append(Markup('<g transform="translate({} {})">{}</g>').format(_number(x), _number(y), other.marks))


def _title(text: str) -> Markup:
    return Markup("<title>{}</title>").format(visible(text)) if text else Markup("")


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
