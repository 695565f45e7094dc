"""What a million untracked files in a repository cost: `python benchmarks/restoration.py [FILES]`.

The tracked files of a repository are compared with the pinned tree in a container that holds nothing else, and again in
one where an agent left so many files among them. Printed are time and rise of memory, and the ratios. Needs Docker.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.provision import changed_paths
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerContainer, DockerSandbox
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec
from pytest_researchenv.source import fetch, tree_tar


TRACKED = 2000
REPO = "/workspace/many"
SCATTER = """
import os, sys
for i in range(int(sys.argv[1])):
    if i % 1000 == 0:
        os.mkdir(f"untracked-{i}")
    os.close(os.open(f"untracked-{i - i % 1000}/{i}", os.O_CREAT))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one comparison took."""

    seconds: float
    rise_bytes: int


def main(files: int) -> None:
    """Measure both, and print them."""
    with contextlib.closing(connect()) as client, tempfile.TemporaryDirectory() as folder:
        owner = Owner.current("benchmark")
        sandbox = DockerSandbox(client, owner)
        image = ensure_base_image(client, owner=owner, say=print).image
        tree = _tree(Path(folder))
        with _container(sandbox, image, tree) as container:
            plain = _compare(container, tree)
            done = container.exec(["python3", "-c", SCATTER, str(files)], timeout_s=3600, workdir=REPO)
            if not done.ok:
                raise SystemExit(done.output.text())
            container.stop()
            many = _compare(container, tree)
    print(f"{TRACKED} tracked files: {plain.seconds:.1f} s, memory rose by {plain.rise_bytes / 2**20:.0f} MiB")
    print(f"and {files} untracked: {many.seconds:.1f} s, memory rose by {many.rise_bytes / 2**20:.0f} MiB")
    ratio = many.seconds / plain.seconds
    print(f"time x {ratio:.1f}; {(many.seconds - plain.seconds) / files * 1e6:.0f} s more for a million files")


def _tree(folder: Path) -> Tree:
    source = folder / "source"
    source.mkdir()
    for number in range(TRACKED):
        (source / f"tracked-{number}.py").write_text(f"NUMBER = {number}\n" * 100)
    return fetch(Repository("many", PathSource(str(source)), folder=str(folder)), cache=folder / "cache")


@contextlib.contextmanager
def _container(sandbox: DockerSandbox, image: str, tree: Tree) -> Iterator[DockerContainer]:
    with sandbox.opened(ContainerSpec(image)) as container:
        with tree_tar(tree, prefix=REPO) as archive:
            container.put("/", archive)
        container.start()
        yield container


def _compare(container: DockerContainer, tree: Tree) -> Cost:
    Path("/proc/self/clear_refs").write_text("5")  # Forgets the peak until now.
    before = _memory("VmRSS")
    started = time.monotonic()
    with container.get(REPO) as archive:
        if archive is None or changed_paths(archive, tree):
            raise SystemExit("an untouched tree was taken for a changed one")
    return Cost(time.monotonic() - started, _memory("VmHWM") - before)


def _memory(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
