"""Assets on a real engine: seen by the probe alone, read-only, and still without a network."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_researchenv.model import Asset, Evidence, FileEvidence, Repository, Tier, TierSpec, Verdict
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.assets import ensure_asset
from pytest_researchenv.source import fetch


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.labels import Owner
    from tests.integration.conftest import Workshop


_log = logging.getLogger(__name__)

_SCRIPT = """
import pathlib, socket, sys
asset = pathlib.Path(sys.argv[1])
assert asset.read_text() == "weights"
try:
    asset.write_text("changed")
except OSError as error:
    print("read-only:", error)
else:
    sys.exit("the asset could be changed")
assert [name for _, name in socket.if_nameindex()] == ["lo"], socket.if_nameindex()
pathlib.Path(sys.argv[2], "seen").write_text("seen")
"""


def test_an_asset_is_mounted_read_only_and_the_network_stays_off(
    workshop: Workshop, needy: Repository, docker_client: DockerClient, owner: Owner, tmp_path: Path
) -> None:
    """A probe finds the file by its name, cannot change it, and cannot fetch anything else."""
    file = tmp_path / "weights.bin"
    file.write_text("weights")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    spec = TierSpec(
        argv=("{python}", "-c", _SCRIPT, "{assets}/weights.bin/weights.bin", "{out}"),
        assets=("weights.bin",),
        timeout_s=60,
        evidence=Evidence(files=(FileEvidence("{out}/seen"),)),
    )
    asset = Asset("https://host.example/weights.bin", digest, file.stat().st_size)
    repository = replace(needy, tiers={Tier.C1: spec}, assets={"weights.bin": asset})
    environment = workshop.build(repository, 'report /usr/bin/python3 system ""')
    mount = ensure_asset(
        docker_client, "weights.bin", digest, file, owner=owner, image=workshop.engine.base_image, say=_log.info
    )
    try:
        result = C1Probe().judge(
            ProbeTask(
                environment=environment,
                repository=repository,
                tree=fetch(repository, cache=tmp_path / "cache"),
                sandbox=workshop.engine.sandbox,
                tools=workshop.engine.tools,
                log=lambda text: _log.debug("%s", text),
                settings={},
                assets=(mount,),
            )
        )
    finally:
        docker_client.volumes.get(mount.volume).remove()

    assert result.verdict is Verdict.PASSED, result
