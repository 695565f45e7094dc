"""Several container engines at once: this host's, and a second real one by tcp with TLS and by ssh. Long proofs."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import DockerClient

from tests.integration.dockerd import SecondEngine, second_engine
from tests.integration.workplace import Ran, Workplace, remove_frozen


SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
UP_S = 30.0


@dataclass(frozen=True)
class Far:
    """A second engine with a base image, and contexts that lead to it: `tls`, and where there is an sshd, `ssh`.

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
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        pytest.skip("needs root and dockerd, to start a second engine")
    with tempfile.TemporaryDirectory(prefix="dockerd-") as folder, second_engine(Path(folder)) as engine:
        with closing(engine.client()) as client:
            client.images.load(docker_client.images.get(base_image).save(named=True))  # type: ignore[arg-type] # parts will do
        config = Path(folder, "config")
        config.mkdir()
        (config / "config.json").write_text("{}")
        # As in networks whose proxies have an authority of their own.
        path = f"{_ssh_in(Path(folder))}:{os.environ['PATH']}"
        environ = {
            "DOCKER_CONFIG": str(config),
            "REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
            "PATH": path,
        }
        made = Far(engine, environ)
        made.add("tls", engine.address)
        yield made


@pytest.fixture
def place(tmp_path: Path, docker_client: DockerClient, far: Far) -> Iterator[Workplace]:
    """A folder with the tiny suite; what was frozen in either engine is removed."""
    made = Workplace(tmp_path, docker_client)
    yield made
    made.clean()
    with closing(far.engine.client()) as client:
        remove_frozen(client, tmp_path)


def _ssh_in(folder: Path) -> Path:
    """Keys, and an `ssh` that uses them and nothing of the user's; returns the folder that it is in."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}.key"], check=True)
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user.key\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "StrictHostKeyChecking accept-new\nBatchMode yes\n"
    )
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    (programs / "ssh").chmod(0o755)
    return programs


@contextmanager
def _sshd(engine: SecondEngine) -> Iterator[str]:
    """An sshd of the test's own, where `docker` is the second engine; yields the address for a context."""
    folder = engine.folder
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nHostKey {folder}/host.key\nAuthorizedKeysFile {folder}/user.key.pub\n"
        "PasswordAuthentication no\nStrictModes no\nPidFile none\nMaxStartups 100\n"
        f"SetEnv DOCKER_HOST={engine.socket}\n"
    )
    port = engine.port + 1 if engine.port < 65535 else engine.port - 1
    with (folder / "sshd.log").open("wb") as log:
        command = [str(SSHD), "-D", "-e", "-f", str(folder / "sshd_config"), "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + UP_S
        address = f"{getpass.getuser()}@127.0.0.1"
        while subprocess.run(
            [folder / "bin/ssh", "-p", str(port), address, "true"], check=False, capture_output=True
        ).returncode:
            assert time.monotonic() < deadline, (folder / "sshd.log").read_text()
            time.sleep(0.2)
        yield f"host=ssh://{address}:{port}"
    finally:
        process.terminate()
        process.wait()


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

    far.engine.stop()
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


@pytest.mark.slow
@pytest.mark.skipif(SSHD is None, reason="needs sshd: apt-get install openssh-server")
def test_an_engine_is_reached_by_ssh(place: Workplace, far: Far) -> None:
    """A whole pyramid over ssh: streams in both directions, deadlines and exit codes are as over a socket."""
    chosen = ["--researchenv-agent=oracle", "-k", "plain"]

    alone = place.run(*chosen, "--researchenv-results=alone").outcomes
    with _sshd(far.engine) as address:
        far.add("ssh", address)
        ran = place.run(*chosen, "--researchenv-docker=ssh", environ=far.environ)

    assert ran.outcomes, ran.text
    assert ran.outcomes == alone, ran.text
    assert _engines(ran) == {"plain/attempt-001": "ssh"}
