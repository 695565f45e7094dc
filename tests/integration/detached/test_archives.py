"""Archives and data sets in real containers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import NotFound

from pytest_researchenv.archiving.index import Kind
from pytest_researchenv.archiving.restoring import restore_to
from pytest_researchenv.archiving.taking import take_archive
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner

_log = logging.getLogger(__name__)

_ROOT = "/workspace/task"

#: Writes one file in place over and over, of the same size, each time with one letter; and what else there can be.
_BUSY = """
import os
os.makedirs("/workspace/task/deep", exist_ok=True)
os.chdir("/workspace/task")
open("quiet", "w").write("q" * 1000)
os.mkfifo("pipe")
os.symlink("quiet", "link")
with open("sparse", "wb") as sparse:
    sparse.truncate(10**13)
open("deep/\\u00fc ' name", "w").write("named")
with open("busy", "wb") as busy:
    turn = 0
    while True:
        for letter in b"abc":
            busy.seek(0)
            for _ in range(64):
                busy.write(bytes([letter]) * 65536)
            busy.flush()
"""


def test_what_is_written_to_meanwhile_is_whole_or_marked(
    docker_sandbox: DockerSandbox, base_image: str, tmp_path: Path
) -> None:
    """A file is of one moment unless it is marked; pipes, sparse files and odd names are no trouble."""
    with docker_sandbox.opened(ContainerSpec(base_image)) as container:
        container.start()
        ending = threading.Event()
        work = threading.Thread(
            target=lambda: container.exec(("python3", "-c", _BUSY), timeout_s=120, stop=ending.is_set), daemon=True
        )
        work.start()
        deadline = time.monotonic() + 60
        while (seen := container.stat(f"{_ROOT}/busy")) is None or not seen.size:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        first = take_archive(container, _ROOT, tmp_path, most_bytes=10**9)
        second = take_archive(container, _ROOT, tmp_path, most_bytes=10**9)
        ending.set()
        work.join(60)

    restore_to(tmp_path, tmp_path / "out")
    content = (tmp_path / "out/busy").read_bytes()
    assert second.entries["busy"].torn or len(set(content)) == 1
    assert (tmp_path / "out/quiet").read_bytes() == b"q" * 1000
    assert (tmp_path / "out/link").readlink() == Path("quiet")
    assert (tmp_path / "out/deep/\u00fc ' name").read_text() == "named"
    assert "10000000000000 bytes" in second.left_out["sparse"]
    assert "pipe" in second.left_out
    assert first.entries["quiet"].kind is Kind.FILE
    # Not read again.
    assert second.entries["quiet"].archive == 1


def test_data_are_seen_and_cannot_be_written_to(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, owner: Owner, tmp_path: Path
) -> None:
    """A data set lies below /data, read-only, and is put into a volume anew once a file of it has changed."""
    from pytest_researchenv.sandbox.data import ensure_data  # noqa: PLC0415 - docker only for tests that want it.

    name = f"set {uuid.uuid4().hex[:8]}"
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.txt").write_text("data")
    mounts: list[Mount] = []
    cache = tmp_path.parent
    try:
        for content in ("data", "more data"):
            (tmp_path / "deep/a.txt").write_text(content)
            mounts += [
                ensure_data(docker_client, name, tmp_path, owner=owner, image=base_image, say=_log.info, cache=cache)
                for _ in range(2)
            ]
            spec = ContainerSpec(base_image, mounts=(mounts[-1],))
            with docker_sandbox.opened(spec) as container:
                container.start()
                place = f"/data/{name.replace(' ', '_')}"
                done = container.exec(("sh", "-c", f"cat {place}/deep/a.txt; echo x > {place}/b"), timeout_s=30)
                assert content in done.output.text()
                assert "Read-only" in done.output.text()
        assert [mounts[0] == mounts[1], mounts[1] == mounts[2], mounts[2] == mounts[3]] == [True, False, True]
    finally:
        for volume in {mount.volume for mount in mounts}:
            with contextlib.suppress(NotFound):
                docker_client.volumes.get(volume).remove()
