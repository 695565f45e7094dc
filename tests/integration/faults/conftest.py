"""One second engine for all tests of a process, since it takes a while to bring the base image over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.integration.faults.place import FaultPlace
from tests.integration.second import SecondEngine, missing_for_a_second_engine, second_engine


if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient


@pytest.fixture(scope="session")
def base_name(docker_client: DockerClient, base_image: str) -> str:
    """The base image by its name, which is that of its content."""
    return str(docker_client.images.get(base_image).tags[0])


@pytest.fixture(scope="session")
def any_second(tmp_path_factory: pytest.TempPathFactory, base_name: str) -> Iterator[SecondEngine]:
    """A second engine."""
    if missing := missing_for_a_second_engine():
        pytest.skip(missing)
    with second_engine(tmp_path_factory.mktemp("engine"), base_name) as engine:
        yield engine


@pytest.fixture
def second(any_second: SecondEngine) -> SecondEngine:
    """The second engine, which answers, whatever the last test did to it."""
    if not any_second.answers():
        any_second.start()
    return any_second


@pytest.fixture
def place(tmp_path: Path, second: SecondEngine) -> FaultPlace:
    """A place whose sessions use the second engine."""
    return FaultPlace(tmp_path, docker_host=second.url)
