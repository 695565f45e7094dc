"""Several container engines at once: this host's, and a second real one by tcp with TLS. Long proofs."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import DockerClient

from tests.integration.second import SecondEngine, missing_for_a_second_engine, second_engine
from tests.integration.tlsport import tls_port
from tests.integration.workplace import Ran, Workplace, remove_frozen


@dataclass(frozen=True)
class Far:
    """A second engine with a base image, and the context `tls` that leads to it.

    Attributes:
        engine: the engine.
        environ: variables with which the contexts are found.
    """

    engine: SecondEngine
    environ: dict[str, str]

    def add(self, name: str, address: str) -> None:
        """Make a context, as users do."""
        command = ["docker", "context", "create", name, "--docker", address]
        subprocess.run(command, env={**os.environ, **self.environ}, check=True, capture_output=True)


@pytest.fixture(scope="module")
def far(docker_client: DockerClient, base_image: str) -> Iterator[Far]:
    """The second engine."""
    if missing := missing_for_a_second_engine():
        pytest.skip(missing)
    name = str(docker_client.images.get(base_image).tags[0])
    with (
        tempfile.TemporaryDirectory(prefix="dockerd-") as folder,
        tls_port(Path(folder)) as port,
        second_engine(Path(folder), name, port) as engine,
    ):
        config = Path(folder, "config")
        config.mkdir()
        (config / "config.json").write_text("{}")
        # As in networks whose proxies have an authority of their own.
        environ = {
            "DOCKER_CONFIG": str(config),
            "REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
        }
        made = Far(engine, environ)
        made.add("tls", port.address)
        yield made


@pytest.fixture
def place(tmp_path: Path, docker_client: DockerClient, far: Far) -> Iterator[Workplace]:
    """A folder with the tiny suite; what was frozen in either engine is removed."""
    made = Workplace(tmp_path, docker_client)
    yield made
    made.clean()
    with closing(far.engine.client()) as client:
        remove_frozen(client, tmp_path)


def _engines(ran: Ran) -> dict[str, str]:
    """Each attempt's repository and number → the context of the engine that it is in."""
    return {"/".join(Path(one).parts[-2:]): ran.environment(one)["engine_name"] for one in ran.attempts()}


@pytest.mark.slow
def test_environments_are_spread_and_stay_where_they_are(place: Workplace, far: Far) -> None:
    """Verdicts are those of one engine; later sessions go where an environment is, or name what does not answer."""
    both = ["--researchenv-docker=default", "--researchenv-docker=tls"]
    chosen = ["-k", "(plain or needy) and (C0 or C1)"]

    noop = ["--researchenv-agent=noop", *chosen]

    alone = place.run(*noop, "--researchenv-results=alone").outcomes
    ran = place.run(*noop, *both, "-n", "2", environ=far.environ)
    outcomes, engines = ran.outcomes, _engines(ran)

    assert outcomes, ran.text
    assert outcomes == alone, ran.text
    assert sorted(engines.values()) == ["default", "tls"], ran.text
    there = next(name for name, engine in engines.items() if engine == "tls").partition("/")[0]

    later = place.run(*noop, *reversed(both), environ=far.environ)

    assert later.outcomes == outcomes, later.text
    assert _engines(later) == engines

    far.engine.signal(signal.SIGTERM)
    try:
        silent = place.run(*noop, *both, environ=far.environ)
    finally:
        far.engine.start()

    broken = {name for name, outcome in silent.outcomes.items() if outcome == "error"}
    assert broken == {name for name in outcomes if name.endswith(f"-{there}")}, silent.text
    assert "the container engine of the Docker context 'tls' does not answer" in silent.text
    assert _engines(silent) == engines

    again = place.run(*noop, *both, environ=far.environ)

    assert again.outcomes == outcomes, again.text
    assert _engines(again) == engines
