"""Start a probe in its own fresh container, and bring back what it did.

The agent had root in the image, so what the probe stands on is made anew by tar streams, unpacked at `/` before
anything runs: tracked files that differ go back to the pinned tree, and every folder on the way is named, which
replaces a link planted there. Probe script, output and bytecode live below a folder with a random name, so that
nothing can have been laid in their place beforehand.

Where devices are given, their memory is watched from outside while the probe runs. A probe that runs under the observer
is held at its end until its memory was seen, so that no probe is too fast to be believed.
"""

from __future__ import annotations

import io
import re
import secrets
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import IO, TypeVar

from pytest_researchenv.assets import HOME
from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.model import Evidence, TierSpec
from pytest_researchenv.probes.evidence import Outputs, read_outputs
from pytest_researchenv.probes.interpreter import Broken, find_interpreter
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.gpu import HELD_BYTES, DeviceUse, monitored
from pytest_researchenv.sandbox.protocol import Completed, Container, ContainerSpec, Limits
from pytest_researchenv.source import tree_tar
from pytest_researchenv.suite import shared_modules


__all__ = [
    "HELD_BYTES",
    "Broken",
    "DeviceMemory",
    "Finished",
    "Setting",
    "attempt_labels",
    "attempted",
    "blanked",
    "files_tar",
    "filled",
    "launch",
    "restored",
    "seen_interpreter",
]

#: Folder of everything that probes bring along; each launch has a folder of its own in it.
_HOME = "/researchenv/probes"
_CONTROL_S = 60.0

#: How long a probe under the observer may be held at its end, in seconds; with a working monitor it is some tenths.
_HOLD_S = 10.0
_LOOK_S = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a probe gets to run on.

    Attributes:
        devices: uuids of the accelerators; with none it runs on the CPU, and every accelerator is hidden.
        nproc: how many ranks to start.
    """

    devices: tuple[str, ...] = ()
    nproc: int = 1

    @property
    def device(self) -> str:
        """What frameworks call it."""
        return "cuda" if self.devices else "cpu"


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What a probe's processes held of the devices it was given, as the driver tells it.

    Attributes:
        peaks: uuid → bytes.
        sources: uuid → what the figure is, in words.
        samples: how often it was looked at while the probe ran.
    """

    peaks: Mapping[str, int]
    sources: Mapping[str, str]
    samples: int

    @property
    def held(self) -> tuple[str, ...]:
        """The devices that were used."""
        return tuple(uuid for uuid, peak in self.peaks.items() if peak >= HELD_BYTES)


@dataclass(frozen=True, slots=True)
class Finished:
    """A probe that ran.

    Attributes:
        completed: how it ended and what it printed.
        outputs: what it wrote.
        evidence: what the suite demands, with placeholders filled in.
        out: its output folder in the container.
        records: what the observer wrote, by path.
        nonce: what the observer's records of this launch hold.
        memory: what it held of its devices; None when it was given none.
    """

    completed: Completed
    outputs: Outputs
    evidence: Evidence
    out: str
    records: Outputs = field(default_factory=Outputs)
    nonce: str = ""
    memory: DeviceMemory | None = None


@dataclass(frozen=True, slots=True)
class _Places:
    """Where one launch finds its things in the container."""

    repo: str
    home: str = field(default_factory=lambda: f"{_HOME}/{secrets.token_hex(8)}")
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def out(self) -> str:
        return f"{self.home}/out"

    @property
    def observer(self) -> str:
        return f"{self.home}/observer/observer.py"

    @property
    def records(self) -> str:
        return f"{self.home}/observer/records"

    @property
    def release(self) -> str:
        """What ends a probe's waiting at its end."""
        return f"{self.home}/observer/release"


def launch(
    task: ProbeTask,
    tier: TierSpec,
    python: str,
    *,
    script: Path | None = None,
    setting: Setting = Setting(),
) -> Finished | Broken:
    """Run a tier's command, or its probe script, as the main process of a fresh container.

    Args:
        task: what is judged.
        tier: how; its placeholders are filled in here.
        python: the reported interpreter.
        script: the probe script; None when the tier has a command. With devices it is run under the observer.
        setting: what it runs on.

    Raises:
        InfrastructureError: the engine fails on the base image, too, or the driver does not tell who uses the devices.
    """
    interpreter = attempted(task, lambda: seen_interpreter(task, python))
    if isinstance(interpreter, Broken):
        return interpreter
    places = _Places(task.environment.workdir)
    values = _values(python, places, setting)
    files = {places.observer: resources.files("pytest_researchenv.probes").joinpath("inside/observer.py").read_bytes()}
    argv = tier.argv
    if script:
        path = f"{places.home}/script/{script.name}"
        # The script's folder is where Python looks first, in ranks that a launcher starts, too. Of one name, it wins.
        files |= {f"{places.home}/script/{file.name}": file.read_bytes() for file in shared_modules(task.repository)}
        files[path] = script.read_bytes()
        argv = (python, places.observer, path) if setting.devices else (python, path)
    spec = _container(task, tier, interpreter, places, setting=setting, argv=argv)
    evidence = _filled_evidence(tier.evidence, values)
    folders = (places.out, places.records)
    image = task.environment.base_image
    watching = monitored(task.sandbox, image=image, devices=setting.devices) if setting.devices else nullcontext()
    # Around the attempts, not in them: what fails here has nothing to do with the snapshot.
    with watching as use:

        def call() -> Finished:
            with restored(task, spec, files=files, folders=folders) as container, _released(container, places, use):
                completed = container.run(timeout_s=tier.timeout_s, on_output=task.log)
                with container.get(places.out) as stream:
                    outputs = read_outputs(stream, places.out)
                with container.get(places.records) as stream:
                    records = read_outputs(stream, places.records)
            return Finished(completed, outputs, evidence, places.out, records, places.nonce, _memory(setting, use))

        return attempted(task, call, control=partial(_control, task, setting.devices))


def _values(python: str, places: _Places, setting: Setting) -> dict[str, str]:
    """What placeholders stand for."""
    return {
        "python": python,
        "repo": places.repo,
        "out": places.out,
        "device": setting.device,
        "nproc": str(setting.nproc),
        "observer": places.observer,
        "assets": HOME,
    }


def _container(
    task: ProbeTask,
    tier: TierSpec,
    interpreter: Interpreter,
    places: _Places,
    *,
    setting: Setting,
    argv: tuple[str, ...],
) -> ContainerSpec:
    """Say what the probe's container is made from."""
    values = _values(interpreter.path, places, setting)
    world = probe_environment(interpreter, hide_devices=not setting.devices)
    told = {f"RESEARCHENV_{name.upper()}": value for name, value in values.items() if name != "python"}
    told["RESEARCHENV_NONCE"] = places.nonce
    if setting.devices:
        told["RESEARCHENV_HOLD_S"] = f"{_HOLD_S:g}"
    if task.repository.root_on_path:
        told["PYTHONPATH"] = places.repo
    added = {name: filled(value, values) for name, value in tier.environment.items()}
    return ContainerSpec(
        image=task.environment.image,
        argv=tuple(filled(argument, values) for argument in argv),
        environment={**world, **told, **added},
        workdir=filled(tier.workdir, values),
        labels=attempt_labels(task),
        limits=Limits(memory_bytes=int(tier.memory_gb * 1024**3)),
        mounts=task.assets,
        devices=setting.devices,
    )


# --- devices ----------------------------------------------------------------------------------------------


@contextmanager
def _released(container: Container, places: _Places, use: DeviceUse | None) -> Iterator[None]:
    """Let a probe that is held at its end go, once its memory was seen on every device."""
    if use is None:
        yield
        return
    use.watch(container)
    ended = threading.Event()
    releasing = threading.Thread(
        target=_release, args=(container, places.release, use, ended), name="researchenv-release", daemon=True
    )
    releasing.start()
    try:
        yield
    finally:
        ended.set()
        releasing.join()


def _release(container: Container, path: str, use: DeviceUse, ended: threading.Event) -> None:
    # A driver that stopped answering ends the monitor's block with that error; the probe ends its wait by itself.
    with suppress(InfrastructureError), files_tar({path: b""}) as archive:
        while not ended.wait(_LOOK_S):
            if use.samples and min(use.peaks().values()) >= HELD_BYTES:
                container.put("/", archive)
                return


def _memory(setting: Setting, use: DeviceUse | None) -> DeviceMemory | None:
    if use is None:
        return None
    return DeviceMemory(use.peaks(), {uuid: use.source(uuid) for uuid in setting.devices}, use.samples)


# --- who is to blame --------------------------------------------------------------------------------------


def attempt_labels(task: ProbeTask) -> dict[str, str]:
    """Labels of every container that a probe makes: which attempt it is for."""
    return {"researchenv.attempt": str(task.environment.key)}


def seen_interpreter(task: ProbeTask, python: str) -> Interpreter | Broken:
    """Look for an interpreter in the snapshot, as `find_interpreter` does, unless that was seen before."""
    key = task.environment.image, python
    if key not in task.interpreters:
        task.interpreters[key] = find_interpreter(task.sandbox, *key, labels=attempt_labels(task))
    return task.interpreters[key]


def attempted(task: ProbeTask, call: Callable[[], _T], *, control: Callable[[], object] | None = None) -> _T | Broken:
    """Make a call on the snapshot, and find out who is to blame when it fails.

    An agent must not be able to turn a failure into an error, nor a hiccup of the engine into a failure. So a call
    that fails is made once more, and then the same kind of call is made on the base image, which the agent never
    touched.

    Args:
        task: what is judged.
        call: the call; it must clean up after itself.
        control: the same kind of call on the base image. None: put files, start a process, read a folder.

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
        (control or partial(_control, task, ()))()
        return Broken(str(error))


def _control(task: ProbeTask, devices: tuple[str, ...]) -> None:
    """Put files, start a process and read a folder on the base image; raise what the engine raises."""
    environment = replace(task.environment, image=task.environment.base_image, changed=())
    places = _Places(environment.workdir)
    spec = ContainerSpec(
        image=environment.image,
        argv=("/bin/sh", "-c", ":"),
        workdir=places.repo,
        labels=attempt_labels(task),
        devices=devices,
    )
    with restored(replace(task, environment=environment), spec, folders=(places.out,)) as container:
        completed = container.run(timeout_s=_CONTROL_S)
        if not completed.ok:
            raise SandboxError(f"the control run on the base image {environment.image} {completed.how}")
        with container.get(places.out) as stream:
            read_outputs(stream, places.out)


# --- the container ----------------------------------------------------------------------------------------


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
    as the agent left them. Start-up hooks that nobody installed, as the audit found them, are blanked: they would run
    before anything that is judged.

    No bytecode that was there before is run: Python trusts it on its source's time and size alone, or without a look
    at it, so that it may be anything's. `PYTHONPYCACHEPREFIX` names a folder of this container alone, and numba's
    variable another one, since it keeps machine code in the same folders and trusts it likewise; ranks and other
    children inherit both. Sources are compiled once more, in each container, at 3.4 s of processor time instead of
    1.2 s for torch, and 14 s instead of 5 s for torch with transformers' Trainer and Llama.

    Args:
        task: what is judged.
        spec: the container.
        files: absolute path → content of further files.
        folders: absolute paths of further folders.
    """
    fresh = f"{_HOME}/{secrets.token_hex(8)}"
    compiled = {"PYTHONPYCACHEPREFIX": f"{fresh}/bytecode", "NUMBA_CACHE_DIR": f"{fresh}/numba"}
    with task.sandbox.opened(replace(spec, environment={**spec.environment, **compiled})) as container:
        with _restoring(task, {**blanked(task), **(files or {})}, folders) as archive:
            container.put("/", archive)
        yield container


@contextmanager
def _restoring(task: ProbeTask, files: Mapping[str, bytes], folders: tuple[str, ...]) -> Iterator[IO[bytes]]:
    """Make one tar stream of all that is put there: to unpack one, the engine starts a process of its own.

    Of one name the last entry wins.
    """
    workdir = task.environment.workdir
    changed = replace(task.tree, files=task.tree.to_restore(task.environment.changed))
    with tree_tar(changed, prefix=workdir, exclude_git=True) as stream:
        with tarfile.open(fileobj=stream, mode="a", format=tarfile.GNU_FORMAT) as tar:
            _add_no_bytecode(tar, task.tree, workdir)
            _add_files(tar, files, folders)
        stream.seek(0)
        yield stream


def blanked(task: ProbeTask) -> dict[str, bytes]:
    """What stands in the place of start-up hooks; nothing on another image than the one that was audited."""
    audit = task.audit
    if audit is None or audit.result.snapshot != task.environment.image:
        return {}
    return {path: text.encode(errors="surrogateescape") for path, text in audit.blanked.items()}


@contextmanager
def files_tar(files: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> Iterator[IO[bytes]]:
    """Make a tar stream for `Container.put("/", …)`: every folder on the way first, then what is in it.

    Args:
        files: absolute path → content.
        folders: absolute paths of further folders.
    """
    with io.BytesIO() as stream:
        with tarfile.open(fileobj=stream, mode="w") as tar:
            _add_files(tar, files, folders)
        stream.seek(0)
        yield stream


def _add_files(tar: tarfile.TarFile, files: Mapping[str, bytes], folders: tuple[str, ...]) -> None:
    named = {PurePosixPath("/")}
    for folder in folders:
        _add_folders(tar, PurePosixPath(folder), named)
    for path, content in files.items():
        _add_folders(tar, PurePosixPath(path).parent, named)
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))


def _add_no_bytecode(tar: tarfile.TarFile, tree: Tree, workdir: str) -> None:
    """Put an empty file where Python looks for bytecode of tracked sources.

    A child that is started with `-I`, or with an environment of its own, knows no PYTHONPYCACHEPREFIX: the repository's
    own sources, which were put back, stand for themselves there, too.
    """
    folders = {PurePosixPath(path).parent for path in tree.files if path.endswith(".py")}
    for folder in sorted(folders):
        tar.addfile(tarfile.TarInfo(str(PurePosixPath(workdir, folder, "__pycache__")).lstrip("/")))


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


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in placeholders in one pass; other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def _filled_evidence(evidence: Evidence, values: Mapping[str, str]) -> Evidence:
    return replace(
        evidence,
        files=tuple(replace(demand, path=filled(demand.path, values)) for demand in evidence.files),
        json=tuple(replace(demand, path=filled(demand.path, values)) for demand in evidence.json),
    )
