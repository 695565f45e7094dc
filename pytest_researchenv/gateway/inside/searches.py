"""Searches that take a date: limits them to what was public by a day. Pure.

Known are the interfaces below, and no others: what a search page shows that takes no date is not limited.
Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode


__all__ = ["SEARCHES", "limited"]

Parameters = list[tuple[str, str]]


def _arxiv(given: Parameters, day: str) -> Parameters:
    """Every query is taken together with a range of days: what stands in it can only make it narrower."""
    until = f"submittedDate:[190001010000 TO {day.replace('-', '')}2359]"
    return [(key, f"({value}) AND {until}" if key == "search_query" else value) for key, value in given]


def _openalex(given: Parameters, day: str) -> Parameters:
    """Filters with a comma between them all hold."""
    return _joined(given, "filter", f"to_publication_date:{day}", keep=lambda _: True)


def _crossref(given: Parameters, day: str) -> Parameters:
    """Of filters of the same name any may hold: the client's own are taken out."""
    return _joined(given, "filter", f"until-pub-date:{day}", keep=lambda one: not one.startswith("until-pub-date:"))


def _github(given: Parameters, day: str) -> Parameters:
    """The client's own limits are taken out: what several of one name mean is not said anywhere."""
    own = re.compile(r"\b(created|pushed):\S+", re.IGNORECASE)
    rest = [(key, own.sub("", value).strip() if key == "q" else value) for key, value in given]
    return [(key, f"{value} created:<={day}" if key == "q" else value) for key, value in rest]


def _semantic_scholar(given: Parameters, day: str) -> Parameters:
    """One range, of which the beginning may be the client's."""
    own = next((value for key, value in given if key == "publicationDateOrYear"), "")
    begin = own.partition(":")[0].strip() if ":" in own else ""
    rest = [(key, value) for key, value in given if key not in {"publicationDateOrYear", "year"}]
    return [*rest, ("publicationDateOrYear", f"{begin}:{day}")]


def _europe_pmc(given: Parameters, day: str) -> Parameters:
    until = f"FIRST_PDATE:[1900-01-01 TO {day}]"
    return [(key, f"({value}) AND {until}" if key == "query" else value) for key, value in given]


#: Host (and all below it), beginning of the path → how a search there is limited.
SEARCHES: tuple[tuple[str, str, Callable[[Parameters, str], Parameters]], ...] = (
    ("arxiv.org", "/api/query", _arxiv),
    ("api.openalex.org", "/works", _openalex),
    ("api.crossref.org", "/works", _crossref),
    ("api.github.com", "/search/repositories", _github),
    ("api.semanticscholar.org", "/graph/v1/paper/search", _semantic_scholar),
    ("ebi.ac.uk", "/europepmc/webservices/rest/search", _europe_pmc),
)

_KEYS: dict[Callable[[Parameters, str], Parameters], str] = {_arxiv: "search_query", _github: "q", _europe_pmc: "query"}


def limited(host: str, target: str, day: str) -> str:
    """Return the path and query of a search that is limited to what was public by a day; as it is for all others.

    Args:
        host: the host that is asked.
        target: path and query.
        day: as `2024-12-31`; empty for no limit.
    """
    path, _, query = target.partition("?")
    name = host.lower().rstrip(".")
    clear = re.sub(r"/{2,}", "/", path).rstrip("/")
    for known, beginning, limit in SEARCHES:
        if day and (name == known or name.endswith(f".{known}")) and _below(clear, beginning):
            given = parse_qsl(query, keep_blank_values=True)
            key = _KEYS.get(limit)
            if key and not any(name == key for name, _ in given):
                return target
            return f"{path}?{urlencode(limit(given, day))}"
    return target


def _below(path: str, beginning: str) -> bool:
    return path.lower() == beginning or path.lower().startswith(f"{beginning}/")


def _joined(given: Parameters, name: str, more: str, *, keep: Callable[[str], bool]) -> Parameters:
    own = [one for key, value in given if key == name for one in value.split(",") if one and keep(one.strip())]
    return [*((key, value) for key, value in given if key != name), (name, ",".join([*own, more]))]
