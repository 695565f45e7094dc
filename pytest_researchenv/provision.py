"""Source → agent → freeze: how an attempt becomes an environment."""

from __future__ import annotations

import filecmp
import hashlib
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO, TypeVar

from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH, TOOL_TARGET
from pytest_researchenv.agentwork import Order, Worked, at_work
from pytest_researchenv.archiving.restoring import restored_tar
from pytest_researchenv.detached.stages import Continuation, finished_stage
from pytest_researchenv.engine import Engine, require_working
from pytest_researchenv.errors import NoRoomError, SandboxError, UnknownChangesError
from pytest_researchenv.gateway.protocol import Ledger
from pytest_researchenv.layerchanges import added_up
from pytest_researchenv.model import UNFREEZABLE, Environment, Repository, Stage
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.progress import Say, Teller
from pytest_researchenv.provenance import bound_labels
from pytest_researchenv.sandbox.protocol import Change, Container, ContainerSpec, Limits, Mount
from pytest_researchenv.selfreport import SelfReportIntake, read_report
from pytest_researchenv.source import tree_tar
from pytest_researchenv.store import Attempt


__all__ = ["changed_paths", "image_reference", "provision", "record_changes"]

#: Bytes that are read at once.
_BLOCK = 1 << 20

_T = TypeVar("_T")

#: Most bytes of a repository's folder that are compared with the pinned tree: two minutes' reading.
_COMPARED_BYTES = 64 * 1024**3

#: What the engine itself puts into every container, or mounts there.
_ENGINES_FILES = frozenset(
    (
        "/.dockerenv",
        "/dev",
        "/etc/hostname",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/proc",
        "/sbin/docker-init",
        "/sys",
        "/usr/sbin/docker-init",
    )
)
_ENGINES_FOLDERS = ("/dev/", "/proc/", "/sys/")

#: Says the engine when its own disk is full, which is nobody's environment's fault.
_NO_SPACE = "no space left on device"


def provision(
    engine: Engine,
    order: Order,
    *,
    attempt: Attempt,
    tree: Tree,
    inputs: Mapping[str, str],
    settle: Callable[[Ledger], object] = lambda _: None,
    say: Say | None = None,
    continuation: Continuation | None = None,
) -> Environment:
    """Let an agent build an environment, freeze it, and record it in the attempt.

    Args:
        engine: what to provision with.
        order: what the agent is to do.
        attempt: where to record.
        tree: the repository's pinned tree.
        inputs: what shapes the environment, recorded with it.
        settle: given what the agent's gateway saw, however its work ended.
        say: called with what is being done; None for nobody.
        continuation: from where the work goes on; None where it begins with the pinned tree.

    Raises:
        ProviderError: the agent ended because its model could not be had; nothing was frozen.
        InfrastructureError: something else outside the agent broke; nothing was frozen.
    """
    repository = order.repository
    say = say or Teller()
    with (
        _beginning(tree, repository, continuation) as sources,
        at_work(engine, order, attempt=attempt, sources=sources, settle=settle, say=say) as worked,
    ):
        ended = time.time()
        say("freezing")
        intake = _take_report(worked.container, engine)
        attempt.save_report(intake.raw)
        changed = _changed(worked.container, repository, tree, engine)
        earlier = continuation.changes if continuation else None
        record_changes(worked.container, attempt, engine, mounts=order.mounts, earlier=earlier)
        image, intake = _freeze(worked.container, attempt, engine, order.limits, intake)
    environment = Environment(
        key=attempt.key,
        image=image,
        base_image=engine.base_image,
        workdir=repository.workdir,
        report=intake.report,
        report_problem=intake.problem,
        changed=tree.recordable(changed),
        inputs=dict(inputs),
        telemetry={**worked.numbers, **_sizes(engine, image)},
        stages=_stages(attempt, order, worked, continuation, ended=ended, image=image),
        ended=worked.ended,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        devices=worked.devices,
        refused=worked.refused,
        notes=worked.notes,
        engine=engine.id,
        engine_name=engine.name,
    )
    return attempt.save_environment(environment)


@contextmanager
def _beginning(
    tree: Tree, repository: Repository, continuation: Continuation | None
) -> Iterator[tuple[IO[bytes], ...]]:
    """What the agent's container begins with, beside its image."""
    if continuation is None:
        with tree_tar(tree, prefix=repository.workdir) as source:
            yield (source,)
    elif continuation.archive is None:
        yield ()
    else:
        _, archive = restored_tar(continuation.archive)
        with archive:
            yield (archive,)


def _stages(
    attempt: Attempt, order: Order, worked: Worked, continuation: Continuation | None, *, ended: float, image: str
) -> tuple[Stage, ...]:
    if order.beside is None:
        return ()
    numbers = dict(worked.numbers)
    # What the tool's own process took, without what the engine needs to start it.
    seconds = numbers.get("wall_s", worked.seconds)
    own = finished_stage(attempt, numbers, ended=ended, seconds=seconds, image=image)
    return (*(continuation.stages if continuation else ()), own)


def _sizes(engine: Engine, image: str) -> dict[str, float]:
    base = engine.sandbox.image_size(engine.base_image)
    return {"base_image_bytes": base, "added_image_bytes": max(0, engine.sandbox.image_size(image) - base)}


def changed_paths(archive: IO[bytes], tree: Tree, *, limit: int = _COMPARED_BYTES) -> tuple[str, ...]:
    """Return the tracked paths that differ from the pinned tree: content, kind, execute bit, or gone.

    Where that cannot be found out (too much lies in the folder, or the archive is damaged) every path counts as
    changed. Putting back what did not change harms nothing: a tracked file's time is the same after it.

    Args:
        archive: tar stream of the repository's folder, as a container engine gives it (one top folder).
        tree: the pinned tree.
        limit: most bytes that are read. A sparse file of exabytes takes no room in a container, and comes in full.
    """
    intact: set[str] = set()
    tracked = frozenset(tree.files)
    read = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|", bufsize=_BLOCK) as members:
            while member := members.next():
                # tarfile keeps every entry for random access: 1.5 GB for a million files.
                members.members = []  # type: ignore[attr-defined] # Left out of the stubs.
                read += member.size
                if read > limit:
                    return tree.files
                path = member.name.partition("/")[2]
                # The last entry of a name wins, as it does when an archive is unpacked.
                intact.discard(path)
                if path in tracked and _same(members, member, tree, path, intact):
                    intact.add(path)
    except tarfile.TarError:
        return tree.files
    return tuple(path for path in tree.files if path not in intact)


def _same(members: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree, path: str, intact: set[str]) -> bool:
    original = tree.root / path
    if original.is_symlink():
        return member.issym() and member.linkname == os.readlink(original)  # noqa: PTH115 - a Path would normalise it
    if bool(member.mode & 0o100) != bool(original.stat().st_mode & 0o100):
        return False
    if member.islnk():
        # Its content stood at an earlier name in the stream.
        other = member.linkname.partition("/")[2]
        return other in intact and filecmp.cmp(tree.root / other, original, shallow=False)
    if not member.isreg() or member.size != original.stat().st_size:
        return False
    content = members.extractfile(member)
    if content is None:
        return False
    with original.open("rb") as pinned:
        return all(block == pinned.read(len(block)) for block in _blocks(content))


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _take_report(container: Container, engine: Engine) -> SelfReportIntake:
    def read() -> SelfReportIntake:
        with container.get(REPORT_PATH) as archive:
            return read_report(archive)

    try:
        return _twice(read)
    except SandboxError as error:
        require_working(engine)
        return SelfReportIntake(report=None, problem=f"{REPORT_PATH} cannot be read from outside: {error}", raw=b"")


def _changed(container: Container, repository: Repository, tree: Tree, engine: Engine) -> tuple[str, ...]:
    def compare() -> tuple[str, ...]:
        # A link above the repository would be followed in reading it, and is none any more once files are put back.
        if not all(_is_folder(container, parent) for parent in PurePosixPath(repository.workdir).parents):
            return tree.files
        with container.get(repository.workdir) as archive:
            return tree.files if archive is None else changed_paths(archive, tree)

    try:
        return _twice(compare)
    except SandboxError:
        require_working(engine)
        return tree.files


def record_changes(
    container: Container,
    attempt: Attempt,
    engine: Engine,
    *,
    mounts: tuple[Mount, ...] = (),
    earlier: Attempt | None = None,
) -> None:
    """Record what the agent's layer changed, or that its files do not let themselves be compared.

    Args:
        container: the agent's, stopped.
        attempt: where to record.
        engine: the engine.
        mounts: what was mounted beside what the engine itself mounts.
        earlier: the attempt whose frozen image it began from; None where that was the base image.
    """
    targets = {mount.target for mount in (*engine.mounts, *mounts)}
    folders = {str(folder) for mount in mounts for folder in PurePosixPath(mount.target).parents}
    ours = frozenset((TOOL_TARGET, SCRATCH, *targets, *folders)) - {"/"}

    def record() -> None:
        with container.changes() as changes:
            own = (change for change in changes if not _is_the_engines(change.path, ours))
            attempt.save_changes(added_up(earlier.changes(), own) if earlier else own)

    try:
        _twice(record)
    except SandboxError as error:
        require_working(engine)
        attempt.save_changes(_unknown(str(error)))


def _unknown(reason: str) -> Iterator[Change]:
    raise UnknownChangesError(reason)
    yield


def _is_the_engines(path: str, mounted: frozenset[str]) -> bool:
    """Whether a path is the engine's, or where something is mounted: none that an agent can have changed."""
    return path in _ENGINES_FILES or path in mounted or path.startswith(_ENGINES_FOLDERS)


def _twice(call: Callable[[], _T]) -> _T:
    """Make a call once more when it fails: a hiccup of the engine must not decide about an environment for good."""
    try:
        return call()
    except SandboxError:
        return call()


def _is_folder(container: Container, path: PurePosixPath) -> bool:
    """Whether a path is a folder, and no link to one."""
    if path == PurePosixPath("/"):
        return True
    if (seen := container.stat(str(path))) is not None:
        return seen.folder
    # That there is nothing is only believed of an answer that cannot mean trouble with the engine.
    with container.get(str(path)) as archive:
        if archive is None:
            return False
        with tarfile.open(fileobj=archive, mode="r|") as members:
            member = members.next()
            return member is not None and member.isdir()


def _freeze(
    container: Container, attempt: Attempt, engine: Engine, limits: Limits, intake: SelfReportIntake
) -> tuple[str, SelfReportIntake]:
    """Freeze the container; or, if it does not let itself be frozen, the base image without any self-report.

    What an agent leaves must not turn a failure into an error: folders nested deeper than a path can be long, or a
    sparse file of terabytes, which is written out in full when it is frozen.
    """
    labels = {"researchenv.attempt": str(attempt.key), **bound_labels(attempt.folder)}
    problem = ""
    if (size := container.written()) > limits.disk_bytes:
        problem = f"its files have {size} bytes, sparse ones in full; at most {limits.disk_bytes} are kept"
    for _ in range(0 if problem else 2):
        try:
            return container.freeze(image_reference(attempt), labels=labels), intake
        except SandboxError as error:
            # At its end: what stands before may be a path that the agent chose.
            if str(error).rstrip().endswith(_NO_SPACE):
                raise NoRoomError(f"{error}; {engine.disk.in_words()}") from error
            problem = str(error)
    with engine.sandbox.opened(ContainerSpec(image=engine.base_image, labels=labels)) as bare:
        image = bare.freeze(image_reference(attempt), labels=labels)
    return image, SelfReportIntake(report=None, problem=f"{UNFREEZABLE}: {problem}", raw=intake.raw)


def image_reference(attempt: Attempt) -> str:
    """Return the name that an attempt's frozen image has in the engine."""
    key = attempt.key
    # Two results folders may hold runs of the same name: neither may take the other's tag.
    place = hashlib.sha256(str(attempt.folder.resolve()).encode()).hexdigest()[:8]
    return f"researchenv/{key.repository.lower()}:{key.run}-{key.agent}-{key.attempt:03d}-{place}"
