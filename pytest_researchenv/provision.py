"""Source → agent → freeze: how an attempt becomes an environment."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import IO

from pytest_researchenv.agents.protocol import REPORT_PATH, Agent, AgentTask
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.model import Environment, Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Network
from pytest_researchenv.selfreport import SelfReportIntake, read_report
from pytest_researchenv.source import tree_tar
from pytest_researchenv.store import Attempt


__all__ = ["changed_paths", "provision"]


def provision(
    engine: Engine,
    *,
    timeout_s: float,
    attempt: Attempt,
    agent: Agent,
    repository: Repository,
    tree: Tree,
    inputs: Mapping[str, str],
) -> Environment:
    """Let an agent build an environment, freeze it, and record it in the attempt.

    Args:
        engine: what to provision with.
        timeout_s: the agent's wall time limit in seconds.
        attempt: where to record.
        agent: who builds.
        repository: what for.
        tree: the repository's pinned tree.
        inputs: what shapes the environment, recorded with it.

    Raises:
        InfrastructureError: something outside the agent broke; nothing was frozen.
    """
    spec = ContainerSpec(
        image=engine.base_image,
        network=Network.OPEN,
        mounts=engine.mounts,
        labels={"researchenv.attempt": str(attempt.key)},
    )
    with engine.sandbox.opened(spec) as container, attempt.transcript.open("wb", buffering=0) as transcript:
        with tree_tar(tree, prefix=repository.workdir) as archive:
            container.put("/", archive)
        container.start()
        telemetry = agent.work(
            AgentTask(
                repository=repository,
                container=container,
                environment=engine.environment,
                timeout_s=timeout_s,
                transcript=transcript.write,
            )
        )
        container.stop()
        intake = _take_report(container, engine)
        attempt.save_report(intake.raw)
        changed = _changed(container, repository, tree, engine)
        image = container.freeze(_reference(attempt), labels={"researchenv.attempt": str(attempt.key)})
    environment = Environment(
        key=attempt.key,
        image=image,
        base_image=engine.base_image,
        workdir=repository.workdir,
        report=intake.report,
        report_problem=intake.problem,
        changed=changed,
        inputs=dict(inputs),
        telemetry=dict(telemetry.numbers),
        ended=telemetry.ended,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    attempt.save_environment(environment)
    return environment


def changed_paths(archive: IO[bytes], tree: Tree) -> tuple[str, ...]:
    """Return the tracked paths that differ from the pinned tree: content, kind, execute bit, or gone.

    Args:
        archive: tar stream of the repository's folder, as a container engine gives it (one top folder).
        tree: the pinned tree.
    """
    intact: set[str] = set()
    tracked = frozenset(tree.files)
    with tarfile.open(fileobj=archive, mode="r|") as members:
        for member in members:
            path = "/".join(PurePosixPath(member.name).parts[1:])
            # The last entry of a name wins, as it does when an archive is unpacked.
            intact.discard(path)
            if path in tracked and _same(members, member, tree, path):
                intact.add(path)
    return tuple(path for path in tree.files if path not in intact)


def _same(members: tarfile.TarFile, member: tarfile.TarInfo, tree: Tree, path: str) -> bool:
    original = tree.root / path
    if original.is_symlink():
        return member.issym() and member.linkname == str(original.readlink())
    # A hard link's content stands elsewhere in the stream: taken for changed, it is simply put back.
    if not member.isreg() or bool(member.mode & 0o100) != bool(original.stat().st_mode & 0o100):
        return False
    content = members.extractfile(member)
    if content is None or member.size != original.stat().st_size:
        return False
    with original.open("rb") as pinned:
        return all(block == pinned.read(len(block)) for block in _blocks(content))


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(1 << 20):
        yield block


def _take_report(container: Container, engine: Engine) -> SelfReportIntake:
    try:
        with container.get(REPORT_PATH) as archive:
            return read_report(archive)
    except SandboxError as error:
        _require_working_engine(engine)
        return SelfReportIntake(report=None, problem=f"{REPORT_PATH} cannot be read from outside: {error}", raw=b"")


def _changed(container: Container, repository: Repository, tree: Tree, engine: Engine) -> tuple[str, ...]:
    try:
        with container.get(repository.workdir) as archive:
            return tree.files if archive is None else changed_paths(archive, tree)
    except SandboxError:
        _require_working_engine(engine)
        return tree.files


def _require_working_engine(engine: Engine) -> None:
    """Make on the base image the kind of call that has just failed on an agent's container.

    Raises:
        SandboxError: it fails there, too, so that the engine is to blame and not the agent.
    """
    with (
        engine.sandbox.opened(ContainerSpec(image=engine.base_image)) as control,
        control.get("/researchenv") as archive,
    ):
        if archive is None:
            raise SandboxError(f"the base image {engine.base_image} has no /researchenv; remove it to have it rebuilt")


def _reference(attempt: Attempt) -> str:
    key = attempt.key
    return f"researchenv/{key.repository.lower()}:{key.run}-{key.agent}-{key.attempt:03d}"
