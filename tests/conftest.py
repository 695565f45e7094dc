"""What all tests may use. Only a test that asks for it needs Docker."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# pytester forgets modules that a run inside this process was the first to import, and two copies of one are not equal.
import pytest_researchenv.wiring  # noqa: F401
from pytest_researchenv.sandbox.labels import Owner


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox


_log = logging.getLogger(__name__)

# On a busy machine an example may take any time, and a checkout is no place for files of tests.
settings.register_profile("researchenv", deadline=None, database=None)
settings.load_profile("researchenv")


#: Hundreds of tests run pytest, and half of the time that it takes to start is Hypothesis's, which none of them uses.
_WITHOUT = "no:hypothesispytest"


@pytest.fixture(scope="session", autouse=True)
def _light_sessions() -> Iterator[None]:
    """Sessions that tests start load no Hypothesis."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", f"-p {_WITHOUT}")
        yield


@pytest.fixture
def pytester(pytester: pytest.Pytester) -> pytest.Pytester:
    """Pytest's own, whose sessions load no Hypothesis either: it takes no options from the environment."""
    pytester.plugins.append(_WITHOUT)
    return pytester


@pytest.fixture(scope="session")
def docker_client() -> Iterator[DockerClient]:
    """A client of the container engine that users would get."""
    from pytest_researchenv.sandbox.daemon import connect  # noqa: PLC0415 - docker is only for tests that want it.

    with contextlib.closing(connect()) as client:
        yield client


@pytest.fixture(scope="session")
def owner() -> Owner:
    """This process."""
    return Owner.current("tests")


@pytest.fixture(scope="session")
def docker_sandbox(docker_client: DockerClient, owner: Owner) -> DockerSandbox:
    """The real sandbox."""
    from pytest_researchenv.sandbox.docker import DockerSandbox  # noqa: PLC0415 - likewise.

    return DockerSandbox(docker_client, owner)


@pytest.fixture(scope="session")
def base_image(docker_client: DockerClient, owner: Owner) -> str:
    """Id of the project's own base image, built when it is not there yet."""
    from pytest_researchenv.sandbox.images import ensure_base_image  # noqa: PLC0415 - likewise.

    return ensure_base_image(docker_client, owner=owner, say=_log.info).image
