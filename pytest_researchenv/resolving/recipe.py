"""The resolver run of a recipe: what it would install on the target, resolved and not installed.

The recipe itself runs, in a fresh container of the base image, with the network that agents have and the pinned tree in
its place where it can be had. A folder in front of `PATH` holds what stands in for installers and the tools of a
system, and an `nvidia-smi`, so that recipes take their branch for a GPU.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO, Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from pytest_researchenv._sources import STRICT
from pytest_researchenv.agents.script import oracle_script
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError, SourceError
from pytest_researchenv.model import Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Network
from pytest_researchenv.source import fetch, tree_tar


__all__ = ["PLATFORM", "TARGET_PYTHON", "Install", "Resolved", "resolve_recipe"]

#: The target, Ubuntu 22.04: its C library, as a platform of wheels, and its own Python.
PLATFORM = "x86_64-manylinux_2_35"
TARGET_PYTHON = "3.10"

_TIMEOUT_S = 3600.0
_MOST_BYTES = 64 * 1024**2

#: Where the stand-ins lie, and what is called by their names.
_HOME = "/researchenv-resolve"
_NAMES = ("uv", "pip", "pip3", "nvidia-smi", "apt-get", "apt", "git", "curl", "wget", "conda", "mamba", "nvcc")
_FILES = ("stand_in.py", "resolution.py", "wanted.py")

#: Folders of wheels hold what fits this host.
_OF_THIS_HOST = ("PIP_FIND_LINKS", "UV_FIND_LINKS")

_CALL = f"""\
#!/bin/sh
unset {" ".join(_OF_THIS_HOST)}
PYTHONPATH={_HOME} exec /usr/bin/python3 -s -m inside.stand_in "$@"
"""

_PROLOGUE = f"""\
set -euo pipefail
export PATH={_HOME}/bin:$PATH
report() {{ echo "the recipe has ended"; }}
# What would have been installed cannot be called.
command_not_found_handle() {{ echo "$1 is not here"; }}
"""


@dataclass(frozen=True, slots=True)
class Install:
    """One command that installs.

    Attributes:
        command: what the recipe called.
        resolved: package → version.
        unresolved: requirement, and why nothing can be said of it.
        problem: what the resolver found wrong; empty when nothing.
        replaced: package → the version that an earlier command brought, and the one that takes its place.
    """

    __pydantic_config__: ClassVar = STRICT

    kind: Literal["install"]
    command: str
    resolved: dict[str, str]
    unresolved: tuple[tuple[str, str], ...]
    problem: str
    replaced: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Python:
    __pydantic_config__: ClassVar = STRICT

    kind: Literal["python"]
    command: str
    python: str


@dataclass(frozen=True, slots=True)
class _Other:
    __pydantic_config__: ClassVar = STRICT

    kind: Literal["other"]
    command: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """What came of one recipe.

    Attributes:
        repository: its name.
        python: the releases that its environments have on the target.
        installs: what it asked for, in order.
        others: what else it called, which did nothing.
        ended: how it ended, where it did not reach its end.
        tree: why the pinned tree could not be had; empty when it was there.
    """

    repository: str
    python: tuple[str, ...] = ()
    installs: tuple[Install, ...] = ()
    others: tuple[str, ...] = ()
    ended: str = ""
    tree: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes the recipe's set of packages inconsistent, a command each."""
        return tuple(f"{one.command}: {one.problem}" for one in self.installs if one.problem)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """What nothing can be said of, and why."""
        found = [f"{what}: {why}" for one in self.installs for what, why in one.unresolved]
        return tuple(dict.fromkeys(found)) + ((f"the rest of the recipe: it {self.ended}",) if self.ended else ())

    @property
    def replaced(self) -> tuple[str, ...]:
        """What a later command puts in the place of what an earlier one brought."""
        return tuple(f"{name} {versions}" for one in self.installs for name, versions in one.replaced.items())

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "repository": self.repository,
            "tree": self.tree,
            "python": list(self.python),
            "commands": len(self.installs),
            "packages": dict(self.packages),
            "conflicts": list(self.problems),
            "unresolved": list(self.unresolved),
            "replaced": list(self.replaced),
            "ended": self.ended,
        }


_ADAPTER: TypeAdapter[Install | _Python | _Other] = TypeAdapter(
    Annotated[Install | _Python | _Other, Field(discriminator="kind")]
)


def resolve_recipe(
    repository: Repository, *, engine: Engine, cache: Path, log: Callable[[bytes], object] = lambda _: None
) -> Resolved:
    """Run the recipe of a repository with everything that installs replaced by a resolver.

    Args:
        repository: whose.
        engine: what to run it with.
        cache: folder that keeps trees.
        log: given what the recipe prints.

    Raises:
        SuiteError: it has no recipe.
        SandboxError: the engine failed, or what was written down in the container is not readable.
    """
    script = _PROLOGUE + oracle_script(repository)
    missing = ""
    tree: Tree | None = None
    try:
        tree = fetch(repository, cache=cache)
    except SourceError as error:
        missing = str(error)
    spec = ContainerSpec(image=engine.base_image, network=Network.OPEN, mounts=engine.mounts)
    with engine.sandbox.opened(spec) as container:
        with _stand_ins(script) as archive:
            container.put("/", archive)
        if tree is not None:
            with tree_tar(tree, prefix=repository.workdir) as archive:
                container.put("/", archive)
        container.start()
        if tree is None:
            _make_empty(container, repository.workdir)
        done = container.exec(
            ["bash", f"{_HOME}/recipe.sh"],
            timeout_s=_TIMEOUT_S,
            environment=_environment(engine),
            workdir=repository.workdir,
            on_output=log,
        )
        records = _records(container)
    last = "".join(done.output.text().strip().splitlines()[-1:])
    return _resolved(repository, records, ended="" if done.ok else f"{done.how}, with {last!r}", tree=missing)


def _environment(engine: Engine) -> dict[str, str]:
    return {
        **engine.environment,
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        "UV_PYTHON_DOWNLOADS": "never",
        "RESEARCHENV_RESOLVE": _HOME,
        "RESEARCHENV_UV": "/usr/local/bin/uv",
        "RESEARCHENV_PLATFORM": PLATFORM,
        "RESEARCHENV_PYTHON": TARGET_PYTHON,
    }


def _make_empty(container: Container, workdir: str) -> None:
    """Put an empty Git folder where the tree would be, and a mark for the stand-ins."""
    command = (
        f"mkdir -p {shlex.quote(workdir)} && cd {shlex.quote(workdir)} && git init -q && touch .researchenv-no-tree"
    )
    done = container.exec(["bash", "-c", command], timeout_s=60)
    if not done.ok:
        raise SandboxError(f"an empty folder cannot be made in a container: {done.output.text()}")


def _resolved(repository: Repository, records: list[Install | _Python | _Other], *, ended: str, tree: str) -> Resolved:
    installs = tuple(one for one in records if isinstance(one, Install))
    packages: dict[str, str] = {}
    for install in installs:
        packages |= install.resolved
    return Resolved(
        repository.name,
        python=tuple(dict.fromkeys(one.python for one in records if isinstance(one, _Python))),
        installs=installs,
        others=tuple(one.command for one in records if isinstance(one, _Other)),
        ended=ended,
        tree=tree,
        packages=packages,
    )


def _records(container: Container) -> list[Install | _Python | _Other]:
    """What the stand-ins wrote down; nothing where none was called."""
    with container.get(f"{_HOME}/record.jsonl") as archive:
        if archive is None:
            return []
        return _parse(archive)


def _parse(archive: IO[bytes]) -> list[Install | _Python | _Other]:
    """Read the record, which the recipe can have overwritten."""
    try:
        with tarfile.open(fileobj=archive, mode="r|") as members:
            member = members.next()
            if member is None or not member.isreg() or member.size > _MOST_BYTES:
                raise SandboxError(f"what a recipe's commands wrote down is no file of at most {_MOST_BYTES} bytes")
            content = members.extractfile(member)
            lines = content.read().splitlines() if content else []
        return [_ADAPTER.validate_json(json.dumps(json.loads(line)), strict=True) for line in lines]
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise SandboxError(f"what a recipe's commands wrote down is not readable: {error}") from error


@contextmanager
def _stand_ins(script: str) -> Iterator[IO[bytes]]:
    """An archive of all that stands in, and of the recipe."""
    folder = resources.files("pytest_researchenv.resolving") / "inside"
    files = {f"inside/{name}": ((folder / name).read_text(), 0o644) for name in _FILES}
    files |= {f"bin/{name}": (f'#!/bin/sh\nexec {_HOME}/call {name} "$@"\n', 0o755) for name in _NAMES}
    # Some recipes call the system's interpreter: only its pip stands in.
    files |= {
        f"bin/{name}": (f'#!/bin/sh\nexec {_HOME}/call python /usr/bin/python3 "$@"\n', 0o755)
        for name in ("python", "python3")
    }
    files |= {"call": (_CALL, 0o755), "recipe.sh": (script, 0o644)}
    with io.BytesIO() as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            for name, (text, mode) in files.items():
                entry = tarfile.TarInfo(f"{_HOME}/{name}".lstrip("/"))
                entry.size, entry.mode = len(text.encode()), mode
                tar.addfile(entry, io.BytesIO(text.encode()))
        stream.seek(0)
        yield stream
