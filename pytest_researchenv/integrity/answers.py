"""The benchmark's own answers: were they asked for, seen or kept?

Recipes and probes are public, in our distribution and in our repository. Their canaries tell them from all else: words
that merely name the benchmark are nobody's fault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pytest_researchenv.gateway.inside.names import named
from pytest_researchenv.gateway.inside.passage import OWN_NAME, OWN_TEXT
from pytest_researchenv.gateway.inside.search import BodySearch
from pytest_researchenv.integrity._whereabouts import whereabouts
from pytest_researchenv.integrity.canaries import OWN_NAMES, canaries_of
from pytest_researchenv.integrity.outside import REQUESTS, requested
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.packedlogs import open_log
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["answers"]

#: How many places are named of one kind.
_NAMED = 5

#: Records in which an agent may have shown what it saw, and what it was told.
_RECORDS = ("transcript.log", "trajectory.json", "report.json")
_PROMPT = "prompt.md"

_BLOCK = 1 << 20

#: What installers write of a distribution of ours, with the separators of names alike.
_INSTALLED = re.compile(
    r"-?(?:editable-)?pytest-researchenv(?:-\d.*)?-(?:dist-info|egg-info|egg-link|pth)"
    r"|pytest-researchenv-\d.*-(?:egg|json)"
)

#: In which folders the client of a model hub keeps what it fetched.
_HUB = re.compile(r"(?:models|datasets|spaces)--.+", re.DOTALL)

#: Where a clone says what it was cloned from, and how.
_ORIGIN = re.compile(r".*(?:\.git/(?:modules/.+/)?config|/FETCH_HEAD)", re.DOTALL)
_URL = re.compile(r"^[ \t]*(?:url|pushurl)[ \t]*=[ \t]*(\S+)|\sof (\S+)$", re.MULTILINE | re.IGNORECASE)


def answers(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for the benchmark's own answers in what an agent asked for, printed and left.

    Args:
        task: what is audited.
        snapshot: its image.

    Raises:
        SandboxError: the engine refuses to read.
    """
    known = canaries_of(task.repository)
    remarks: list[str] = []
    findings = [
        *_requested(task, remarks),
        *_shown(task, known, remarks),
        *_kept(task, snapshot, known, remarks),
    ]
    return Signs(tuple(findings), remarks=tuple(remarks))


# --- what was asked for -----------------------------------------------------------------------------------


def _requested(task: ProbeTask, remarks: list[str]) -> Iterator[Finding]:
    found: dict[str, str] = {}
    for request in task.environment.refused:
        if named(request.partition(" ")[2], OWN_NAMES) in OWN_NAMES:
            found[request] = "it was refused"
    for said in requested(task.records, remarks):
        address, reason = f"{said['host']}{said['path']}", str(said.get("reason", ""))
        if named(address, OWN_NAMES) in OWN_NAMES or _own(reason):
            passed = f"it was answered with status {said.get('status')}"
            found[f"{said['method']} {address}"] = passed if said["allowed"] else f"it was refused: {reason}"
    for request in list(found)[:_NAMED]:
        yield _finding(request, "no request for the benchmark itself", found[request])
    if len(found) > _NAMED:
        yield _finding(REQUESTS, "no request for the benchmark itself", f"{len(found) - _NAMED} more requests")


def _own(reason: str) -> bool:
    """Whether the proxy refused something for what it is, and not for how it was written."""
    return reason.startswith(OWN_TEXT) or any(reason.startswith(f"{OWN_NAME} ({name})") for name in OWN_NAMES)


# --- what was shown ---------------------------------------------------------------------------------------


def _shown(task: ProbeTask, known: Mapping[str, str], remarks: list[str]) -> Iterator[Finding]:
    if task.records is None:
        return
    # What an agent was told it may say. No prompt of ours holds one.
    told = _held(task.records / _PROMPT, known, remarks)
    for name in _RECORDS:
        for canary in sorted(_held(task.records / name, known.keys() - told, remarks)):
            yield _finding(name, f"nothing of {known[canary]}", f"it holds the canary of {known[canary]}")


def _held(path: Path, canaries: Collection[str], remarks: list[str]) -> set[str]:
    """Which canaries are in a file."""
    left, found = set(canaries), set[str]()
    try:
        # Once more for each: which comes first says nothing of the others.
        while left and (canary := _first(path, left)):
            left.discard(canary)
            found.add(canary)
    except FileNotFoundError:
        return found
    except OSError as error:
        remarks.append(f"{path.name} cannot be read: {error}")
    return found


def _first(path: Path, canaries: set[str]) -> str:
    search = BodySearch(sorted(canaries))
    with open_log(path) as file:
        while block := file.read(_BLOCK):
            if search.feed(block):
                break
    return search.found


# --- what was kept ----------------------------------------------------------------------------------------


def _kept(task: ProbeTask, snapshot: Snapshot, known: Mapping[str, str], remarks: list[str]) -> Iterator[Finding]:
    places = whereabouts(snapshot, snapshot.changes())
    yield from _installed(places.paths)
    holding: dict[str, dict[str, None]] = {}
    given: dict[str, bool] = {}
    for entry in _entries(snapshot, places.trees, places.files):
        if entry.canary and not _is_the_trees(task, entry, given):
            holding.setdefault(entry.canary, {})[entry.path] = None
        elif entry.content is not None and _ORIGIN.fullmatch(entry.path):
            yield from _cloned(entry)
    for canary, paths in holding.items():
        first, *others = paths
        more = f", and so do {_listed(others)}" if others else ""
        whose = known.get(canary, "a suite")
        yield _finding(first, f"nothing of {whose}", f"it holds the canary of {whose}{more}")
    if places.left_out:
        remarks.append(f"{places.left_out} files of the agent's were not searched for the benchmark's answers")


def _entries(snapshot: Snapshot, trees: list[str], files: list[str]) -> Iterator[Entry]:
    for folder in trees:
        yield from snapshot.tree(folder, lambda path: _ORIGIN.fullmatch(path) is not None)
    for path in files:
        entry = snapshot.link(path)
        if entry is not None and entry.kind is Kind.FILE:
            yield entry


def _installed(paths: list[str]) -> Iterator[Finding]:
    found: dict[str, None] = {}
    fetched: dict[str, None] = {}
    for path in paths:
        # A package's record is a file, or a folder that has some. The separators of names are alike (PEP 503).
        for part in path.split("/")[-2:]:
            if _INSTALLED.fullmatch(re.sub(r"[-_.]+", "-", part.lower())):
                found[path[: path.rindex(part) + len(part)]] = None
            elif _HUB.fullmatch(part) and named(part, OWN_NAMES) in OWN_NAMES:
                fetched[path[: path.rindex(part) + len(part)]] = None
    for path in list(found)[:_NAMED]:
        yield _finding(path, "no distribution of the benchmark itself", "it says that pytest-researchenv was installed")
    for path in list(fetched)[:_NAMED]:
        yield _finding(path, "no download of the benchmark itself", "a hub's client keeps there what it fetched")


def _cloned(entry: Entry) -> Iterator[Finding]:
    for urls in _URL.findall(entry.text):
        url = "".join(urls)
        if named(url, OWN_NAMES) in OWN_NAMES:
            # Without what an agent may have logged in with.
            shown = printable(re.sub(r"//[^/@]*@", "//", url), 100)
            yield _finding(entry.path, "no clone of the benchmark itself", f"it names {shown}")
            return


def _is_the_trees(task: ProbeTask, entry: Entry, given: dict[str, bool]) -> bool:
    """Whether a canary may be the repository's own, which an agent was given: that may hold anything."""
    if not entry.path.startswith(f"{task.environment.workdir}/"):
        return False
    if entry.canary not in given:
        files = (task.tree.root / path for path in task.tree.files)
        given[entry.canary] = any(entry.canary.encode() in file.read_bytes() for file in files if file.is_file())
    return given[entry.canary]


def _listed(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(printable(path) for path in paths[:_NAMED])}{more}"


def _finding(place: str, claimed: str, observed: str) -> Finding:
    return Finding(Sign.ANSWER, printable(place, 300), claimed, printable(observed, 1000))
