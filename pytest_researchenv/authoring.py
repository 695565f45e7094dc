"""Commands for those who write suites: check, count, lock, prove and document them."""

from __future__ import annotations

import argparse
import contextlib
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console

from pytest_researchenv._choice import choose, write_page
from pytest_researchenv.errors import ConfigurationError, SourceError
from pytest_researchenv.lock import lock_problems, write_lock
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.probes.imports import scan_files
from pytest_researchenv.progress import Phase, Teller
from pytest_researchenv.proving import Proof, prove
from pytest_researchenv.references.check import check_references
from pytest_researchenv.report.deviations import deviations_page
from pytest_researchenv.report.imports import ImportCount, imports_page
from pytest_researchenv.report.references import ProbeCheck, references_page
from pytest_researchenv.report.research import research_page
from pytest_researchenv.report.validation import validation_page
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.sandbox.ready import docker_engine
from pytest_researchenv.settings import Settings
from pytest_researchenv.skeleton import write_skeleton
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Store
from pytest_researchenv.suite import find_suite, holds_tasks, load_suite, validate


__all__ = ["add_commands"]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    check = commands.add_parser("validate", help="check a suite's files without Docker, and print what it holds")
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
    check.set_defaults(run=_validate)

    lock = commands.add_parser("lock", help="write a suite's lock.json: the digests of all its files")
    _add_suite(lock)
    lock.set_defaults(run=_lock)

    new = commands.add_parser("new-repository", help="write a commented repo.toml and oracle.sh from a checkout")
    new.add_argument("address", help="URL of a Git repository, or a folder")
    new.add_argument("--suite", type=Path, default=Path(), metavar="FOLDER", help="the suite (default: this folder)")
    new.add_argument("--commit", default="", metavar="HASH", help="commit to pin (default: the newest, or HEAD)")
    _add_cache(new)
    new.set_defaults(run=_new_repository)

    proof = commands.add_parser(
        "prove", help="show that a suite's probes pass on good environments and fail on bare and broken ones"
    )
    _add_suite(proof)
    proof.add_argument("--only", action="append", metavar="NAME", help="repository's short name; may be repeated")
    proof.add_argument("--accelerator", default="auto", choices=("auto", "cpu", "cuda"), help="what C2 to C4 run on")
    proof.add_argument("--image", default="", help="registry reference of the base image")
    _add_results(proof)
    _add_cache(proof)
    proof.set_defaults(run=_prove)

    pages = commands.add_parser("document", help="write what was proven of a suite, and where it deviates, as pages")
    _add_suite(pages)
    pages.add_argument("--docs", type=Path, default=Path("docs"), metavar="FOLDER", help="where to (default: docs)")
    _add_results(pages)
    pages.set_defaults(run=_document)


def _add_suite(parser: argparse.ArgumentParser, default: str = "") -> None:
    text = "a shipped suite's name, or a suite's folder"
    if default:
        parser.add_argument("suite", nargs="?", default=default, help=f"{text} (default: {default})")
    else:
        parser.add_argument("suite", help=text)


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("researchenv-results"), metavar="FOLDER")
    parser.add_argument("--run", dest="name", default="proof", metavar="NAME", help="name of the run (default: proof)")


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/researchenv"), metavar="FOLDER")


def _validate(arguments: argparse.Namespace) -> int:
    if arguments.output and arguments.imports == arguments.probes:
        raise ConfigurationError(
            f"--output {arguments.output} is for what --imports or --probes finds: give one of them"
        )
    folder = find_suite(arguments.suite)
    fine = validate(folder, console=Console())
    if fine and arguments.locked:
        problems = lock_problems(folder)
        print("\n".join(problems) or "locked: no file has changed")
        fine = not problems
    if fine and arguments.imports:
        fine = _compare_imports(folder, arguments.cache.expanduser(), arguments.output)
    if fine and arguments.probes:
        fine = _check_probes(folder, arguments.cache.expanduser(), arguments.output)
    return 0 if fine else 1


def _compare_imports(folder: Path, cache: Path, output: Path | None) -> bool:
    counts = []
    for repository in load_suite(folder).repositories:
        if repository.imports.published_total is None:
            continue
        counts.append(_count(repository, cache))
        print(counts[-1], flush=True)
    read = [count for count in counts if not count.problem]
    same = [count for count in read if count.same]
    print(f"{len(same)} of {len(read)} trees that could be read have the published total; {len(counts)} have one")
    if output:
        write_page(output, imports_page(counts))
    # Where nothing could be read, nothing was compared.
    return len(same) == len(read) and (bool(read) or not counts)


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


def _check_probes(folder: Path, cache: Path, output: Path | None) -> bool:
    checks = []
    for repository in load_suite(folder).repositories:
        checks.append(_look_up(repository, cache))
        print(checks[-1], flush=True)
    if output:
        write_page(output, references_page(checks))
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
    print(f"written: {folder / 'repo.toml'} and oracle.sh; next: `researchenv validate {suite.folder}`")
    return 0


def _lock(arguments: argparse.Namespace) -> int:
    folder = find_suite(arguments.suite)
    # What cannot be read is not to be locked.
    if holds_tasks(folder):
        load_research_suite(folder)
    else:
        load_suite(folder)
    print(f"locked: {write_lock(folder)}")
    return 0


def _prove(arguments: argparse.Namespace) -> int:
    suite = load_suite(find_suite(arguments.suite))
    chosen = choose(suite.repositories, arguments.only or [], say=print)
    settings = Settings(
        results=arguments.results,
        run=arguments.name,
        continued=True,
        rebuild=False,
        reuse_anyway=False,
        agent_timeout_s=3600.0,
        agent_limits=Limits(),
        c0_max_missing=0.0,
        cache=arguments.cache.expanduser(),
        session=uuid.uuid4().hex,
    )
    say = partial(print, flush=True)
    engine = docker_engine(settings.run, image=arguments.image, accelerator=arguments.accelerator, say=say)
    refuted = 0
    with contextlib.closing(engine):
        for proof in prove(chosen, settings=settings, engine=engine, say=Teller(_tell)):
            print(_line(proof), flush=True)
            refuted += not proof.holds
    print(f"{refuted} verdicts are not what they had to be" if refuted else "every verdict is what it had to be")
    return 1 if refuted else 0


def _tell(phase: Phase | None) -> None:
    if phase and phase.name and not phase.name.startswith("waiting"):
        print(f"  {phase.repository}, {phase.agent}: {phase.name}", flush=True)


def _line(proof: Proof) -> str:
    found = f"{proof.result.verdict}: {proof.result.reason}" if proof.result else f"no verdict: {proof.error}"
    mark = "ok" if proof.holds else f"NOT {proof.wanted}"
    emulated = " (emulated)" if proof.result and proof.result.emulated else ""
    return f"{mark}: {proof.repository.slug} {proof.agent} {proof.tier}{emulated} {found}"


def _document(arguments: argparse.Namespace) -> int:
    folder = find_suite(arguments.suite)
    if holds_tasks(folder):
        return _write_pages(arguments.docs, {f"{folder.name}.md": research_page(load_research_suite(folder))})
    suite = load_suite(folder)
    run = arguments.results / arguments.name
    if not run.is_dir():
        raise ConfigurationError(
            f"there is no run in {run}: name it by --results and --run, or `researchenv prove` first"
        )
    pages = {
        "validation.md": validation_page(suite, Store(arguments.results, arguments.name)),
        "deviations.md": deviations_page(suite),
    }
    return _write_pages(arguments.docs, pages)


def _write_pages(docs: Path, pages: Mapping[str, str]) -> int:
    for name, text in pages.items():
        write_page(docs / name, text)
        print(f"written: {docs / name}")
    return 0
