"""What a probe's container is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.model import (
    Audit,
    Environment,
    EnvironmentKey,
    Examination,
    PathSource,
    Repository,
    SelfReport,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import restored, seen_interpreter
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.probes.world import Interpreter
from pytest_researchenv.sandbox.fake import FakeContainer, FakeSandbox
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


HOOK = "/usr/lib/python3/dist-packages/sitecustomize.py"
ODD = "/opt/caf\udce9/evil.pth"


@pytest.fixture
def task(tmp_path: Path) -> ProbeTask:
    """An environment with two start-up hooks that the audit found."""
    sandbox = FakeSandbox()
    base = sandbox.add_image("base", {"/bin/sh": b""})
    image = sandbox.add_image("snapshot", {HOOK: b"forge()", ODD: b"import forge\n/opt/lib\n", "/etc/kept": b"kept"})
    environment = Environment(
        EnvironmentKey("run", "agent", "project", 1),
        image=image,
        base_image=base,
        workdir="/workspace/project",
        report=SelfReport("/usr/bin/python3"),
        report_problem="",
        changed=(),
        inputs={},
        telemetry={},
        ended="",
        created="",
    )
    result = TierResult(Examination.INTEGRITY, Verdict.FAILED, snapshot=image)
    return ProbeTask(
        environment,
        Repository("someone/project", PathSource(".")),
        Tree(tmp_path, (), "digest"),
        sandbox,
        Mount("tools", "/tools"),
        len,
        {},
        audit=Audit(result, blanked={HOOK: "", ODD: "/opt/lib\n"}),
    )


def _files(task: ProbeTask) -> dict[str, bytes | None]:
    """What is at the hooks' places in a container that a probe gets."""
    paths = (HOOK, ODD, "/etc/kept")
    with restored(task, ContainerSpec(task.environment.image, argv=("/bin/sh",))) as container:
        found = task.sandbox.containers[container.id].files  # type: ignore[attr-defined] # of the fake
        return {path: found.read(path) if found.node(path) is not None else None for path in paths}


def test_hooks_are_blanked_before_anything_runs(task: ProbeTask) -> None:
    """In their place stands what the audit says, whatever bytes their names have; everything else stays."""
    assert _files(task) == {HOOK: b"", ODD: b"/opt/lib\n", "/etc/kept": b"kept"}


def test_no_folder_of_compiled_code_is_used_twice(task: ProbeTask) -> None:
    """Python and numba look for what they compiled in folders that no container had before, whatever a suite says."""
    spec = ContainerSpec(
        task.environment.image, argv=("/bin/sh",), environment={"PYTHONPYCACHEPREFIX": "/opt/forged", "OTHER": "kept"}
    )
    seen = []
    for _ in range(2):
        with restored(task, spec) as container:
            seen.append(task.sandbox.containers[container.id].spec.environment)  # type: ignore[attr-defined] # of the fake

    for name in ("PYTHONPYCACHEPREFIX", "NUMBA_CACHE_DIR"):
        folders = {environment[name] for environment in seen}
        assert len(folders) == len(seen)
        assert all(folder.startswith("/researchenv/probes/") for folder in folders)
    assert all(environment["OTHER"] == "kept" for environment in seen)


def test_another_image_is_left_as_it_is(task: ProbeTask) -> None:
    """The base image, on which control runs are made, gets no file of the snapshot's."""
    other = replace(task, environment=replace(task.environment, image=task.environment.base_image))

    assert _files(other) == {HOOK: None, ODD: None, "/etc/kept": None}


def test_an_interpreter_is_looked_for_once(task: ProbeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tiers ask for it; one of another image, or at another path, is another."""
    asked: list[str] = []
    create = FakeSandbox.create

    def counted(sandbox: FakeSandbox, spec: ContainerSpec) -> FakeContainer:
        asked.append(spec.image)
        return create(sandbox, spec)

    monkeypatch.setattr(FakeSandbox, "create", counted)
    base = replace(task, environment=replace(task.environment, image=task.environment.base_image))

    first = seen_interpreter(task, "/etc/kept")

    assert isinstance(first, Interpreter)
    assert seen_interpreter(replace(task), "/etc/kept") == first
    assert len(asked) == 1
    assert isinstance(seen_interpreter(base, "/etc/kept"), Broken)
    assert isinstance(seen_interpreter(task, "/etc/other"), Broken)
