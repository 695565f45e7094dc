"""The probes of the shipped suite beside the pinned trees, wherever these can be had from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import Repository
from pytest_researchenv.references.bindings import Seen
from pytest_researchenv.references.check import check_references
from pytest_researchenv.source import fetch
from pytest_researchenv.suite import find_suite, load_suite


_REPOSITORIES = load_suite(find_suite("researchenvbench")).repositories


@pytest.mark.slow
@pytest.mark.parametrize("repository", _REPOSITORIES, ids=[repository.slug for repository in _REPOSITORIES])
def test_what_a_probe_mentions_is_in_the_pinned_tree(repository: Repository) -> None:
    """Files, modules, names, options and arguments; those whose tree cannot be had are skipped, and so listed."""
    try:
        tree = fetch(repository, cache=Path("~/.cache/researchenv").expanduser())
    except SourceError as error:
        pytest.skip(f"{repository.name}: {error}")

    missing = [str(one) for one in check_references(repository, tree) if one.seen is Seen.MISSING]

    assert missing == []
