"""What several commands do with their arguments: choose repositories, and write a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Repository


__all__ = ["choose", "with_recipe", "write_page"]


def choose(repositories: Sequence[Repository], names: Iterable[str]) -> list[Repository]:
    """Return the repositories with these short names, or all where none is named.

    Raises:
        ConfigurationError: no repository is called so.
    """
    known = {repository.slug.casefold(): repository for repository in repositories}
    names = list(names)
    for name in names:
        if name.casefold() not in known:
            raise ConfigurationError(f"no repository is called {name!r}; known: {', '.join(sorted(known))}")
    return [known[name.casefold()] for name in names] or list(repositories)


def with_recipe(repositories: Iterable[Repository]) -> tuple[list[Repository], list[str]]:
    """Return those that have a recipe, and the short names of the others."""
    every = list(repositories)
    found = [repository for repository in every if Path(repository.folder, "oracle.sh").is_file()]
    return found, [repository.slug for repository in every if repository not in found]


def write_page(page: Path, text: str) -> None:
    """Write a page.

    Raises:
        ConfigurationError: it cannot be written there.
    """
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{page} cannot be written: {error}; name another place") from error
