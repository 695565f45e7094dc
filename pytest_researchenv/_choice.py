"""What several commands do with their arguments: read tiers, choose repositories, describe them, and write a page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Repository
from pytest_researchenv.suite import find_suite, load_suite, suite_names


__all__ = ["choose", "described", "one_of", "write_page"]

_Word = TypeVar("_Word", bound=StrEnum)


def one_of(*known: _Word) -> Callable[[str], _Word]:
    """Return what reads an argument that is one of some words, in capitals or not."""
    words = {word.casefold(): word for word in known}

    def read(argument: str) -> _Word:
        if argument.casefold() not in words:
            raise argparse.ArgumentTypeError(f"{argument!r} is none of {', '.join(known)}")
        return words[argument.casefold()]

    return read


def choose(
    repositories: Sequence[Repository], names: Sequence[str], *, say: Callable[[str], object]
) -> list[Repository]:
    """Return the repositories with these short names; where none is named, all that have a recipe.

    Args:
        repositories: a suite's.
        names: as they were given.
        say: told which are left out for want of a recipe.

    Raises:
        ConfigurationError: no repository is called so.
    """
    if not names:
        found = [repository for repository in repositories if Path(repository.folder, "oracle.sh").is_file()]
        left_out = [repository.slug for repository in repositories if repository not in found]
        if left_out:
            say(f"left out, for want of an oracle.sh: {', '.join(left_out)}")
        return found
    known = {repository.slug.casefold(): repository for repository in repositories}
    for name in names:
        if name.casefold() not in known:
            raise ConfigurationError(f"no repository is called {name!r}; known: {', '.join(sorted(known))}")
    return [known[name.casefold()] for name in names]


def described(named: Iterable[str], held: Collection[str]) -> dict[str, Repository]:
    """Return key → description, for the suites that were named and those shipped ones that a run holds.

    Args:
        named: shipped suites' names, or suites' folders.
        held: names of the suites that the run's attempts are of.

    Raises:
        ConfigurationError: one of those that were named is not there, or wrong.
    """
    shipped = [name for name in suite_names(of_tasks=False) if name in held]
    loaded = [load_suite(find_suite(name)) for name in (*shipped, *named)]
    return {repository.key: repository for suite in loaded for repository in suite.repositories}


def write_page(page: Path, text: str) -> None:
    """Write a page.

    Raises:
        ConfigurationError: it cannot be written there.
    """
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{page} cannot be written: {error}; name another place") from error
