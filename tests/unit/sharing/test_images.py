"""Archives of images: only what an environment's record names comes to an engine, and under no name but ours."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import EnvironmentKey
from pytest_researchenv.sharing.images import check_images
from pytest_researchenv.sharing.importing import _placed
from pytest_researchenv.store import Attempt
from tests.unit.sharing.machines import IMAGE, Machine
from tests.unit.sharing.parcels import files_in, parcel


_CONFIGURATION = b'{"rootfs": {}}'
_HEX = hashlib.sha256(_CONFIGURATION).hexdigest()
_IMAGE = f"sha256:{_HEX}"
_OLD: list[dict[str, object]] = [{"Config": f"{_HEX}.json", "RepoTags": None, "Layers": []}]
_NEW: list[dict[str, object]] = [{"Config": f"blobs/sha256/{_HEX}", "RepoTags": [], "Layers": []}]


def _archive(path: Path, tables: Mapping[str, object], *, pack: bool = False) -> Path:
    with (gzip.open if pack else open)(path, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in {**tables, f"{_HEX}.json": _CONFIGURATION}.items():
            raw = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return path


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("entries", [_OLD, _NEW], ids=["old", "new"])
def test_images_without_names_are_taken(tmp_path: Path, entries: object, pack: bool) -> None:  # noqa: FBT001 - a parameter
    """In both forms that engines write, packed or not."""
    tables = {"manifest.json": entries, "index.json": {"manifests": [{"digest": "sha256:0"}]}, "repositories": {}}

    check_images(_archive(tmp_path / "images.tar", tables, pack=pack), [_IMAGE])


def test_engines_that_go_by_manifests_are_understood(tmp_path: Path) -> None:
    """Their image's id is the digest that the index has."""
    tables = {"manifest.json": _NEW, "index.json": {"manifests": [{"digest": "sha256:1"}]}}

    check_images(_archive(tmp_path / "images.tar", tables), ["sha256:1"])


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"manifest.json": [{**_OLD[0], "RepoTags": ["python:3.11"]}]}, "would give an image the name python:3.11"),
        ({"manifest.json": [{**_OLD[0], "RepoTags": ["researchenv/base:x"]}]}, "the name researchenv/base:x"),
        ({"manifest.json": _OLD, "repositories": {"python": {"3.11": _HEX}}}, "the name python"),
        (
            {
                "manifest.json": _NEW,
                "index.json": {"manifests": [{"digest": "x", "annotations": {"io.containerd.image.name": "evil:1"}}]},
            },
            "the name evil:1",
        ),
        ({"manifest.json": [*_OLD, {"Config": f"{'0' * 64}.json"}]}, "holds 2 images, and 1 belong"),
        ({"manifest.json": [{"Config": f"{'0' * 64}.json"}]}, "does not hold the image"),
        ({"manifest.json": [{"Config": "../../etc/passwd"}]}, "holds no images"),
        ({"manifest.json": [1]}, "holds no images"),
        ({"manifest.json": 1}, "holds no images"),
        ({"manifest.json": b"["}, "holds no images"),
        ({"manifest.json": b"[" * 100_000}, "holds no images"),
        ({"manifest.json": _OLD, "index.json": {"manifests": 5}}, "holds no images"),
        ({}, "it has no 'manifest.json'"),
    ],
    ids=range(13),
)
def test_what_an_engine_must_not_load_is_refused(tmp_path: Path, tables: Mapping[str, object], says: str) -> None:
    """Names that would take the place of the user's own images, images beside the point, and what is none."""
    with pytest.raises(ConfigurationError, match=r"loaded|holds no images") as refused:
        check_images(_archive(tmp_path / "images.tar", tables), [_IMAGE])
    assert says in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b no archive", bytes(1024)])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever it is."""
    (tmp_path / "images.tar").write_bytes(content)

    with pytest.raises(ConfigurationError, match="holds no images"):
        check_images(tmp_path / "images.tar", [_IMAGE])


@pytest.mark.parametrize(
    ("image", "says"),
    [("sha256:" + "1" * 64, "none of its environments has"), ("sha256:" + "0" * 64, "holds no images")],
)
def test_images_are_looked_at_before_anything_comes_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str, says: str
) -> None:
    """One that no environment names, and an archive of none."""
    machine = Machine(tmp_path / "machine")
    record = machine.build().folder / "environment.json"
    record.write_text(record.read_text().replace(IMAGE, "sha256:" + "0" * 64))
    files = {f"run/{name}": content for name, content in files_in(machine.results / "default").items()}
    source = parcel(tmp_path / "x.tar.gz", {**files, "images.tar": b"no archive"}, images=[image])

    assert main(["import", str(source), "--results", str(tmp_path / "here")]) == 1

    assert says in capsys.readouterr().err
    assert list((tmp_path / "here").iterdir()) == []


def test_images_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Then no engine is asked; their digest is compared all the same."""
    machine = Machine(tmp_path / "machine")
    machine.build()
    files = {f"run/{name}": content for name, content in files_in(machine.results / "default").items()}
    source = parcel(tmp_path / "x.tar.gz", {**files, "images.tar": b"no archive"}, images=["sha256:" + "0" * 64])

    assert main(["import", str(source), "--results", str(tmp_path / "here"), "--no-images"]) == 0
    assert files_in(tmp_path / "here") == files_in(machine.results)
    capsys.readouterr()


@pytest.mark.parametrize("said", ["repo", "a/b/c/d/e/f/g/h/i/j/k"])
def test_an_image_is_named_by_the_folder_of_its_attempt(tmp_path: Path, said: str) -> None:
    """What its records say of a repository may be anything, and no part of a path."""
    folder = tmp_path / "default" / "agent" / "suite" / "repo" / "attempt-002"
    forged = Attempt(EnvironmentKey("other", "../x", said, 7), folder)

    assert _placed(forged, tmp_path / "default").key == EnvironmentKey("default", "agent", "suite/repo", 2)
