"""What the package cache spares: the same packages for several containers in a row, with it and without.

Needs Docker and the package index of this host. Each round is a new container without anything that was downloaded
before, as each attempt is. Bytes are those that came over the network from the index: to the containers without the
cache, to the cache with it. Folders of packages of this host (`find-links`) are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING


sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_researchenv.engine import Engine
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.packagecache.cache import SharedCache
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.hostsettings import host_settings
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Join, Mount, Network, Sandbox
from pytest_researchenv.ways import open_ways


if TYPE_CHECKING:
    from docker import DockerClient


def received(client: DockerClient, container: str) -> int:
    """Bytes that a container got over its networks so far."""
    networks = client.containers.get(container).stats(stream=False).get("networks") or {}
    return sum(int(one["rx_bytes"]) for one in networks.values())


def rounds(engine: Engine, packages: list[str], number: int, came: Callable[[str], int]) -> tuple[list[float], int]:
    """Seconds of each round, and bytes of all."""
    took, total = [], 0
    for _ in range(number):
        with open_ways(engine, None, Reach.OPEN, labels={}, say=print) as ways:
            joins = tuple(map(Join, ways.networks))
            spec = ContainerSpec(engine.base_image, network=Network.OPEN, joins=joins, mounts=engine.mounts)
            with engine.sandbox.opened(spec) as container:
                container.start()
                before = came(container.id)
                environment = without_folders(ways.environment(container, folder="/root"))
                argv = ("pip", "download", "--quiet", "--no-cache-dir", "-d", "/root/packages", *packages)
                began = time.monotonic()
                done = container.exec(argv, timeout_s=1800, environment=environment)
                took.append(time.monotonic() - began)
                if not done.ok:
                    raise SystemExit(done.output.text())
                total += came(container.id) - before
    return took, total


def without_folders(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings without this host's folders of packages."""
    return {name: value for name, value in environment.items() if "FIND_LINKS" not in name}


def main() -> None:
    """Print a row for each of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=["numpy", "scipy", "pandas", "transformers"])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    owner = Owner.current("benchmark")
    with closing(connect()) as client:
        sandbox: Sandbox = DockerSandbox(client, owner)
        image = ensure_base_image(client, owner=owner, say=print).image
        host = host_settings(client, owner=owner, image=image, say=print)
        cache = SharedCache(client, owner=owner, limit_bytes=20 * 1024**3, say=print)
        plain = Engine(
            sandbox=sandbox,
            base_image=image,
            base_key="",
            mounts=(host.mount,) if host.mount else (),
            environment=host.environment,
            tools=Mount("", ""),
        )
        try:
            packages = cache.use()
            if packages is None:
                raise SystemExit("\n".join(cache.notes))
            for name, engine in (("without", plain), ("with", replace(plain, packages=cache))):
                took, came = rounds(
                    engine,
                    arguments.packages,
                    arguments.rounds,
                    lambda one, name=name: received(client, one if name == "without" else packages.network),
                )
                each = ", ".join(f"{seconds:.1f}" for seconds in took)
                print(f"{name:>8}: {each} s; {came / 1e6:.1f} MB from the index", flush=True)
        finally:
            cache.close()


if __name__ == "__main__":
    main()
