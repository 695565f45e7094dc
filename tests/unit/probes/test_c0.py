"""C0 on a fake engine: who is to blame, and what counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.errors import ImageError, InfrastructureError, SandboxError
from pytest_researchenv.model import (
    Audit,
    Cause,
    Environment,
    EnvironmentKey,
    Examination,
    ImportPolicy,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.fake import (
    FakeContainer,
    FakeFiles,
    FakeOutOfMemoryError,
    FakeSandbox,
    FakeTimeoutError,
)
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount
from pytest_researchenv.sandbox.tools import NODE, TARGET


def found(**changes: object) -> dict[str, object]:
    """What the interpreter says of one module."""
    module = {"finder": "PathFinder", "origin": "/x/a.py", "files": ["/x/a.py"], "real": ["/x/a.py"], "native": False}
    return {**module, "owner": "", **changes}


def line(nonce: str = "n0", **modules: object) -> str:
    """The interpreter's answer."""
    return f"{nonce} " + json.dumps({"version": "3.11.2", "editable": [], "modules": modules})


def answer(*diagnostics: dict[str, Any], files: int = 1) -> str:
    """What pyright prints."""
    report = {"version": "1.1.414", "generalDiagnostics": diagnostics, "summary": {"filesAnalyzed": files}}
    return json.dumps(report, indent=4)


def diagnostic(message: str, rule: str | None = "reportMissingImports") -> dict[str, Any]:
    """One item of its report."""
    item = {"file": "/r/a/b.py", "message": message, "range": {"start": {"line": 4, "character": 0}}}
    return item | ({"rule": rule} if rule else {})


PYTHON = "/env/bin/python"
BROKEN_MARK = "/broken"


def interpreter(files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    """An interpreter that finds nothing."""
    nonce = json.loads(files.read(argv[-1]))["nonce"]
    return 0, line(nonce).encode()


def task_on(
    sandbox: FakeSandbox,
    root: Path,
    *,
    report: SelfReport | None,
    problem: str = "",
    spec: TierSpec | None = None,
    log: Callable[[bytes], object] = len,
) -> ProbeTask:
    """A task whose snapshot is marked as broken."""
    sandbox.program("/bin/sh", lambda _files, _argv, _environment: (0, b""))
    repository = Repository("someone/project", PathSource("."), tiers={Tier.C0: spec} if spec else {})
    environment = Environment(
        key=EnvironmentKey("run", "agent", "project", 1),
        image=sandbox.add_image("snapshot", {BROKEN_MARK: b""}),
        base_image=sandbox.add_image("base"),
        workdir=repository.workdir,
        report=report,
        report_problem=problem,
        changed=(),
        inputs={},
        telemetry={},
        ended="",
        created="",
    )
    files = tuple(sorted(path.name for path in root.iterdir()))
    return ProbeTask(environment, repository, Tree(root, files, ""), sandbox, Mount("tools", TARGET), log, {})


@pytest.mark.parametrize(
    ("report", "problem", "cause"),
    [
        (None, "the agent left no self-report", Cause.NO_REPORT),
        (None, "the self-report is not JSON", Cause.INVALID_REPORT),
        (SelfReport(), "", Cause.INVALID_REPORT),
        (SelfReport(python_path="bin/python"), "", Cause.INVALID_REPORT),
    ],
)
def test_without_an_interpreter_nothing_runs(
    tmp_path: Path, report: SelfReport | None, problem: str, cause: Cause
) -> None:
    """No usable report is a failure, and says which."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()

    result = C0Probe().judge(task_on(sandbox, tmp_path, report=report, problem=problem))

    assert (result.verdict, result.cause) == (Verdict.FAILED, cause)
    assert result.reason
    assert sandbox.created == 0


def test_a_tree_without_python_is_not_judged(tmp_path: Path) -> None:
    """Nothing could be missing from it, so a pass would say nothing."""
    (tmp_path / "README.md").touch()

    result = C0Probe().judge(task_on(FakeSandbox(), tmp_path, report=SelfReport(python_path=PYTHON)))

    assert (result.verdict, result.cause) == (Verdict.SKIPPED, Cause.NOT_APPLICABLE)


def raising(error: type[Exception]) -> Callable[[], tuple[int, bytes]]:
    """A program that ends as the error says."""

    def run() -> tuple[int, bytes]:
        raise error

    return run


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda: (1, answer(files=0).encode()), "analysed 0 of 1 files"),
        (lambda: (0, b""), "printed no JSON"),
        (lambda: (127, b"node: error while loading shared libraries"), "exited with code 127: node: error"),
        (lambda: (139, b""), "ended by signal 11"),
        (lambda: (2, b"JavaScript heap out of memory, says a bystander"), "exited with code 2"),
    ],
)
def test_who_is_to_blame_is_asked_of_the_base_image(
    tmp_path: Path, fault: Callable[[], tuple[int, bytes]], words: str
) -> None:
    """Pyright failing in the snapshot alone is the environment's failure; failing in both, nobody's verdict."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    task = task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON))
    healthy = 0, answer().encode()

    sandbox.program(NODE, lambda files, _argv, _environment: fault() if files.node(BROKEN_MARK) == b"" else healthy)
    result = C0Probe().judge(task)
    sandbox.program(NODE, lambda _files, _argv, _environment: fault())
    with pytest.raises(InfrastructureError, match=words) as caught:
        C0Probe().judge(task)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert words in result.reason
    assert "docker volume rm tools" in str(caught.value)
    assert not sandbox.containers


HEAP = b"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (raising(FakeTimeoutError), r"timed out after 1800 s: set a longer timeout_s in \[tiers\.C0\]"),
        (raising(FakeOutOfMemoryError), "limit of 16 GiB: give the container engine's host more memory"),
        (lambda: (134, HEAP), r"NODE_OPTIONS = \"--max-old-space-size"),
    ],
)
def test_pyrights_own_limits_are_nobodys_verdict(
    tmp_path: Path, fault: Callable[[], tuple[int, bytes]], words: str
) -> None:
    """Where the tree alone takes more than there is, the message says which limit to raise."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    sandbox.program(NODE, lambda _files, _argv, _environment: fault())

    with pytest.raises(InfrastructureError, match=words):
        C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON)))
    assert not sandbox.containers


@pytest.mark.parametrize(
    "fault",
    [raising(FakeTimeoutError), raising(FakeOutOfMemoryError), lambda: (134, HEAP)],
    ids=["time", "memory", "heap"],
)
def test_what_takes_more_than_there_is_is_judged_without_it(
    tmp_path: Path, fault: Callable[[], tuple[int, bytes]]
) -> None:
    """A large good environment is not accused, and no agent turns a failure into an error: the interpreter says."""
    (tmp_path / "a.py").write_text("import thing\n")
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    task = task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON))
    bare = 1, answer(diagnostic('Import "thing" could not be resolved')).encode()
    sandbox.program(NODE, lambda files, _argv, _environment: fault() if files.node(BROKEN_MARK) == b"" else bare)

    result = C0Probe().judge(task)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS)
    assert result.reason == "1 of 1 imports missing: thing"
    assert result.evidence["published_ratio"] == "unknown"
    assert str(result.evidence["published_selection"]).startswith("pyright")
    assert not sandbox.containers


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [(None, 1800), (TierSpec(), 1800), (TierSpec(timeout_s=60), 1800), (TierSpec(timeout_s=9000), 9000)],
)
def test_a_suite_can_only_raise_the_time_limit(tmp_path: Path, spec: TierSpec | None, seconds: int) -> None:
    """The default of other tiers is none of C0's."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    sandbox.program(NODE, lambda _files, _argv, _environment: raising(FakeTimeoutError)())

    with pytest.raises(InfrastructureError, match=f"timed out after {seconds} s"):
        C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON), spec=spec))


def test_a_suite_can_raise_nodes_memory_limit(tmp_path: Path) -> None:
    """As the message says."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    seen: list[str] = []

    def node(_files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(environment["NODE_OPTIONS"])
        return 0, answer().encode()

    sandbox.program(NODE, node)
    for spec in (TierSpec(), TierSpec(environment={"NODE_OPTIONS": "--max-old-space-size=12288"})):
        C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON), spec=spec))

    assert seen == ["--max-old-space-size=8192", "--max-old-space-size=12288"]


class HiccupSandbox(FakeSandbox):
    """An engine that refuses to create containers, some times, for some commands and images."""

    def __init__(self, program: str, *, times: int, everywhere: bool = False) -> None:
        super().__init__()
        self._program = program
        self._times = times
        self._everywhere = everywhere
        self.labels: list[Mapping[str, str]] = []

    def create(self, spec: ContainerSpec) -> FakeContainer:
        """Create a container, or refuse to."""
        self.labels.append(spec.labels)
        here = self._everywhere or self.image_files(spec.image).node(BROKEN_MARK) == b""
        if here and self._times and (spec.argv or ("",))[0] == self._program:
            self._times -= 1
            raise SandboxError("cannot create a container: 500 Server Error")
        return super().create(spec)


def knowing(files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    """An interpreter that claims one module, which is not there."""
    request = json.loads(files.read(argv[-1]))
    return 0, line(request["nonce"], b=found(origin="/x/b.py", files=["/x/b.py"], real=["/x/b.py"])).encode()


#: What each kind of call of C0 runs: the interpreter, pyright, and nothing in the container that is only looked into.
CALLS = [PYTHON, NODE, "/bin/true"]


def hiccuping(sandbox: FakeSandbox, root: Path, log: Callable[[bytes], object] = len) -> ProbeTask:
    """A task in which all three kinds of calls are made."""
    (root / "a.py").write_text("import b\n")
    sandbox.program(PYTHON, knowing)
    missing = answer(diagnostic('Import "b" could not be resolved')).encode()
    sandbox.program(NODE, lambda _files, _argv, _environment: (1, missing))
    return task_on(sandbox, root, report=SelfReport(python_path=PYTHON), log=log)


@pytest.mark.parametrize("program", CALLS)
def test_a_hiccup_of_the_engine_is_nobodys_fault(tmp_path: Path, program: str) -> None:
    """Each call is made once more."""
    log: list[bytes] = []
    sandbox = HiccupSandbox(program, times=1)

    result = C0Probe().judge(hiccuping(sandbox, tmp_path, log.append))

    assert result.cause is Cause.MISSING_IMPORTS
    assert result.reason == "1 of 1 imports missing: b (only finder PathFinder claims it: there is no module /x/b.py)"
    assert b"trying once more" in b"".join(log)
    assert not sandbox.containers


@pytest.mark.parametrize("program", CALLS)
def test_what_fails_again_on_the_snapshot_alone_is_the_environments_fault(tmp_path: Path, program: str) -> None:
    """The same kind of call works on the base image."""
    result = C0Probe().judge(hiccuping(HiccupSandbox(program, times=2), tmp_path))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "500 Server Error" in result.reason


def test_pyright_that_cannot_be_started_anywhere_is_nobodys_verdict(tmp_path: Path) -> None:
    """Control is the same call, with the volume of tools: without it, a lost volume would be the agent's fault."""
    with pytest.raises(
        InfrastructureError, match=r"neither in the environment nor in the base image .*500 Server Error"
    ):
        C0Probe().judge(hiccuping(HiccupSandbox(NODE, times=99, everywhere=True), tmp_path))


def test_every_container_says_which_attempt_it_is_for(tmp_path: Path) -> None:
    """So that what a dead run left can be told apart."""
    sandbox = HiccupSandbox("/bin/true", times=2)

    C0Probe().judge(hiccuping(sandbox, tmp_path))

    assert len(sandbox.labels) >= 5
    assert all(labels == {"researchenv.attempt": "run/agent/project/attempt-001"} for labels in sandbox.labels)


def test_an_interpreter_that_finds_made_up_modules_is_broken(tmp_path: Path) -> None:
    """It finds everything, so that what it says of any name is worth nothing."""
    (tmp_path / "a.py").write_text("import b\n")
    sandbox = FakeSandbox()

    def everything(files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        request = json.loads(files.read(argv[-1]))
        modules = {name: found(finder="Everything", origin="", files=[], real=[]) for name in request["names"]}
        return 0, line(request["nonce"], **modules).encode()

    sandbox.program(PYTHON, everything)
    result = C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON)))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "finds modules that do not exist" in result.reason
    assert result.reason.endswith("through Everything")


def test_a_lost_image_is_no_verdict(tmp_path: Path) -> None:
    """The agent is not blamed for an image that somebody removed."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()
    task = task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON))
    sandbox.remove_image(task.environment.image)

    with pytest.raises(ImageError):
        C0Probe().judge(task)


def hollow(*, reachable: bool) -> Callable[..., tuple[int, bytes]]:
    """A pyright that resolves everything but names that were put behind a prefix, where it sees that code runs."""

    def node(files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        folder = argv[-1]
        include = json.loads(files.read(f"{folder}/pyrightconfig.json"))["include"]
        missing = []
        for name in include if reachable and include != ["."] else []:
            module = files.read(f"{folder}/{name}").decode().split()[1]
            missing.append({**diagnostic(f'Import "{module}" could not be resolved'), "file": f"{folder}/{name}"})
        return 1, answer(*missing, files=9).encode()

    return node


@pytest.mark.parametrize("reachable", [True, False])
def test_what_pyright_resolves_needs_the_interpreter_where_code_runs(tmp_path: Path, *, reachable: bool) -> None:
    """Pyright is asked again as if it resolved nothing; what it says can be read, encoded and written to a file."""
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("import b\n")
    (tmp_path / "other.py").write_text("import json\n")
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    sandbox.program(NODE, hollow(reachable=reachable))

    result = C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON)))

    assert result.verdict is (Verdict.FAILED if reachable else Verdict.PASSED)
    if reachable:
        assert result.reason == "1 of 2 imports missing: b (no code, only stubs or a folder)"
        assert result.decisive == 'caf\\xe9.py:5: Import "b" could not be resolved'
    json.dumps(asdict(result), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "printed",
    [
        b"\xff\x1b[2J",
        line("", b=found()).replace("3.11.2", "3.11.2\\u001b").encode(),
        line("", **{"b\n\x1b": found()}).encode(),
        line("", b=found(files=["/workspace/project/\n\x1b.py"], finder="\x1b\n")).encode(),
        line("", b=found(finder="\x1b\n", origin="/b\n\x1b.py")).encode(),
        line("", b=found(finder="FINDER")).replace("FINDER", "\\ud800").encode(),
    ],
)
def test_whatever_an_interpreter_prints_makes_a_result_that_can_be_stored(tmp_path: Path, printed: bytes) -> None:
    """Bytes, control characters, names with line ends, and halves of characters as JSON has them."""
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("import b\nprint 'hello'\n")
    (tmp_path / "a.py").write_text("import b\n")
    sandbox = FakeSandbox()

    def speak(files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        return 0, json.loads(files.read(argv[-1]))["nonce"].encode() + b" " + printed.strip()

    missing = answer(diagnostic('Import "b" could not be resolved'), files=2).encode()
    sandbox.program(PYTHON, speak)
    sandbox.program(NODE, lambda _files, _argv, _environment: (1, missing))

    result = C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON)))

    assert result.verdict is Verdict.FAILED
    assert result.reason.isprintable()
    assert result.decisive.isprintable()
    json.dumps(asdict(result), ensure_ascii=False).encode()


@pytest.mark.parametrize(("exempt", "own"), [(False, False), (True, False), (False, True)])
def test_what_the_audit_found_not_to_be_genuine_is_missing(tmp_path: Path, *, exempt: bool, own: bool) -> None:
    """Pyright and the interpreter both find it; what the suite exempts and what the tree has itself is left alone."""
    (tmp_path / "a.py").write_text("import b\nimport json\n")
    if own:
        (tmp_path / "b.py").touch()
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, knowing)
    sandbox.program(NODE, lambda _files, _argv, _environment: (0, answer(files=9).encode()))
    task = task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON))
    policy = ImportPolicy(unsatisfiable={"b": "for another system"} if exempt else {})
    task = replace(
        task,
        environment=replace(task.environment, image=sandbox.add_image("with-b", {"/x/b.py": b""})),
        repository=replace(task.repository, imports=policy),
    )
    audit = Audit(TierResult(Examination.INTEGRITY, Verdict.FAILED), modules={"b": "/x/b.py is nobody's", "c": "\x1b"})

    before, after = C0Probe().judge(task), C0Probe().judge(replace(task, audit=audit))

    assert before.verdict is Verdict.PASSED, before.reason
    assert after.verdict is (Verdict.PASSED if exempt or own else Verdict.FAILED)
    if not exempt and not own:
        assert after.reason == "1 of 2 imports missing: b (not genuine: /x/b.py is nobody's)"
    assert after.evidence["unsatisfiable"] == (["b"] if exempt else [])


def test_the_published_figure_is_recorded_beside_the_verdict(tmp_path: Path) -> None:
    """Its own selection, names and total; what only a file with a byte order mark imports is judged and not in it."""
    (tmp_path / "m.py").write_bytes(b"\xef\xbb\xbfimport b\n")
    (tmp_path / "c.py").write_text("import json\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pyright]\n")
    sandbox = FakeSandbox()
    sandbox.program(PYTHON, interpreter)
    missing = answer(diagnostic('Import "b" could not be resolved'), diagnostic('Import "d" could not', "x"), files=2)
    sandbox.program(NODE, lambda _files, _argv, _environment: (1, missing.replace("/r/a/b.py", "m.py").encode()))

    result = C0Probe().judge(task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON)))

    assert result.reason == "1 of 2 imports missing: b"
    assert result.evidence["total"] == 2
    assert result.evidence["missing_published"] == ["b"]
    assert result.evidence["published_selection"] == "[tool.pyright] in pyproject.toml"
    assert result.evidence["published_ratio"] == "1/1"
