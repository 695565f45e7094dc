"""The command that writes a run into one archive, or an environment into a folder."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results, run_folder
from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.model import Environment
from pytest_researchenv.provenance import harness_identity
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sharing.collecting import Collected, attempt_files, collect_run
from pytest_researchenv.sharing.contents import TABLE, Contents, contents_json
from pytest_researchenv.sharing.images import held_images, save_images
from pytest_researchenv.sharing.packing import copy_counted, member_of, new_folder, write_archive
from pytest_researchenv.sharing.recipe import recipe
from pytest_researchenv.store import Attempt, load_environment


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["add_command"]

_README = """\
# {key}

An environment that an agent built for research code, exported by pytest-researchenv.

- `recipe.Dockerfile`: how it came about, as far as it was recorded. Read it; it is not meant to be built as it is.
- `run/`: what was recorded: the self-report (`report.json`), what the agent printed, its trajectory, verdicts and logs.
- `{table}`: size and SHA-256 of each file in `run/`, and of the image.
- {frozen}

{look}To have it in a results folder, and to verify it:

    researchenv import .
    researchenv verify {run}
"""

_LOOK = """\
To look into it:

    docker load -i {archive}
    docker run --rm -it --network none --workdir {workdir} {image} bash

"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    export = commands.add_parser("export")
    kinds = export.add_subparsers(required=True, metavar="WHAT")

    environment = kinds.add_parser(
        "environment", help="records, frozen image and a Dockerfile-like record of its making"
    )
    environment.add_argument("attempt", type=Path, help="folder of the attempt, as a failure message names it")
    environment.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="new folder")
    environment.add_argument("--no-image", action="store_true", help="leave the image out; needs no container engine")
    environment.add_argument("--gzip", action="store_true", help="pack the image")
    add_json(environment)
    environment.set_defaults(run=_environment)

    run = kinds.add_parser("run", help="everything that a run has recorded")
    run.add_argument("name", metavar="RUN", nargs="?", default="default", help="name of the run (default: default)")
    add_results(run)
    run.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="new file, such as run.tar.gz")
    run.add_argument("--images", action="store_true", help="also its frozen images, and the base images below them")
    add_json(run)
    run.set_defaults(run=_run)


# --- a run ------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    folder = run_folder(arguments.results, arguments.name)
    collected = collect_run(folder)
    if not collected.attempts:
        raise ConfigurationError(
            f"the run in {folder} holds no attempt that is finished: {_listed(collected.left_out)}"
        )
    files = dict(sorted(collected.files.items()))
    with ExitStack() as stack:
        contents = _contents("run", folder.name, files)
        missing: list[str] = []
        if arguments.images:
            environments = list(_environments(collected))
            archive, images, missing = stack.enter_context(_image_archive(environments, arguments.output))
            if images:
                files["images.tar"] = archive
                members = {**contents.members, "images.tar": member_of(archive)}
                contents = replace(contents, members=members, images=tuple(images))
        write_archive(arguments.output, contents, files)
    remarks = [f"left out: {one}" for one in collected.left_out] + [f"left out: image {one} is gone" for one in missing]
    _tell(arguments, contents, {"attempts": len(collected.attempts), "left_out": remarks})
    return 0


def _environments(collected: Collected) -> Iterator[Environment]:
    """Yield those whose records can be read; which cannot is told with the rest that is left out."""
    for attempt in collected.attempts:
        try:
            if found := attempt.environment():
                yield found
        except StoreError as error:
            collected.left_out.append(f"the image of {attempt.key}: {error}")


@contextlib.contextmanager
def _image_archive(environments: Sequence[Environment], output: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Save a run's images beside the output, where there is room for them; yields where, which, and which are gone."""
    wanted = list(dict.fromkeys(image for one in environments for image in (one.image, one.base_image)))
    with contextlib.closing(connect()) as client:
        held = held_images(client, wanted)
        try:
            with tempfile.TemporaryDirectory(prefix=".researchenv-export-", dir=output.absolute().parent) as place:
                archive = Path(place, "images.tar")
                if held:
                    with archive.open("wb") as file:
                        save_images(client, held, file)
                yield archive, held, [image for image in wanted if image not in held]
        except OSError as error:
            raise ConfigurationError(f"images cannot be saved beside {output}: {error}") from error


# --- an environment ---------------------------------------------------------------------------------------


def _environment(arguments: argparse.Namespace) -> int:
    environment = load_environment(arguments.attempt)
    folder = arguments.attempt.resolve()
    # The repository's key has as many parts here as where it was made.
    run = folder.parents[environment.key.repository.count("/") + 2]
    key = replace(environment.key, run=run.name, attempt=int(folder.name.rpartition("-")[2]))
    files = dict(attempt_files(Attempt(key, folder), run))
    archive = "" if arguments.no_image else f"images.tar{'.gz' if arguments.gzip else ''}"
    with new_folder(arguments.output) as target:
        contents = _contents("environment", run.name, files)
        base = ""
        if archive:
            with contextlib.closing(connect()) as client:
                images = _save(client, environment, target / archive, pack=arguments.gzip)
                base = _name_of(client, environment.base_image)
            members = {**contents.members, archive: member_of(target / archive)}
            contents = replace(contents, members=members, images=tuple(images))
        for name, path in files.items():
            copy_counted(path, target / name, contents.members[name])
        (target / "recipe.Dockerfile").write_text(recipe(environment, folder, base=base), encoding="utf-8")
        (target / "README.md").write_text(_readme(environment, run.name, archive), encoding="utf-8")
        (target / TABLE).write_bytes(contents_json(contents))
    _tell(arguments, contents, {"attempts": 1, "left_out": []})
    return 0


def _save(client: DockerClient, environment: Environment, target: Path, *, pack: bool) -> list[str]:
    images = held_images(client, list(dict.fromkeys((environment.image, environment.base_image))))
    if environment.image not in images:
        raise ConfigurationError(
            f"the frozen image of {environment.key} is gone, {environment.image}: export its records by --no-image"
        )
    with target.open("wb") as file:
        save_images(client, images, file, pack=pack)
    return images


def _name_of(client: DockerClient, image: str) -> str:
    held = held_images(client, [image])
    tags = client.images.get(image).tags if held else []
    return str(tags[0]) if tags else ""


def _readme(environment: Environment, run: str, archive: str) -> str:
    image = environment.image
    frozen = (
        f"`{archive}`: the frozen image, {image}, with its base image." if archive else "The frozen image was left out."
    )
    look = _LOOK.format(archive=archive, workdir=environment.workdir, image=image) if archive else ""
    return _README.format(key=environment.key, table=TABLE, frozen=frozen, look=look, run=run)


# --- both -------------------------------------------------------------------------------------------------


def _contents(kind: str, run: str, files: Mapping[str, Path]) -> Contents:
    return Contents(
        kind=kind,  # type: ignore[arg-type] # one of two words
        run=run,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        harness=harness_identity(),
        members={name: member_of(path) for name, path in files.items()},
    )


def _tell(arguments: argparse.Namespace, contents: Contents, said: Mapping[str, object]) -> None:
    document = {
        "output": str(arguments.output),
        "files": len(contents.members),
        "bytes": contents.total_bytes,
        "images": list(contents.images),
        **said,
    }
    if arguments.json:
        print_json(document)
        return
    print(
        f"{arguments.output}: {said['attempts']} attempts, {len(contents.members)} files, {contents.total_bytes} bytes"
    )
    print(f"images: {len(contents.images)}" if contents.images else "images: none")
    for remark in said["left_out"]:  # type: ignore[attr-defined] # a list
        print(remark)


def _listed(sentences: Sequence[str]) -> str:
    return "; ".join(sentences) or "nothing was built in it yet"
