"""Where an agent left files of its own: what is read of an image, and what is not."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from pytest_researchenv.integrity._whereabouts import Whereabouts, whereabouts
from pytest_researchenv.sandbox.protocol import Change, ChangeKind
from tests.unit.integrity.images import Nodes, md5, opened_image


SITE = "/opt/conda/lib/python3.11/site-packages"


def found(
    *paths: str, changed: Iterable[str] = (), removed: Iterable[str] = (), nodes: Nodes | None = None
) -> Whereabouts:
    """What is read where some paths were added: the folders on the way that are new must be named, as engines do."""
    changes = [Change(ChangeKind.ADDED, path) for path in paths]
    changes += [Change(ChangeKind.CHANGED, path) for path in changed]
    changes += [Change(ChangeKind.REMOVED, path) for path in removed]
    with opened_image(nodes or {}) as (_, snapshot):
        return whereabouts(snapshot, changes)


def test_a_new_folder_is_read_as_a_whole() -> None:
    """And a file in a folder that was there by itself; nothing of what was removed."""
    seen = found("/answers", "/answers/a", "/answers/a/b.py", "/root/x.sh", changed=["/root"], removed=["/etc/passwd"])

    assert (seen.trees, seen.files) == (["/answers"], ["/root/x.sh"])
    assert seen.left_out == 0
    assert "/answers/a/b.py" in seen.paths
    assert "/etc/passwd" not in seen.paths


def test_site_folders_are_read_by_themselves_and_first() -> None:
    """As the other checks read them, so that it is done once; what lies beside them apart."""
    seen = found("/opt/conda", "/opt/conda/bin", "/opt/conda/bin/x", "/opt/conda/lib", "/opt/conda/lib/python3.11")
    assert seen.trees == ["/opt/conda"]

    more = ("/opt/conda", "/opt/conda/bin", "/opt/conda/bin/x", "/opt/conda/lib", "/opt/conda/lib/python3.11", SITE)
    seen = found(*more, f"{SITE}/torch", f"{SITE}/torch/x.py", "/opt/conda/lib/python3.11/os.py", "/opt/conda/history")

    assert seen.trees == [SITE, "/opt/conda/bin"]
    assert seen.files == ["/opt/conda/history", "/opt/conda/lib/python3.11/os.py"]


def test_folders_without_a_text_are_not_read() -> None:
    """Programs, weights and pictures alone."""
    paths = ("/models", "/models/a.safetensors", "/models/b.pt", "/libs", "/libs/libx.so.1", "/libs/x.pyc")

    assert found(*paths).trees == []
    assert found(*paths, "/models/README").trees == ["/models"]


def test_what_a_package_brought_is_not_read() -> None:
    """What nobody owns is, file by file, also in its folders."""
    files = {"/usr/share/doc/x/a.txt": b"", "/usr/bin/x": b"", "/bin/y": b""}
    nodes = {"/var/lib/dpkg/info/x.md5sums": md5(*files.items())}
    brought = ("/usr/share/doc/x", "/usr/share/doc/x/a.txt", "/usr/bin/x", "/usr/bin/y")

    seen = found(*brought, "/usr/share/doc/x/oracle.sh", "/var/lib/dpkg/info/x.md5sums", nodes=nodes)

    assert (seen.trees, seen.files) == ([], ["/usr/share/doc/x/oracle.sh"])


@pytest.mark.parametrize(
    "path", ["/var/lib/apt/lists/x", "/var/lib/dpkg/status", "/etc/alternatives/x", "/proc/1/environ", "/dev/null"]
)
def test_what_the_system_keeps_for_itself_is_not_read(path: str) -> None:
    """Lists of packages have gigabytes."""
    assert found(path) == Whereabouts()


def test_weights_of_a_hub_are_not_read() -> None:
    """What is fetched stands in the folder's name, and small files beside them are read."""
    hub = "/root/.cache/huggingface/hub"
    model = f"{hub}/models--a--b"
    seen = found(hub, model, f"{model}/blobs", f"{model}/blobs/0a1b", f"{model}/refs", f"{model}/refs/main")

    assert f"{model}/blobs/0a1b" in seen.paths
    assert found(model, f"{model}/blobs/0a1b").trees == []


def test_what_is_too_much_is_counted() -> None:
    """Files of the agent's own places come first."""
    system = [f"/etc/{number:04}.conf" for number in range(1000)]
    seen = found(*system, "/root/oracle.sh", *(f"/{number}/x" for number in range(1000)))

    assert seen.files[0].startswith("/0/")
    assert "/root/oracle.sh" not in seen.files
    assert seen.left_out == 2001 - len(seen.files)


def test_a_hostile_tree_takes_no_time() -> None:
    """Two thousand folders deep, and a hundred thousand files."""
    begin = time.monotonic()
    deep = "/a" * 2000
    seen = found(deep, *(f"/b/{number}" for number in range(100_000)))

    assert seen.files[0] == deep
    assert time.monotonic() - begin < 10
