"""How a run was made: which sessions of pytest worked at it, when, where, and by which commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from pytest_researchenv.manifest import Manifest
from pytest_researchenv.report.html.view import Section
from pytest_researchenv.report.html.words import duration, plural, size
from pytest_researchenv.report.tables import Table, Value, text_column
from pytest_researchenv.runs.values import Run


__all__ = ["made"]

#: Exit code of pytest → what it says.
_ENDED = {
    0: "all passed",
    1: "some failed",
    2: "interrupted",
    3: "internal error of pytest",
    4: "wrong usage",
    5: "no test selected",
}


def made(runs: Sequence[Run]) -> Section | None:
    """Return the part about sessions; None where no run has a record of any."""
    manifests = tuple(manifest for run in runs for manifest in run.manifests)
    if not manifests:
        return None
    return Section(
        "made",
        "How it was made",
        tables=(_sessions(manifests),),
        folded=tuple(
            (table.title, (table,)) for table in (_commands(manifests), _code(manifests), _versions(manifests))
        ),
    )


def _table(
    key: str, title: str, *headings: str, rows: Iterator[tuple[Value, ...]], notes: tuple[str, ...] = ()
) -> Table:
    return Table(key, title, tuple(text_column(one, one) for one in headings), tuple(rows), notes)


def _sessions(manifests: Sequence[Manifest]) -> Table:
    def row(manifest: Manifest) -> tuple[Value, ...]:
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in manifest.outcomes.items())
        accelerators = dict.fromkeys(_accelerator(manifest))
        host = manifest.host
        machine = f"{host.system}, {plural(host.cpus, 'CPU')}, {size(host.memory_bytes)}"
        tests = f"{manifest.tests}: {outcomes}" if outcomes else "-"
        return (manifest.session, *_time(manifest), tests, machine, "; ".join(accelerators) or "-")

    headings = ("session", "took", "ended", "tests", "machine", "accelerators")
    notes = ("A session without an end goes on, or was killed; what it had finished by then counts all the same.",)
    cut_short = any(not manifest.ended for manifest in manifests)
    return _table("sessions", "Sessions", *headings, rows=map(row, manifests), notes=notes if cut_short else ())


def _time(manifest: Manifest) -> tuple[str, str]:
    if not manifest.ended:
        return "-", "no end on record"
    status = _ENDED.get(manifest.exit_status or 0, f"exit code {manifest.exit_status}")
    try:
        took = datetime.fromisoformat(manifest.ended) - datetime.fromisoformat(manifest.started)
    except (ValueError, TypeError):
        return "-", status
    return duration(took.total_seconds()), status


def _accelerator(manifest: Manifest) -> Iterator[str]:
    for engine in manifest.engines:
        driver = f", driver {engine.driver}" if engine.driver else ""
        yield f"{', '.join(engine.devices) or engine.accelerator}{driver} ({engine.engine})"


def _commands(manifests: Sequence[Manifest]) -> Table:
    rows = ((manifest.session, shlex.join(manifest.command)) for manifest in manifests)
    return _table("commands", "Command lines", "session", "command", rows=rows)


def _code(manifests: Sequence[Manifest]) -> Table:
    def row(manifest: Manifest) -> tuple[Value, ...]:
        git = manifest.git
        state = f"{git.commit}, {plural(git.changed, 'path')} changed" if git else "-"
        suites = ", ".join(f"{name} {digest}" for name, digest in manifest.suites.items())
        return manifest.session, manifest.harness, suites or "-", state

    headings = ("session", "judged by", "suites", "started in the repository")
    return _table("code", "Code and suites", *headings, rows=map(row, manifests))


def _versions(manifests: Sequence[Manifest]) -> Table:
    """Each distribution with its versions, and the sessions of each where they differ."""
    found: dict[str, dict[str, list[str]]] = {}
    for manifest in manifests:
        for name, version in {"Python": manifest.python, **manifest.versions}.items():
            found.setdefault(name, {}).setdefault(version, []).append(manifest.session)

    def told(versions: dict[str, list[str]]) -> str:
        if len(versions) == 1:
            return next(iter(versions))
        return "; ".join(f"{version} ({', '.join(sessions)})" for version, sessions in versions.items())

    rows = ((name, told(versions)) for name, versions in found.items())
    return _table("versions", "Versions", "distribution", "version", rows=rows)
