"""From what a page shows to HTML in which nobody's words can do anything.

Three walls stand behind one another. Jinja escapes every value. Of the whole page, every character that is not seen is
written out. And the page's policy allows no script and no style but our own, by their digests, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from pytest_researchenv.model import Outcome
from pytest_researchenv.report.html.environment_view import EnvironmentPage
from pytest_researchenv.report.html.matrix_view import AttemptCell, Matrix, State
from pytest_researchenv.report.html.text import cut, visible
from pytest_researchenv.report.html.view import RunPage


if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["render_environment", "render_run"]

#: How much of what decided is shown where a cell of the matrix is opened; its page has more.
_WORDS = 240

#: Stands for the style sheet.
_STYLE = "/* style sheet */"

#: What became of a claim → how it is coloured.
_OUTCOMES = {
    str(Outcome.HOLDS): State.PASSED,
    str(Outcome.FALSE): State.FAILED,
    str(Outcome.UNDER_CLAIM): State.MIXED,
    str(Outcome.INCONCLUSIVE): State.SKIPPED,
    str(Outcome.ABSTAINED): State.SKIPPED,
}

_SYMBOLS = {"": State.NONE.symbol, **{str(state): state.symbol for state in State}}


def render_run(page: RunPage) -> str:
    """Return the page of a run."""
    matrix = page.matrix
    return _page(
        "run.html",
        page=page,
        policy=_policy(_css(), _script() if matrix else ""),
        script=Markup(_script()),  # noqa: S704 - our own file
        data=_data(page, matrix) if matrix else "",
        states=list(State),
        version=page.version,
    )


def render_environment(page: EnvironmentPage) -> str:
    """Return the page of an environment; no script is in it."""
    return _page(
        "environment.html",
        page=page,
        policy=_policy(_css()),
        symbols=_SYMBOLS,
        outcomes=_OUTCOMES,
    )


def _page(name: str, **values: object) -> str:
    """Render a page; the style sheet, which stands before anybody's words, is put in when they are written out.

    It is half of a usual page, and there are as many pages as environments.
    """
    return visible(_template(name).render(css=_STYLE, **values)).replace(_STYLE, _css(), 1)


@cache
def _template(name: str) -> Template:
    # Only who makes pages pays for it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - see above

    loader = PackageLoader(__package__, "templates")
    found = Environment(autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return found.get_template(name)


def _policy(*allowed: str) -> str:
    """A policy that forbids everything but a style sheet, and a script where there is one, by their digests."""
    style, *scripts = map(_digest, filter(None, allowed))
    script = f"script-src {scripts[0]}; " if scripts else ""
    return f"default-src 'none'; {script}style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _css() -> str:
    return _file("page.css")


@cache
def _script() -> str:
    return _file("run.js")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text("utf-8")


# --- what the script of the matrix reads ------------------------------------------------------------------


def _data(page: RunPage, matrix: Matrix) -> Markup:
    """The attempts behind each cell as JSON: numbers stand for words that come again and again."""
    verdicts, causes = [str(state) for state in State], list(matrix.causes)
    number = {cause: place for place, cause in enumerate(causes)}

    def attempt(one: AttemptCell, places: dict[int, int]) -> list[object]:
        return [
            places[one.attempt],
            verdicts.index(one.verdict),
            number.get(one.cause, -1),
            cut(one.words, _WORDS),
            round(one.duration_s, 1),
            int(one.counted),
        ]

    rows = []
    for row in matrix.rows:
        of_row = []
        for cells in row.cells:
            pages = {one.attempt: one.page.partition("#")[0] for cell in cells for one in cell.attempts}
            places = {attempt: place for place, attempt in enumerate(pages)}
            of_row.append(
                {
                    "p": list(pages.items()),
                    "t": [[attempt(one, places) for one in cell.attempts] for cell in cells],
                }
            )
        rows.append(of_row)
    document = {
        "agents": page.agents,
        "tiers": [(tier.name, tier.title) for tier in page.tiers],
        "verdicts": verdicts,
        "causes": causes,
        "rows": rows,
    }
    text = json.dumps(_visible(document), ensure_ascii=False, separators=(",", ":"))
    # Within a script element only these could end it, or begin another.
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - see above


def _visible(value: object) -> object:
    """Write out what is not seen before JSON escapes it, since the script would get it back."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {name: _visible(content) for name, content in value.items()}
    return [_visible(content) for content in value] if isinstance(value, list | tuple) else value
