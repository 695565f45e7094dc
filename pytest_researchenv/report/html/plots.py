"""The figures of a page as files for a paper: SVG always, PNG where `pytest-researchenv[plots]` is installed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from pytest_researchenv.report.html.drawing import Drawing
from pytest_researchenv.report.html.text import visible
from pytest_researchenv.report.html.view import Figure, RunPage


__all__ = ["PLOTS", "figure_svg", "svg_file", "write_plots"]

#: Folder of a report for the files of figures.
PLOTS = "plots"

#: How many panels stand side by side on paper.
_ACROSS = 3

_GAP, _HEADING = 24.0, 26.0

#: PNG: how many pixels a unit is wide; a sheet is about 1100 units wide.
_ZOOM = 2.0

#: The colours of the page in print.
_STYLE = """\
text { fill: #1d2127; font: 13px Inter, "DejaVu Sans", Arial, sans-serif }
.title { font-weight: 600; font-size: 14px } .s { font-size: 11px }
.end { text-anchor: end } .mid { text-anchor: middle } .faint { fill: #565e6a }
.rule { stroke: #dad7d0; stroke-width: 1 } .accent { fill: #2a5db0 }
.whisker { stroke: #2a5db0; stroke-width: 4; stroke-opacity: .38; stroke-linecap: round }
.whisker.thin { stroke: #1d2127; stroke-width: 1.5; stroke-opacity: .7 }
.points { stroke: #2a5db0; stroke-width: 5; stroke-linecap: round; stroke-opacity: .3; fill: none }
.box { fill: #2a5db0; fill-opacity: .22; stroke: #2a5db0 } .median { stroke: #1d2127; stroke-width: 2.5 }
.held { fill: #157a5f } .false { fill: #b8430a } .under { fill: #6bb8a0 } .doubt { fill: #b9b6ae }
.unknown { fill: #dcd9d2 } text.on-held, text.on-false { fill: #fff }
text.on-under, text.on-doubt, text.on-unknown { fill: #1d2127 }
"""


def figure_svg(figure: Figure) -> str:
    """Return a figure as a file of its own, all panels on one white sheet."""
    across = min(_ACROSS, len(figure.panels))
    drawings = [drawing for _, drawing in figure.panels]
    width, height = max(one.width for one in drawings), max(one.height for one in drawings)
    down = math.ceil(len(drawings) / across)
    legend = 26.0 if figure.legend else 0.0
    sheet = Drawing(across * (width + _GAP) + _GAP, down * (height + _HEADING + _GAP) + _GAP + legend)
    for place, (title, drawing) in enumerate(figure.panels):
        x = _GAP + (place % across) * (width + _GAP)
        y = _GAP + (place // across) * (height + _HEADING + _GAP)
        if title:
            sheet.text(x, y + 12, title, "title", room=width)
        sheet.put(drawing, x, y + _HEADING)
    x = _GAP
    for kind, meaning in figure.legend.items():
        sheet.rect(x, sheet.height - 26, 12, 12, kind)
        sheet.text(x + 18, sheet.height - 15, meaning, "s")
        x += 40 + 6.2 * len(meaning)
    sheet.width = max(sheet.width, x)
    return svg_file(sheet, figure.title, _STYLE, ground="#fff")


def svg_file(drawing: Drawing, title: str, style: str, *, ground: str = "none") -> str:
    """Return a drawing as a file of its own.

    Args:
        drawing: it.
        title: what it shows; anybody's words.
        style: its style sheet; ours.
        ground: colour of the sheet.
    """
    return visible(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
            '<title>{title}</title><style>{style}</style><rect width="100%" height="100%" fill="{ground}"/>'
            "{marks}</svg>\n"
        ).format(
            w=f"{drawing.width:.0f}",
            h=f"{drawing.height:.0f}",
            title=title,
            style=Markup(style),  # noqa: S704 - our own words
            ground=ground,
            marks=drawing.marks,
        )
    )


def write_plots(page: RunPage, folder: Path) -> tuple[Path, ...]:
    """Write each figure of a page into a report's folder; returns the files."""
    return tuple(_written(page, folder / PLOTS))


def _written(page: RunPage, folder: Path) -> Iterator[Path]:
    for figure in (figure for section in page.sections for figure in section.figures):
        folder.mkdir(exist_ok=True)
        svg = figure_svg(figure)
        path = folder / f"{figure.name}.svg"
        path.write_text(svg, "utf-8")
        yield path
        if (png := _png(svg)) is not None:
            path = path.with_suffix(".png")
            path.write_bytes(png)
            yield path


def _png(svg: str) -> bytes | None:
    """Return an image; None where what draws it is not installed."""
    try:
        import resvg_py  # noqa: PLC0415 - an extra, and for this alone
    except ImportError:
        return None
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM, background="#ffffff"))
