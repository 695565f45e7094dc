"""An agent's badge: its success in each tier, small enough for the head of a README."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_researchenv.model import Tier
from pytest_researchenv.report.html.drawing import Drawing
from pytest_researchenv.report.html.plots import svg_file
from pytest_researchenv.report.html.view import RunPage
from pytest_researchenv.statistics.rates import Rate


__all__ = ["badge", "write_badges"]

#: Folder of a report for badges.
_BADGES = "badges"

_HEIGHT, _BASE = 20.0, 14.0

#: A letter's width, and the room beside words.
_LETTER, _ROOM = 6.4, 7.0

_STYLE = """\
text { fill: #fff; font: 11px Verdana, "DejaVu Sans", sans-serif; text-anchor: middle }
.name { fill: #3d434c } .none { fill: #6b7280 } .all { fill: #157a5f } .some { fill: #8a6100 } .no { fill: #b8430a }
"""


def badge(agent: str, rates: Mapping[Tier, Rate]) -> Drawing:
    """Draw an agent's name, and for each tier what passed of what was judged; * marks what was emulated.

    Args:
        agent: its name.
        rates: success in each tier.
    """
    parts = [(agent, "name"), *((_said(tier, rate), _kind(rate)) for tier, rate in rates.items())]
    drawing = Drawing(0, _HEIGHT, ", ".join(said for said, _ in parts))
    for said, kind in parts:
        width = len(said) * _LETTER + 2 * _ROOM
        drawing.rect(drawing.width, 0, width, _HEIGHT, kind)
        drawing.text(drawing.width + width / 2, _BASE, said)
        drawing.width += width
    return drawing


def write_badges(page: RunPage, folder: Path) -> tuple[Path, ...]:
    """Write each agent's badge into a report's folder; returns the files."""
    (folder / _BADGES).mkdir()
    written = []
    for agent, drawing in page.badges:
        path = folder / _BADGES / f"{agent.replace('/', '-')}.svg"
        path.write_text(svg_file(drawing, drawing.words, _STYLE), "utf-8")
        written.append(path)
    return tuple(written)


def _said(tier: Tier, rate: Rate) -> str:
    if not rate.judged:
        return f"{tier} –"  # noqa: RUF001 - a dash
    return f"{tier} {rate.passed}/{rate.judged}{'*' if rate.emulated else ''}"


def _kind(rate: Rate) -> str:
    if not rate.judged:
        return "none"
    return "all" if rate.passed == rate.judged else "some" if rate.passed else "no"
