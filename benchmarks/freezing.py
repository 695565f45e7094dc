"""Freeze an environment of many gigabytes, and start a probe's container from it.

What an agent would have installed is stood in for by files of random bytes: so many bytes, in so many files, beside
those of the base image.

    python -m benchmarks.freezing [--gigabytes N]... [--files N]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time

from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec


_STARTS = 5
_WRITE = """
import os, pathlib
for number in range({files}):
    place = pathlib.Path(f"/opt/installed/{{number % 100}}/{{number}}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        for _ in range({blocks}):
            file.write(os.urandom({block}))
os.sync()
"""


def measured(sandbox: DockerSandbox, image: str, gigabytes: float, files: int) -> None:
    """Fill a container, freeze it, start others from it, and print how long each took."""
    each = round(gigabytes * 1e9 / files)
    block = min(each, 1 << 20)
    script = _WRITE.format(files=files, blocks=max(1, each // block), block=block)
    with sandbox.opened(ContainerSpec(image=image)) as container:
        container.start()
        filled = container.exec(["python3", "-c", script], timeout_s=3600)
        if not filled.ok:
            raise RuntimeError(f"the container was not filled: {filled.how}: {filled.stdout.text}")
        container.stop()
        began = time.perf_counter()
        with container.changes() as changes:
            changed = sum(1 for _ in changes)
        listed = time.perf_counter()
        frozen = container.freeze("researchenv-benchmark:large", labels={})
        ended = time.perf_counter()
    starts = []
    try:
        for _ in range(_STARTS):
            start = time.perf_counter()
            with sandbox.opened(ContainerSpec(image=frozen, argv=("true",))) as probe:
                probe.run(timeout_s=600)
            starts.append(time.perf_counter() - start)
    finally:
        sandbox.remove_image(frozen)
    print(
        f"{gigabytes:4g} GB in {files:6} files: list of {changed} changes {listed - began:5.1f} s, "
        f"freeze {ended - listed:5.1f} s, a container from it {statistics.median(starts):.2f} s",
        flush=True,
    )


def main() -> None:
    """Measure each size that was asked for."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[0.1, 5.0])
    parser.add_argument("--files", type=int, default=20_000)
    arguments = parser.parse_args()
    owner = Owner.current("benchmark")
    with contextlib.closing(connect()) as client:
        image = ensure_base_image(client, owner=owner, say=print).image
        for gigabytes in arguments.gigabytes:
            measured(DockerSandbox(client, owner), image, gigabytes, arguments.files)


if __name__ == "__main__":
    main()
