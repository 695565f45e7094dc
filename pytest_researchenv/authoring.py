"""Commands for those who write suites: check, count, lock and document them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from pytest_researchenv._choice import write_page
from pytest_researchenv._json import add_json, print_json, teller
from pytest_researchenv._place import add_results, run_folder
from pytest_researchenv._suite_table import suite_document
from pytest_researchenv.errors import ConfigurationError, SourceError, SuiteError
from pytest_researchenv.lock import LOCK, lock_problems, write_lock
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.probes.imports import scan_files
from pytest_researchenv.references.check import check_references
from pytest_researchenv.report.deviations import deviations_page
from pytest_researchenv.report.imports import ImportCount, imports_page
from pytest_researchenv.report.references import ProbeCheck, references_page
from pytest_researchenv.report.research import research_page
from pytest_researchenv.report.research_tables import research_document
from pytest_researchenv.report.validation import validation_page
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.skeleton import write_skeleton
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Store
from pytest_researchenv.suite import Suite, find_suite, holds_tasks, load_suite, validate


__all__ = ["add_commands"]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    check = commands.add_parser("validate")
    _add_suite(check, default="quickstart")
    check.add_argument("--locked", action="store_true", help="also compare its files with its lock.json")
    check.add_argument(
        "--imports", action="store_true", help="also fetch each pinned tree, and compare its imports with the published"
    )
    check.add_argument(
        "--probes",
        action="store_true",
        help="also fetch each pinned tree, and look up in it what the probes mention: files, names, options",
    )
    check.add_argument(
        "--output", type=Path, metavar="FILE", help="write what --imports or --probes finds to this page, too"
    )
    _add_cache(check)
    add_json(check)
    check.set_defaults(run=_validate)

    lock = commands.add_parser("lock")
    _add_suite(lock)
    add_json(lock)
    lock.set_defaults(run=_lock)

    new = commands.add_parser("new-repository")
    new.add_argument("address", help="URL of a Git repository, or a folder")
    new.add_argument("--suite", type=Path, default=Path(), metavar="FOLDER", help="the suite (default: this folder)")
    new.add_argument("--commit", default="", metavar="HASH", help="commit to pin (default: the newest, or HEAD)")
    _add_cache(new)
    add_json(new)
    new.set_defaults(run=_new_repository)

    pages = commands.add_parser("document")
    _add_suite(pages)
    pages.add_argument("--docs", type=Path, default=Path("docs"), metavar="FOLDER", help="where to (default: docs)")
    add_results(pages)
    pages.add_argument("--run", dest="name", default="proof", metavar="NAME", help="name of the run (default: proof)")
    add_json(pages)
    pages.set_defaults(run=_document)


def _add_suite(parser: argparse.ArgumentParser, default: str = "") -> None:
    text = "a shipped suite's name, or a suite's folder"
    if default:
        parser.add_argument("suite", nargs="?", default=default, help=f"{text} (default: {default})")
    else:
        parser.add_argument("suite", help=text)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/researchenv"), metavar="FOLDER")


def _validate(arguments: argparse.Namespace) -> int:
    if arguments.output and arguments.imports == arguments.probes:
        raise ConfigurationError(
            f"--output {arguments.output} is for what --imports or --probes finds: give one of them"
        )
    folder = find_suite(arguments.suite)
    say, cache = teller(arguments), arguments.cache.expanduser()
    document = _held(folder, shown=not arguments.json)
    if document["valid"]:
        document["warnings"] = warnings = list(_missing_trees(folder))
        for warning in warnings:
            say(f"warning: {warning}")
    if document["valid"] and arguments.locked:
        problems = lock_problems(folder)
        say("\n".join(problems) or "locked: no file has changed")
        document |= {"valid": not problems, "locked": problems}
    if document["valid"] and arguments.imports:
        counts = _count_imports(folder, cache, arguments.output, say)
        document |= {"valid": _agree(counts), "imports": [asdict(one) for one in counts]}
    if document["valid"] and arguments.probes:
        checks = _check_probes(folder, cache, arguments.output, say)
        document |= {"valid": _all_there(checks), "probes": [check.document() for check in checks]}
    if arguments.json:
        print_json(document)
    return 0 if document["valid"] else 1


def _held(folder: Path, *, shown: bool) -> dict[str, object]:
    """What a suite holds, or what is wrong with it."""
    if shown:
        return {"valid": validate(folder, console=Console())}
    try:
        held = (
            research_document(load_research_suite(folder))
            if holds_tasks(folder)
            else suite_document(load_suite(folder))
        )
        return {"suite": str(folder), "valid": True, "problem": "", **held}
    except SuiteError as error:
        return {"suite": str(folder), "valid": False, "problem": str(error)}


def _missing_trees(folder: Path) -> Iterator[str]:
    """Say which trees are to be on this machine, and are not: a suite may be looked at where nothing is built."""
    for repository in () if holds_tasks(folder) else load_suite(folder).repositories:
        if isinstance(repository.source, PathSource):
            tree = Path(repository.folder, repository.source.path)
            if not tree.is_dir():
                path = repository.source.path
                yield f"{repository.slug}: source.path: {path!r} leads to no folder here: nothing can be built from it"


def _count_imports(folder: Path, cache: Path, output: Path | None, say: Callable[[str], None]) -> list[ImportCount]:
    counts = []
    for repository in load_suite(folder).repositories:
        if repository.imports.published_total is None:
            continue
        counts.append(_count(repository, cache))
        say(str(counts[-1]))
    read = [count for count in counts if not count.problem]
    same = sum(count.same for count in read)
    say(f"{same} of {len(read)} trees that could be read have the published total; {len(counts)} have one")
    if output:
        write_page(output, imports_page(counts))
    return counts


def _agree(counts: list[ImportCount]) -> bool:
    read = [count for count in counts if not count.problem]
    # Where nothing could be read, nothing was compared.
    return all(count.same for count in read) and (bool(read) or not counts)


def _count(repository: Repository, cache: Path) -> ImportCount:
    published = repository.imports.published_total or 0
    try:
        tree = fetch(repository, cache=cache)
    except SourceError as error:
        return ImportCount(repository.name, published, problem=str(error))
    scan = scan_files(tree.root, tree.own)
    return ImportCount(
        repository.name,
        published,
        found=len(scan.published_names),
        unparsable=len(scan.unparsable),
        copied=isinstance(repository.source, PathSource),
    )


def _check_probes(folder: Path, cache: Path, output: Path | None, say: Callable[[str], None]) -> list[ProbeCheck]:
    checks = []
    for repository in load_suite(folder).repositories:
        checks.append(_look_up(repository, cache))
        say(str(checks[-1]))
    if output:
        write_page(output, references_page(checks))
    return checks


def _all_there(checks: list[ProbeCheck]) -> bool:
    # Where no tree could be had, nothing was looked up.
    return not any(check.missing for check in checks) and not (checks and all(check.problem for check in checks))


def _look_up(repository: Repository, cache: Path) -> ProbeCheck:
    copied = isinstance(repository.source, PathSource)
    try:
        tree = fetch(repository, cache=cache)
    except SourceError as error:
        return ProbeCheck(repository.name, problem=str(error))
    return ProbeCheck(repository.name, tuple(check_references(repository, tree)), copied=copied)


def _new_repository(arguments: argparse.Namespace) -> int:
    suite = load_suite(find_suite(str(arguments.suite)))
    folder = write_skeleton(
        arguments.address,
        suite.folder,
        commit=arguments.commit,
        cache=arguments.cache.expanduser(),
        canary=suite.canary,
    )
    if arguments.json:
        print_json({"written": [str(folder / "repo.toml"), str(folder / "oracle.sh")]})
    else:
        print(f"written: {folder / 'repo.toml'} and oracle.sh; next: `researchenv validate {suite.folder}`")
    return 0


def _lock(arguments: argparse.Namespace) -> int:
    folder = find_suite(arguments.suite)
    # What cannot be read is not to be locked.
    if holds_tasks(folder):
        load_research_suite(folder)
    else:
        load_suite(folder)
    digest = write_lock(folder)
    if arguments.json:
        print_json({"written": [str(folder / LOCK)], "digest": digest})
    else:
        print(f"locked: {digest}")
    return 0


def _document(arguments: argparse.Namespace) -> int:
    folder = find_suite(arguments.suite)
    if holds_tasks(folder):
        pages = {f"{folder.name}.md": research_page(load_research_suite(folder))}
    else:
        pages = _proven_pages(load_suite(folder), arguments.results, arguments.name)
    for name, text in pages.items():
        write_page(arguments.docs / name, text)
    written = [str(arguments.docs / name) for name in pages]
    if arguments.json:
        print_json({"written": written})
    else:
        print(*(f"written: {path}" for path in written), sep="\n")
    return 0


def _proven_pages(suite: Suite, results: Path, name: str) -> dict[str, str]:
    run = run_folder(results, name)
    if not run.is_dir():
        raise ConfigurationError(
            f"there is no run in {run}: name it by --results and --run, or `researchenv prove` first"
        )
    return {"validation.md": validation_page(suite, Store(results, name)), "deviations.md": deviations_page(suite)}
