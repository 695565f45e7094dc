"""Docker made ready for a session: cleaned of dead runs, with base image, tools and the host's settings."""

from __future__ import annotations

import logging

from pytest_researchenv.engine import Engine
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.hostsettings import host_settings
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import reap
from pytest_researchenv.sandbox.tools import ensure_tools


__all__ = ["docker_engine"]

_log = logging.getLogger(__name__)


def docker_engine(run: str, *, image: str) -> Engine:
    """Connect to Docker and make ready what is missing.

    Args:
        run: name of the run, for labels.
        image: registry reference of the base image; empty for the default.

    Raises:
        DaemonUnavailableError: no container engine answers.
        ImageError: the base image or the tool volume could not be made.
    """
    client = connect()
    owner = Owner.current(run)
    reap(client, everything=False, owner=owner)
    base = ensure_base_image(client, owner=owner, wanted=image, say=_log.info)
    host = host_settings(client, owner=owner, image=base.image, say=_log.info)
    return Engine(
        sandbox=DockerSandbox(client, owner),
        base_image=base.image,
        base_key=base.key,
        mounts=(host.mount,) if host.mount else (),
        environment=host.environment,
        tools=ensure_tools(client, owner=owner, image=base.image, say=_log.info),
    )
