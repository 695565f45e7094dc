"""Start a probe in its own fresh container, and bring back what it did.

The agent had root in the image, so what the probe stands on is made anew by tar streams, unpacked at `/` before
anything runs: tracked files that differ go back to the pinned tree, and every folder on the way is named, which
replaces a link planted there. Probe script, output and bytecode live below a folder with a random name, so that
nothing can have been laid in their place beforehand.
"""

from __future__ import annotations

import io
import re
import secrets
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.model import Evidence, TierSpec
from pytest_researchenv.probes.evidence import Outputs, read_outputs
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.protocol import Completed, Container, ContainerSpec, Sandbox
from pytest_researchenv.source import tree_tar


__all__ = ["Broken", "Finished", "attempted", "find_interpreter", "launch", "restored"]

#: Folder of everything that probes bring along; each launch has a folder of its own in it.
_HOME = "/researchenv/probes"
_CONTROL_S = 60.0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Broken:
    """The environment does not even let a probe start; the engine is not to blame.

    Attributes:
        reason: what happened, in words.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A probe that ran.

    Attributes:
        completed: how it ended and what it printed.
        outputs: what it wrote.
        evidence: what the suite demands, with placeholders filled in.
        out: its output folder in the container.
    """

    completed: Completed
    outputs: Outputs
    evidence: Evidence
    out: str


@dataclass(frozen=True, slots=True)
class _Places:
    """Where one launch finds its things in the container."""

    repo: str
    home: str = field(default_factory=lambda: f"{_HOME}/{secrets.token_hex(8)}")

    @property
    def out(self) -> str:
        return f"{self.home}/out"

    @property
    def pycache(self) -> str:
        return f"{self.home}/pycache"


def launch(
    task: ProbeTask,
    tier: TierSpec,
    python: str,
    *,
    script: Path | None = None,
    hide_devices: bool = False,
    device: str = "cpu",
    nproc: int = 1,
) -> Finished | Broken:
    """Run a tier's command, or its probe script, as the main process of a fresh container.

    Args:
        task: what is judged.
        tier: how; its placeholders are filled in here.
        python: the reported interpreter.
        script: the probe script; None when the tier has a command.
        hide_devices: whether accelerators are hidden from frameworks.
        device: value of `{device}` and `RESEARCHENV_DEVICE`.
        nproc: value of `{nproc}` and `RESEARCHENV_NPROC`.

    Raises:
        SandboxError: the engine fails on the base image, too.
    """
    interpreter = attempted(task, lambda: find_interpreter(task.sandbox, task.environment.image, python))
    if isinstance(interpreter, Broken):
        return interpreter
    places = _Places(task.environment.workdir)
    values = {"python": python, "repo": places.repo, "out": places.out, "device": device, "nproc": str(nproc)}
    world = probe_environment(interpreter, pycache=places.pycache, hide_devices=hide_devices)
    files = {f"{places.home}/script/{script.name}": script.read_bytes()} if script else {}
    spec = _container(task, tier, world, values, argv=(python, *files) if files else tier.argv)
    evidence = _filled_evidence(tier.evidence, values)

    def call() -> Finished:
        with restored(task, spec, files=files, folders=(places.out,)) as container:
            completed = container.run(timeout_s=tier.timeout_s, on_output=task.log)
            with container.get(places.out) as stream:
                return Finished(completed, read_outputs(stream, places.out), evidence, places.out)

    return attempted(task, call)


def _container(
    task: ProbeTask, tier: TierSpec, world: Mapping[str, str], values: Mapping[str, str], *, argv: tuple[str, ...]
) -> ContainerSpec:
    """Say what the probe's container is made from."""
    told = {f"RESEARCHENV_{name.upper()}": value for name, value in values.items() if name != "python"}
    added = {name: _filled(value, values) for name, value in tier.environment.items()}
    return ContainerSpec(
        image=task.environment.image,
        argv=tuple(_filled(argument, values) for argument in argv),
        environment={**world, **told, **added},
        workdir=_filled(tier.workdir, values),
    )


def attempted(task: ProbeTask, call: Callable[[], _T]) -> _T | Broken:
    """Make a call on the snapshot, and find out who is to blame when it fails.

    An agent must not be able to turn a failure into an error, nor a hiccup of the engine into a failure. So a call
    that fails is made once more, and then the same kind of call is made on the base image, which the agent never
    touched.

    Args:
        task: what is judged.
        call: the call; it must clean up after itself.

    Returns:
        What the call returned, or `Broken` when only the snapshot makes it fail.

    Raises:
        SandboxError: the base image fails as well, so the engine is to blame.
    """
    try:
        return call()
    except SandboxError as error:
        task.log(f"[researchenv] {error}; trying once more\n".encode())
    try:
        return call()
    except SandboxError as error:
        task.log(f"[researchenv] {error}; trying the base image\n".encode())
        _control(task)
        return Broken(str(error))


def _control(task: ProbeTask) -> None:
    """Put files, start a process and read a folder on the base image; raise what the engine raises."""
    environment = replace(task.environment, image=task.environment.base_image, changed=())
    places = _Places(environment.workdir)
    spec = ContainerSpec(image=environment.image, argv=("/bin/sh", "-c", ":"), workdir=places.repo)
    with restored(replace(task, environment=environment), spec, folders=(places.out,)) as container:
        completed = container.run(timeout_s=_CONTROL_S)
        if not completed.ok:
            raise SandboxError(f"the control run on the base image {environment.image} {completed.how}")
        with container.get(places.out) as stream:
            read_outputs(stream, places.out)


@contextmanager
def restored(
    task: ProbeTask,
    spec: ContainerSpec,
    *,
    files: Mapping[str, bytes] | None = None,
    folders: tuple[str, ...] = (),
) -> Iterator[Container]:
    """Make a container in which the tracked files are those of the pinned tree; nothing runs yet.

    Unchanged tracked files, and everything untracked (compiled extensions, build output, editable installs), stay
    as the agent left them.

    Args:
        task: what is judged.
        spec: the container.
        files: absolute path → content of further files.
        folders: absolute paths of further folders.
    """
    with task.sandbox.opened(spec) as container:
        changed = replace(task.tree, files=task.environment.changed)
        with tree_tar(changed, prefix=task.environment.workdir, exclude_git=True) as archive:
            container.put("/", archive)
        with _archive(files or {}, folders) as archive:
            container.put("/", archive)
        yield container


def find_interpreter(sandbox: Sandbox, image: str, python: str) -> Interpreter | Broken:
    """Look for a reported interpreter in an image from outside, without running anything."""
    with sandbox.opened(ContainerSpec(image=image, argv=("/bin/sh", "-c", ":"))) as container:
        with container.get(python) as stream:
            if stream is None:
                return Broken(f"the reported interpreter {python} does not exist")
        # Where Python itself looks for it, one folder above the executable's.
        prefix = PurePosixPath(python).parent.parent
        with container.get(str(prefix / "pyvenv.cfg")) as stream:
            return Interpreter(python, venv="" if stream is None else str(prefix))


@contextmanager
def _archive(files: Mapping[str, bytes], folders: tuple[str, ...]) -> Iterator[IO[bytes]]:
    """Make a tar stream for `/`: every folder on the way first, then what is in it."""
    with io.BytesIO() as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            named = {PurePosixPath("/")}
            for folder in folders:
                _add_folders(tar, PurePosixPath(folder), named)
            for path, content in files.items():
                _add_folders(tar, PurePosixPath(path).parent, named)
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        stream.seek(0)
        yield stream


def _add_folders(tar: tarfile.TarFile, folder: PurePosixPath, named: set[PurePosixPath]) -> None:
    """Name a folder and all above it, from the top, each once."""
    for path in (*reversed(folder.parents), folder):
        if path in named:
            continue
        named.add(path)
        entry = tarfile.TarInfo(str(path).lstrip("/"))
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o755
        tar.addfile(entry)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in placeholders in one pass; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def _filled_evidence(evidence: Evidence, values: Mapping[str, str]) -> Evidence:
    return replace(
        evidence,
        files=tuple(replace(demand, path=_filled(demand.path, values)) for demand in evidence.files),
        json=tuple(replace(demand, path=_filled(demand.path, values)) for demand in evidence.json),
    )
