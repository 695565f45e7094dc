"""The command that resolves recipes."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path

from pytest_researchenv._choice import choose, write_page
from pytest_researchenv._json import add_json, print_json, teller
from pytest_researchenv.agents.script import oracle_script
from pytest_researchenv.errors import ConfigurationError, SandboxError
from pytest_researchenv.log import capped_log
from pytest_researchenv.report.resolution import resolution_line, resolution_page
from pytest_researchenv.resolving.recipe import Resolved, resolve_recipe
from pytest_researchenv.sandbox.ready import docker_engine
from pytest_researchenv.suite import find_suite, load_suite


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    resolve = commands.add_parser("resolve")
    resolve.add_argument("suite", help="a shipped suite's name, or a suite's folder")
    resolve.add_argument("--only", action="append", metavar="NAME", help="repository's short name; may be repeated")
    resolve.add_argument("--image", default="", help="registry reference of the base image")
    resolve.add_argument("--output", type=Path, metavar="FILE", help="write what is found to this page, too")
    resolve.add_argument("--logs", type=Path, metavar="FOLDER", help="write what the recipes print to this folder")
    resolve.add_argument("--cache", type=Path, default=Path("~/.cache/researchenv"), metavar="FOLDER")
    add_json(resolve)
    resolve.set_defaults(run=_resolve)


def _resolve(arguments: argparse.Namespace) -> int:
    suite = load_suite(find_suite(arguments.suite))
    say = teller(arguments)
    chosen = choose(suite.repositories, arguments.only or [], say=say)
    for repository in chosen:
        oracle_script(repository)  # One that is missing is told before hours of work.
    if arguments.logs:
        try:
            arguments.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"--logs {arguments.logs} is no folder to write to: {error}") from error
    cache = arguments.cache.expanduser()
    found: list[Resolved] = []
    broken = False
    engine = docker_engine("resolve", image=arguments.image, accelerator="cpu", say=say)
    with contextlib.closing(engine):
        for repository in chosen:
            try:
                with _log(arguments.logs, repository.slug) as log:
                    found.append(resolve_recipe(repository, engine=engine, cache=cache, log=log))
            except SandboxError as error:
                broken = True
                found.append(Resolved(repository.name, ended=f"could not be run: {error}"))
            say(resolution_line(found[-1]))
    if arguments.output:
        write_page(arguments.output, resolution_page(found))
    if arguments.json:
        print_json([one.document() for one in found])
    return 1 if broken or any(one.problems for one in found) else 0


def _log(folder: Path | None, name: str) -> contextlib.AbstractContextManager[Callable[[bytes], object]]:
    if folder is None:
        return contextlib.nullcontext(lambda _: None)
    log = folder / f"{name}.log"
    log.unlink(missing_ok=True)
    return capped_log(log)
