"""The command that brings exported runs and environments in."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results, new_run_name
from pytest_researchenv.errors import ConfigurationError, ResearchEnvError, StoreError
from pytest_researchenv.model import Environment, EnvironmentKey
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.provision import image_reference
from pytest_researchenv.runs.origins import origin_of
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sharing.contents import Contents, attempts_in
from pytest_researchenv.sharing.images import check_images, held_images, load_images, tag_image
from pytest_researchenv.sharing.merging import Came, Merged, merge_attempts, merge_sessions
from pytest_researchenv.sharing.unpacking import MOST_BYTES, staging, unpack
from pytest_researchenv.spending import spent_in
from pytest_researchenv.store import Attempt
from pytest_researchenv.verifying.records import read_records


__all__ = ["add_command"]

_GIB = 1024**3


@dataclass(slots=True)
class _Imported:
    """What came of one export."""

    source: Path
    merged: list[Merged] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing was in conflict, altered or out of reach."""
        return not (self.altered or self.problem or any(one.came is Came.CONFLICT for one in self.merged))


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    command = commands.add_parser(
        "import",
        description="An attempt that is there already gets the verdicts that it lacks; one whose "
        "number is another attempt's is a conflict, which is told and left out (exit code 1). An export that is "
        "damaged, or holds what none does, is refused as a whole.",
    )
    command.add_argument(
        "sources", type=Path, nargs="+", metavar="FILE", help="archives, or exported environments' folders"
    )
    add_results(command)
    command.add_argument(
        "--run", dest="name", type=_run_name, metavar="NAME", help="name of the run (default: its own)"
    )
    command.add_argument(
        "--renumber", action="store_true", help="where an attempt's number is another attempt's, give it the next"
    )
    command.add_argument("--no-images", action="store_true", help="leave images out; needs no container engine")
    command.add_argument(
        "--most-gib",
        type=int,
        default=MOST_BYTES // _GIB,
        metavar="N",
        help="take no more records than this (default: 20)",
    )
    add_json(command)
    command.set_defaults(run=_import)


def _run_name(argument: str) -> str:
    try:
        return new_run_name(argument)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _import(arguments: argparse.Namespace) -> int:
    every: list[_Imported] = []
    for source in arguments.sources:
        imported = _Imported(source)
        every.append(imported)
        _bring(imported, arguments)
        if not arguments.json:
            print(*_lines(imported), sep="\n")
    if arguments.json:
        print_json([_document(one) for one in every])
    return 0 if all(one.good for one in every) else 1


def _bring(imported: _Imported, arguments: argparse.Namespace) -> None:
    with staging(arguments.results) as folder:
        contents = unpack(imported.source, folder, most_bytes=arguments.most_gib * _GIB, images=not arguments.no_images)
        unpacked = folder / "run"
        attempts = list(attempts_in(contents.members))
        environments = list(_environments(unpacked, attempts, contents.run))
        _check_spending(unpacked, imported.source)
        archive = folder / contents.archive if contents.archive and not arguments.no_images else None
        if archive:
            _check(archive, contents, environments)
        imported.altered += _altered(unpacked, attempts, contents.run)
        run = arguments.results / (arguments.name or contents.run)
        for one in merge_attempts(unpacked, attempts, run=run, made_as=contents.run, renumber=arguments.renumber):
            imported.merged.append(one)
        imported.merged += merge_sessions(unpacked, run)
        if archive:
            try:
                imported.images += _load(archive, contents, imported.merged, run)
            # The records are in: that the images are not is told beside it.
            except ResearchEnvError as error:
                imported.problem = f"the records are imported, and the images are not: {error}"


# --- what is checked before anything comes in -------------------------------------------------------------


def _environments(unpacked: Path, attempts: Sequence[object], run: str) -> Iterator[Environment]:
    for place in attempts:
        # A damaged record is told with the rest of what was altered.
        with contextlib.suppress(StoreError):
            if found := Attempt(EnvironmentKey(run, "", "", 1), unpacked / str(place)).environment():
                yield found


def _check_spending(unpacked: Path, source: Path) -> None:
    try:
        spent = spent_in(unpacked)
        sound = spent is None or (math.isfinite(spent) and spent >= 0)
    except (ResearchEnvError, TypeError) as error:
        raise ConfigurationError(
            f"{source} does not say what its attempts spent: {printable(str(error), 300)}"
        ) from error
    if not sound:
        raise ConfigurationError(f"{source} does not say what its attempts spent: {spent}")


def _check(archive: Path, contents: Contents, environments: Sequence[Environment]) -> None:
    known = {image for one in environments for image in (one.image, one.base_image)}
    if strangers := sorted(set(contents.images) - known):
        raise ConfigurationError(f"it holds the image {strangers[0]}, which none of its environments has")
    check_images(archive, contents.images)


def _altered(unpacked: Path, attempts: Sequence[object], run: str) -> Iterator[str]:
    for place in attempts:
        folder = unpacked / str(place)
        agent, *repository, name = str(place).split("/")
        key = EnvironmentKey(run, agent, "/".join(repository), int(name.rpartition("-")[2]))
        attempt = Attempt(key, folder)
        if not attempt.finished and not any(folder.glob("*-[0-9]*.json")):
            continue
        try:
            found: Sequence[str] = read_records(folder, origin_of(folder, key)).altered
        except StoreError as error:
            found = (str(error),)
        yield from (f"{key}: {printable(sentence, 500)}" for sentence in found)


# --- images -----------------------------------------------------------------------------------------------


def _load(archive: Path, contents: Contents, merged: Sequence[Merged], run: Path) -> list[str]:
    with contextlib.closing(connect()) as client:
        new = set(contents.images) - set(held_images(client, contents.images))
        if new:
            load_images(client, archive, contents.images)
        named: set[str] = set()
        for one in merged:
            attempt = Attempt(EnvironmentKey("", "", "", 1), one.folder) if one.folder else None
            environment = attempt.environment() if attempt and one.came is not Came.CONFLICT else None
            if attempt is None or environment is None or environment.image not in new:
                continue
            tag_image(client, environment.image, image_reference(_placed(attempt, run)))
            named.add(environment.image)
        # What has no name goes with the next clean-up. None of ours: those are given to agents.
        for image in sorted(new - named):
            tag_image(client, image, f"researchenv/imported:{image.removeprefix('sha256:')[:12]}")
    return sorted(new)


def _placed(attempt: Attempt, run: Path) -> Attempt:
    """The attempt as it is called here: by its folder, whatever its records say."""
    agent, *repository, name = attempt.folder.relative_to(run).parts
    key = EnvironmentKey(run.name, agent, "/".join(repository), int(name.rpartition("-")[2]))
    return Attempt(key, attempt.folder)


# --- what is told -----------------------------------------------------------------------------------------


def _lines(imported: _Imported) -> Iterator[str]:
    for one in imported.merged:
        if one.folder or one.came is Came.CONFLICT:
            yield f"{one.came}: {printable(one.what, 300)}" + (f" ({printable(one.why, 1000)})" if one.why else "")
    yield from (f"altered before it was exported: {sentence}" for sentence in imported.altered)
    yield from (f"image: {image}" for image in imported.images)
    counts = Counter(one.came for one in imported.merged if one.folder)
    yield f"{imported.source}: " + ", ".join(f"{counts[came]} {came}" for came in Came)
    if imported.problem:
        yield imported.problem


def _document(imported: _Imported) -> dict[str, object]:
    return {
        "source": str(imported.source),
        "attempts": [_row(one) for one in imported.merged if one.folder],
        "sessions": [_row(one) for one in imported.merged if not one.folder],
        "altered": imported.altered,
        "images": imported.images,
        "problem": imported.problem,
    }


def _row(one: Merged) -> dict[str, str]:
    return {"what": one.what, "came": str(one.came), "why": one.why}
