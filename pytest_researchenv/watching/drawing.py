"""How a run stands, drawn for terminals of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.recording.entry import Outcome
from pytest_researchenv.watching.events import duration
from pytest_researchenv.watching.processes import Life
from pytest_researchenv.watching.watched import Picture, Row, SessionLine


__all__ = ["drawn"]

#: From so many columns on, a worker's row has a bar, or is one line at all.
_WIDE, _ONE_LINE = 110, 72
_BAR = 12

#: Lines of output below the table, at least, and where there is no height to keep to.
_FEW, _USUAL = 4, 12

_STYLES = {Outcome.PASSED: "green", Outcome.FAILED: "red", Outcome.ERROR: "magenta", Outcome.SKIPPED: "yellow"}

#: Another phase than this one has a bar of another colour when its time is nearly up.
_NEARLY = 0.9

#: Characters of a name that are looked at; rows are cut to the width of their columns.
_NAME = 120


def drawn(
    picture: Picture, *, width: int, height: int | None = None, place: str = "", ascii_only: bool = False
) -> RenderableType:
    """Return a picture that fits.

    Args:
        picture: how the run stands.
        width: columns.
        height: lines; None for as many as it takes, without a word on how to close it.
        place: where the run is looked for, while there is none.
        ascii_only: whether the terminal shows no other characters.
    """
    bars = "#-" if ascii_only else "█░"
    head = list(_head(picture, width, place, bars))
    room = None if height is None else max(1, height - len(head) - 1)
    each = 1 if width >= _ONE_LINE else 2
    most = len(picture.rows) if room is None else max(1, (room - _FEW - 1) // each)
    shown = picture.rows if len(picture.rows) <= most else picture.rows[: max(1, most - 1)]
    parts: list[RenderableType] = [*head, *_table(shown, width, bars)]
    if left_out := len(picture.rows) - len(shown):
        parts.append(_line(f"and {left_out} more", "dim"))
    used = len(shown) * each + bool(left_out) + bool(shown and each == 1)
    lines = _USUAL if room is None else room - used - 1
    parts += _output(picture, width, lines, rule="-" if ascii_only else "─")
    if height is not None:
        parts += [Text("")] * (height - 1 - len(head) - used - _height_of_output(picture, lines))
        parts.append(_line(_closing(picture, width), "dim"))
    return Group(*parts)


# --- The head ---------------------------------------------------------------------------------------------


def _head(picture: Picture, width: int, place: str, bars: str) -> Iterator[Text]:
    agents = ", ".join(picture.agents)
    title = Text.assemble((f"run {printable(picture.run)}", "bold"), (f"  {printable(agents)}" if agents else ""))
    yield _fitted(title)
    if not picture.sessions:
        where = f" in {printable(place, 1000)}" if place else ""
        yield _line(f"waiting: no session has begun yet{where}", "yellow")
        return
    for session in picture.sessions:
        yield _session(session, picture.now, width)
    if picture.others:
        yield _line(f"{picture.others} other session{'s are' if picture.others > 1 else ' is'} over", "dim")
    if width >= _ONE_LINE:
        counts = _judged(picture).append(" | ").append_text(_beside(picture))
        progress = _progress(picture, width, bars)
        yield _fitted(counts)
        yield _fitted(progress.append(", ").append_text(money) if (money := _money(picture)) else progress)
        return
    yield from map(_fitted, (_judged(picture), _beside(picture), _progress(picture, width, bars)))
    if money := _money(picture):
        yield _fitted(money)


def _session(session: SessionLine, now: float, width: int) -> Text:
    since = datetime.fromtimestamp(session.began).astimezone()
    ago = f" ({duration(now - session.began)})" if session.life in {Life.AT_WORK, Life.SILENT} else ""
    begun = f"since {since:%m-%d %H:%M}{ago}, "
    where = " on another machine" if session.elsewhere else ""
    name = f"session {printable(session.id)} " if width >= _ONE_LINE else ""
    match session.life:
        case Life.AT_WORK:
            state = (f"at work{where}", "green")
        case Life.ENDED:
            status = "unknown" if session.exit_status is None else session.exit_status
            state = (f"ended, exit status {status}", "bold")
        case Life.DIED:
            state = ("died: its process is gone", "bold red")
        case Life.SILENT:
            state = (f"no sign of life for {duration(session.silent_s)}{where}", "bold yellow")
    return _fitted(Text.assemble(f"{name}{begun}", state))


def _judged(picture: Picture) -> Text:
    done = sum((picture.counts or {}).values())
    text = Text(f"{done} of {picture.tests} tests: " if picture.tests else f"{done} tests: ")
    return text.append_text(_numbers(picture, (Outcome.PASSED, Outcome.FAILED)))


def _beside(picture: Picture) -> Text:
    """Errors and skips are no part of what was judged."""
    text = _numbers(picture, (Outcome.ERROR, Outcome.SKIPPED))
    if picture.dead:
        text.append(f" | {picture.dead} worker{'' if picture.dead == 1 else 's'} died", "bold red")
    return text


def _numbers(picture: Picture, outcomes: Iterable[Outcome]) -> Text:
    counts: Mapping[Outcome, int] = picture.counts or {}
    parts = []
    for outcome in outcomes:
        number = counts.get(outcome, 0)
        word = "errors" if outcome is Outcome.ERROR and number != 1 else str(outcome)
        parts.append(Text(f"{number} {word}", _STYLES[outcome] if number else "dim"))
    return Text(", ").join(parts)


def _progress(picture: Picture, width: int, bars: str) -> Text:
    done = sum((picture.counts or {}).values())
    share = min(1.0, done / picture.tests) if picture.tests else 0.0
    text = _bar(share, max(8, min(40, width // 4)), bars, "cyan")
    text.append(f" {100 * share:.0f}%")
    if picture.remaining_s is not None:
        end = datetime.fromtimestamp(picture.now + picture.remaining_s).astimezone()
        at = f" ({end:%m-%d %H:%M})" if width >= _WIDE else ""
        text.append(f", about {duration(picture.remaining_s)} left{at}")
    elif _goes_on(picture):
        text.append(", time left not known yet" if width >= _ONE_LINE else ", time left: ?")
    return text


def _money(picture: Picture) -> Text | None:
    if picture.spent_usd is None and picture.limit_usd is None:
        return None
    of = f" of ${picture.limit_usd:.2f}" if picture.limit_usd is not None else ""
    return Text(f"${picture.spent_usd or 0.0:.2f}{of} spent", "bold")


def _closing(picture: Picture, width: int) -> str:
    if width < _ONE_LINE:
        return "q closes this view"
    return f"q or Ctrl-C closes this view{'; the run goes on' if _goes_on(picture) else ''}"


def _goes_on(picture: Picture) -> bool:
    return any(session.life in {Life.AT_WORK, Life.SILENT} for session in picture.sessions)


# --- What each worker does --------------------------------------------------------------------------------


def _table(rows: tuple[Row, ...], width: int, bars: str) -> Iterator[RenderableType]:
    if not rows:
        return
    if width < _ONE_LINE:
        for row in rows:
            yield from _two_lines(row)
        return
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    names = any(row.worker for row in rows)
    if names:
        table.add_column("worker", no_wrap=True, min_width=6)
    table.add_column("agent", no_wrap=True, ratio=3)
    table.add_column("repository", no_wrap=True, ratio=5)
    table.add_column("phase", no_wrap=True, ratio=5)
    if width >= _WIDE:
        table.add_column("", no_wrap=True, width=_BAR)
    table.add_column("elapsed", no_wrap=True, justify="right", min_width=17)
    table.add_column("tokens", no_wrap=True, justify="right", min_width=9)
    table.add_column("cost", no_wrap=True, justify="right", min_width=9)
    for row in rows:
        cells = [_name(row.worker)] if names else []
        cells += [_name(row.agent), _name(row.repository), _phase(row)]
        if width >= _WIDE:
            cells.append(_limit_bar(row, bars))
        table.add_row(*cells, _elapsed(row), _tokens(row), _cost(row))
    yield table


def _two_lines(row: Row) -> Iterator[Text]:
    worker = f"{printable(row.worker, _NAME)} " if row.worker else ""
    names = f"{printable(row.agent, _NAME)} {printable(row.repository, _NAME)}".strip() or "idle"
    yield _fitted(Text.assemble((worker, "dim"), (names, "bold")))
    cost = f" {_cost(row)}" if row.used else ""
    # In front, as phases may be long.
    yield _fitted(Text.assemble("  ", _elapsed(row), f"{cost} ", _phase(row)))


def _phase(row: Row) -> Text:
    if row.silent_s:
        return Text(f"no sign of life for {duration(row.silent_s)}", "yellow")
    return Text(printable(row.phase, _NAME * 4), "dim" if not row.agent else "")


def _elapsed(row: Row) -> Text:
    if not row.agent and not row.elapsed_s:
        return Text("-", "dim")
    limit = f" / {duration(row.limit_s)}" if row.limit_s is not None else ""
    late = row.limit_s is not None and row.elapsed_s > _NEARLY * row.limit_s
    return Text(f"{duration(row.elapsed_s)}{limit}", "red" if late else "")


def _limit_bar(row: Row, bars: str) -> Text:
    if not row.limit_s:
        return Text("")
    share = min(1.0, max(0.0, row.elapsed_s / row.limit_s))
    return _bar(share, _BAR, bars, "red" if share > _NEARLY else "cyan")


def _tokens(row: Row) -> Text:
    return Text(f"{row.used.tokens:,.0f}") if row.used else Text("-", "dim")


def _cost(row: Row) -> Text:
    return Text(f"${row.used.cost_usd:.4f}") if row.used else Text("-", "dim")


# --- What was printed last --------------------------------------------------------------------------------


def _output(picture: Picture, width: int, most: int, *, rule: str) -> Iterator[Text]:
    if not picture.output or most < 1:
        return
    whose, output = picture.output
    ago = duration(picture.now - output.at)
    title = f"{rule * 2} {printable(whose, _NAME)}: {printable(output.path.name, _NAME)}, {ago} ago "
    yield _fitted(Text(title + rule * max(0, width - len(title)), "bold"))
    for line in _last(picture, most):
        yield _line(line)


def _last(picture: Picture, most: int) -> tuple[str, ...]:
    return picture.lines[-(most - 1) :] if most > 1 else ()


def _height_of_output(picture: Picture, most: int) -> int:
    return 1 + len(_last(picture, most)) if picture.output and most >= 1 else 0


# --- Pieces -----------------------------------------------------------------------------------------------


def _bar(share: float, columns: int, bars: str, style: str) -> Text:
    full = round(share * columns)
    return Text.assemble((bars[0] * full, style), (bars[1] * (columns - full), "dim"))


def _name(text: str) -> Text:
    return Text(printable(text, _NAME))


def _line(text: str, style: str = "") -> Text:
    return _fitted(Text(text, style))


def _fitted(text: Text) -> Text:
    """Have a text take one line, however long it is."""
    text.no_wrap = True
    text.overflow = "ellipsis"
    return text
