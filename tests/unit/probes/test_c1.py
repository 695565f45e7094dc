"""Rules of C1: which verdict, which cause, who is to blame. No Docker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from pytest_researchenv.errors import SandboxError, SuiteError
from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Evidence,
    FileEvidence,
    JsonEvidence,
    Parallel,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.fake import (
    FakeContainer,
    FakeFiles,
    FakeOutOfMemoryError,
    FakeSandbox,
    FakeTimeoutError,
    Folder,
    Link,
)
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount
from pytest_researchenv.selfreport import read_report


PYTHON = "/opt/venv/bin/python"
REPO = "/workspace/project"
REPORT = SelfReport(python_path=PYTHON)
IMAGE = {
    PYTHON: b"#!",
    "/opt/venv/pyvenv.cfg": b"home = /usr/bin",
    f"{REPO}/run.py": b"pinned",
    f"{REPO}/pkg/core.py": b"pinned",
}
SPEC = TierSpec(
    argv=("{python}", "run.py", "--out={out}/a b", "{not a placeholder}"),
    environment={"DATA": "{repo}/data"},
    timeout_s=7,
    evidence=Evidence(
        files=(FileEvidence("{out}/model.bin", min_bytes=4),),
        json=(JsonEvidence("{out}/metrics.json", "loss", min=0),),
        output=("^trained$",),
    ),
)

Program = Callable[[FakeFiles, tuple[str, ...], Mapping[str, str]], tuple[int, bytes]]


def good(files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """A program that leaves all the evidence."""
    files.write(environment["RESEARCHENV_OUT"] + "/model.bin", b"weights")
    files.write(environment["RESEARCHENV_OUT"] + "/metrics.json", b'{"loss": 1.5}')
    return 0, b"trained\n"


class World:
    """An engine with a base image and a snapshot, and a repository on disk."""

    def __init__(self, folder: Path, sandbox: FakeSandbox | None = None) -> None:
        self.sandbox = sandbox or FakeSandbox()
        self.base = self.sandbox.add_image("base", {"/bin/sh": b""})
        self.sandbox.program("/bin/sh", lambda _files, _argv, _environment: (0, b""))
        self.log = b""
        self.folder = folder
        for path in ("run.py", "pkg/core.py"):
            (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / path).write_bytes(b"pinned")
        (folder / "probes").mkdir()
        (folder / "probes" / "c1.py").write_text("the probe's own text", encoding="utf-8")

    def judge(
        self,
        program: Program = good,
        *,
        spec: TierSpec | None = SPEC,
        report: SelfReport | None = REPORT,
        problem: str = "",
        nodes: Mapping[str, bytes | Link | Folder] = IMAGE,
        changed: tuple[str, ...] = (),
        root_on_path: bool = False,
    ) -> TierResult:
        """Judge a snapshot in which the interpreter does what the program does."""
        image = self.sandbox.add_image("snapshot", dict(nodes))
        self.sandbox.program(PYTHON, program)
        environment = Environment(
            EnvironmentKey("run", "agent", "project", 1),
            image=image,
            base_image=self.base,
            workdir=REPO,
            report=report,
            report_problem=problem,
            changed=changed,
            inputs={},
            telemetry={},
            ended="",
            created="",
        )
        repository = Repository(
            "someone/project",
            PathSource("."),
            tiers={Tier.C1: spec} if spec else {},
            folder=str(self.folder),
            root_on_path=root_on_path,
        )
        tree = Tree(self.folder / "tree", ("pkg/core.py", "run.py"), "digest")
        tools = Mount("tools", "/tools")
        return C1Probe().judge(ProbeTask(environment, repository, tree, self.sandbox, tools, self._feed, {}))

    def _feed(self, chunk: bytes) -> None:
        self.log += chunk


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose containers are all removed in the end."""
    (tmp_path / "project").mkdir()
    made = World(tmp_path / "project")
    yield made
    assert not made.sandbox.containers


def test_exit_code_0_with_all_evidence_passes(world: World) -> None:
    """That, and nothing less; what it rests on is recorded."""
    result = world.judge()

    assert (result.verdict, result.cause) == (Verdict.PASSED, Cause.NONE)
    assert result.evidence["files"] == ["{out}/metrics.json (13 bytes)", "{out}/model.bin (7 bytes)"]
    assert world.log == b"trained\n"


@pytest.mark.parametrize(
    ("cause", "code", "error"),
    [
        (Cause.EXIT_CODE, 3, None),
        (Cause.SIGNAL, 139, None),
        (Cause.OUT_OF_MEMORY, 0, FakeOutOfMemoryError),
        (Cause.TIMEOUT, 0, FakeTimeoutError),
    ],
)
def test_every_other_end_is_a_failure_with_its_own_cause(
    world: World, cause: Cause, code: int, error: type[Exception] | None
) -> None:
    """Out of memory, deadline, signal and exit code are told apart, and evidence does not outweigh them."""

    def program(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        good(files, argv, environment)
        if error:
            raise error
        return code, b"trained\nKilled\n"

    result = world.judge(program)

    assert (Verdict.FAILED, cause) == (result.verdict, result.cause)


def test_exit_code_0_without_evidence_fails(world: World) -> None:
    """Success is not believed on the process's word: each demand that was not met is named."""
    result = world.judge(lambda _files, _argv, _environment: (0, b"nothing to do\n"))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.NO_EVIDENCE)
    assert result.reason == (
        "no file {out}/model.bin; no file {out}/metrics.json; the output does not match '^trained$'"
    )
    assert result.decisive == "nothing to do"


def test_evidence_laid_out_by_the_agent_does_not_count(world: World) -> None:
    """The output folder has a name that nobody can know beforehand."""
    seen = []

    def look(_files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(environment["RESEARCHENV_OUT"])
        return 0, b"trained\n"

    world.judge(look)
    planted = {f"{folder}/model.bin": b"weights" for folder in ("/researchenv/out", "/researchenv/probes/out", *seen)}
    result = world.judge(look, nodes={**IMAGE, **planted})

    assert result.cause is Cause.NO_EVIDENCE
    assert len(set(seen)) == 2


def test_tracked_files_are_put_back_and_nothing_else(world: World) -> None:
    """What the agent edited is as pinned again; what was built beside it stays."""
    seen = {}

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        for name in ("run.py", "pkg/core.py", "pkg/core.so"):
            seen[name] = files.read(f"{REPO}/{name}")
        return good(files, argv, environment)

    nodes = {**IMAGE, f"{REPO}/run.py": b"raise SystemExit(0)", f"{REPO}/pkg/core.so": b"built"}
    world.judge(look, nodes=nodes, changed=("run.py",))

    assert seen == {"run.py": b"pinned", "pkg/core.py": b"pinned", "pkg/core.so": b"built"}


def test_a_planted_link_is_replaced_and_not_followed(world: World) -> None:
    """A folder that became a link is a folder again, and where the link led nothing was written."""
    seen: dict[str, bytes | Link | Folder | None] = {}

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen["folder"] = files.node(f"{REPO}/pkg")
        seen["elsewhere"] = files.node("/elsewhere/core.py")
        seen["content"] = files.read(f"{REPO}/pkg/core.py")
        return good(files, argv, environment)

    nodes: dict[str, bytes | Link] = {
        PYTHON: b"",
        f"{REPO}/run.py": b"pinned",
        f"{REPO}/pkg": Link("/elsewhere"),
        "/elsewhere/core.py": b"fake",
    }
    world.judge(look, nodes=nodes, changed=("pkg/core.py",))

    assert seen == {"folder": Folder(), "elsewhere": b"fake", "content": b"pinned"}


def test_the_command_and_its_world_come_from_the_suite_and_the_report(world: World) -> None:
    """Placeholders are filled in, other braces stay, devices are hidden, the virtual environment is active."""
    seen: list[tuple[tuple[str, ...], Mapping[str, str]]] = []

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append((argv, environment))
        return good(files, argv, environment)

    world.judge(look)

    ((argv, environment),) = seen
    out = environment["RESEARCHENV_OUT"]
    assert argv == (PYTHON, "run.py", f"--out={out}/a b", "{not a placeholder}")
    assert environment["DATA"] == f"{REPO}/data"
    assert environment["VIRTUAL_ENV"] == "/opt/venv"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["RESEARCHENV_DEVICE"] == "cpu"


def test_a_probe_script_is_brought_along_and_run_by_the_reported_interpreter(world: World) -> None:
    """It stands alone in a folder of its own, so that no module of the agent's shadows one that it imports."""
    seen: dict[str, bytes | Link | Folder | None] = {}

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen["script"] = files.read(argv[1])
        seen["neighbour"] = files.node(str(Path(argv[1]).with_name("torch.py")))
        return good(files, argv, environment)

    spec = dataclasses.replace(SPEC, argv=(), probe="probes/c1.py")
    result = world.judge(look, spec=spec, nodes={**IMAGE, "/researchenv/probes/torch.py": b"planted"})

    assert result.verdict is Verdict.PASSED
    assert seen == {"script": b"the probe's own text", "neighbour": None}


def test_what_a_suites_probes_share_lies_beside_the_script(world: World) -> None:
    """The script imports it from its own folder, as the ranks do that it starts."""
    (world.folder.parent / "_shared").mkdir()
    (world.folder.parent / "_shared" / "kit.py").write_text("shared", encoding="utf-8")
    (world.folder.parent / "_shared" / "c1.py").write_text("of the script's own name", encoding="utf-8")
    seen: list[bytes | Link | Folder | None] = []

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.extend((files.read(argv[1]), files.read(str(Path(argv[1]).with_name("kit.py")))))
        return good(files, argv, environment)

    assert world.judge(look, spec=dataclasses.replace(SPEC, argv=(), probe="probes/c1.py")).verdict is Verdict.PASSED
    assert seen == [b"the probe's own text", b"shared"]


@pytest.mark.parametrize(("root_on_path", "path"), [(False, None), (True, REPO)])
def test_the_root_is_on_the_path_only_where_the_suite_says_so(
    world: World, *, root_on_path: bool, path: str | None
) -> None:
    """Otherwise a package that was never installed would be imported from the folder."""
    seen: list[str | None] = []

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(environment.get("PYTHONPATH"))
        return good(files, argv, environment)

    world.judge(look, root_on_path=root_on_path)

    assert seen == [path]


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        (TierSpec(pending="not written"), Cause.NO_PROBE),
        (TierSpec(defective_upstream="cannot work"), Cause.DEFECTIVE_UPSTREAM),
        (TierSpec(supported=False, skip_reason="no CPU code"), Cause.NOT_APPLICABLE),
    ],
)
def test_what_is_not_probed_is_skipped_with_its_reason(world: World, spec: TierSpec, cause: Cause) -> None:
    """Each of the three reasons is a skip of its own cause, and nothing is run."""
    result = world.judge(spec=spec)

    assert (result.verdict, result.cause) == (Verdict.SKIPPED, cause)
    assert result.reason == spec.idle[1]


@pytest.mark.parametrize(
    ("report", "problem", "cause"),
    [
        (None, read_report(None).problem, Cause.NO_REPORT),
        (None, "the self-report is not JSON: line 1", Cause.INVALID_REPORT),
        (SelfReport(), "", Cause.INVALID_REPORT),
        (SelfReport(python_path="/nowhere/python"), "", Cause.BROKEN_ENVIRONMENT),
    ],
)
def test_without_an_interpreter_to_run_it_fails(
    world: World, report: SelfReport | None, problem: str, cause: Cause
) -> None:
    """A missing report or interpreter is the agent's failure, with a reason in words."""
    result = world.judge(report=report, problem=problem)

    assert (Verdict.FAILED, cause) == (result.verdict, result.cause)
    assert result.reason


@pytest.mark.parametrize("spec", [None, TierSpec(supported=False, skip_reason="CUDA only")])
def test_a_tier_that_does_not_apply_is_skipped(world: World, spec: TierSpec | None) -> None:
    """With a reason, and without starting anything."""
    result = world.judge(spec=spec)

    assert (result.verdict, result.cause) == (Verdict.SKIPPED, Cause.NOT_APPLICABLE)
    assert result.reason
    assert world.sandbox.created == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"argv": ()}, "neither argv nor probe"),
        ({"evidence": Evidence(parallel=Parallel.COLLECTIVE)}, "parallel"),
        ({"evidence": Evidence(files=(FileEvidence("{repo}/results.json"),))}, "outside {out}"),
        ({"evidence": Evidence(json=(JsonEvidence("/tmp/m.json", "v"),))}, "outside {out}"),  # noqa: S108 - a bad example
    ],
)
def test_a_wrong_suite_is_not_blamed_on_the_agent(world: World, change: Mapping[str, object], named: str) -> None:
    """It is a configuration error, whatever the environment is like."""
    with pytest.raises(SuiteError, match=named):
        world.judge(spec=dataclasses.replace(SPEC, **change))  # type: ignore[arg-type] # one name per field


class _Refusing(FakeContainer):
    def put(self, path: str, archive: IO[bytes]) -> None:  # noqa: ARG002 - the protocol's
        """Answer as the engine does where a folder has become a dangling link."""
        raise SandboxError(f"cannot put files into {path}: 500 Server Error")


class _RefusingSandbox(FakeSandbox):
    """An engine that fails on images with a certain file, a number of times."""

    def __init__(self, marker: str, times: int) -> None:
        super().__init__()
        self._marker = marker
        self._times = times

    @contextmanager
    def opened(self, spec: ContainerSpec) -> Iterator[FakeContainer]:
        with super().opened(spec) as container:
            main = spec.argv is not None and spec.workdir != ""
            if main and self._times and self.image_files(spec.image).node(self._marker) is not None:
                self._times -= 1
                container.__class__ = _Refusing
            yield container


class TestBlame:
    """An agent cannot turn a failure into an error, nor the engine an error into a failure."""

    def test_what_fails_on_the_snapshot_only_is_the_environments_fault(self, tmp_path: Path) -> None:
        """The same kind of call works on the base image."""
        result = World(tmp_path, _RefusingSandbox(PYTHON, times=99)).judge()

        assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
        assert "500 Server Error" in result.reason

    def test_what_fails_on_the_base_image_too_is_the_engines_fault(self, tmp_path: Path) -> None:
        """No verdict: the error goes on."""
        with pytest.raises(SandboxError, match="500 Server Error"):
            World(tmp_path, _RefusingSandbox("/", times=99)).judge()

    def test_a_hiccup_of_the_engine_is_nobodys_fault(self, tmp_path: Path) -> None:
        """One failed call is made again, and the log says so."""
        world = World(tmp_path, _RefusingSandbox(PYTHON, times=1))

        assert world.judge().verdict is Verdict.PASSED
        assert b"trying once more" in world.log

    def test_a_base_image_that_runs_nothing_is_the_engines_fault(self, tmp_path: Path) -> None:
        """The control run has to succeed before the agent is blamed."""
        world = World(tmp_path, _RefusingSandbox(PYTHON, times=99))
        world.sandbox.program("/bin/sh", lambda _files, _argv, _environment: (1, b""))

        with pytest.raises(SandboxError, match="control run"):
            world.judge()
