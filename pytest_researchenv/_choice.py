"""What several commands do with their arguments: choose repositories, and write a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Repository


__all__ = ["choose", "write_page"]


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


def write_page(page: Path, text: str) -> None:
    """Write a page.

    Raises:
        ConfigurationError: it cannot be written there.
    """
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{page} cannot be written: {error}; name another place") from error
