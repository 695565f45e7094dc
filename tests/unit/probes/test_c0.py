"""The parts of C0 that need no container: comments, pyright's answer, the interpreter's answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.errors import ImageError, InfrastructureError
from pytest_researchenv.model import Cause, Environment, EnvironmentKey, PathSource, Repository, SelfReport, Verdict
from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.lookup import LookupFailedError, Module, parse_lookup, request
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.probes.pyright import PyrightError, blank_suppressions, parse_report
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, FakeTimeoutError
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.sandbox.tools import NODE, TARGET


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a  # type: ignore\n", "import a  #\n"),
        ("import a  # type:ignore[import] # why\n", "import a  #\n"),
        ("import a  # noqa # pyright: ignore\n", "import a  #\n"),
        ("# pyright: strict\r\nimport a\r\n", "#\r\nimport a\r\n"),
        ("\x0cimport a # TYPE: IGNORE", "\x0cimport a #"),
        ('x = """\n# type: ignore\n"""  # pyright: basic\n', 'x = """\n# type: ignore\n"""  #\n'),
        ("x = '# type: ignore'\n", "x = '# type: ignore'\n"),
        ("x = 1  # a type we do not ignore\n", "x = 1  # a type we do not ignore\n"),
        ("x = '\u2028'  # type: ignore\n", "x = '\u2028'  #\n"),
    ],
)
def test_only_comments_that_silence_are_blanked(source: str, expected: str) -> None:
    """Strings, other comments, line ends and line numbers stay as they are."""
    assert blank_suppressions(source.encode()).decode() == expected


def test_blanking_keeps_the_encoding() -> None:
    """A file declared as latin-1 stays latin-1, and a byte order mark stays."""
    latin = "# coding: latin-1\nx = 'é'  # type: ignore\n".encode("latin-1")

    assert blank_suppressions(latin) == latin.replace(b"# type: ignore", b"#")
    assert blank_suppressions(b"\xef\xbb\xbfx = 1 # type: ignore\n") == b"\xef\xbb\xbfx = 1 #\n"


@pytest.mark.parametrize("source", [b"x = (  # type: ignore\n", b"\xff # type: ignore", b"# coding: nothing\n"])
def test_what_cannot_be_tokenized_stays_as_it_is(source: bytes) -> None:
    """Byte for byte."""
    assert blank_suppressions(source) == source


def answer(*diagnostics: dict[str, Any], files: int = 1) -> str:
    """What pyright prints."""
    report = {"version": "1.1.414", "generalDiagnostics": diagnostics, "summary": {"filesAnalyzed": files}}
    return json.dumps(report, indent=4)


def diagnostic(message: str, rule: str | None = "reportMissingImports") -> dict[str, Any]:
    """One item of its report."""
    item = {"file": "/r/a/b.py", "message": message, "range": {"start": {"line": 4, "character": 0}}}
    return item | ({"rule": rule} if rule else {})


def test_imports_are_read_out_of_pyrights_answer() -> None:
    """Whatever node prints around it; rules and syntax errors that are not about imports are passed over."""
    text = answer(
        diagnostic('Import "a.b" could not be resolved'),
        diagnostic('Import ".c" could not be resolved'),
        diagnostic('Import "yaml" could not be resolved from source', "reportMissingModuleSource"),
        diagnostic("Expected expression", None),
        files=7,
    )

    report = parse_report(f"(node) warning {{\n{text}\nmore", 1, folder="/r")

    assert report.files == 7
    assert [(item.name, item.module, item.relative) for item in report.diagnostics] == [
        ("a", "a.b", False),
        ("", ".c", True),
        ("yaml", "yaml", False),
    ]
    assert str(report.diagnostics[0]) == 'a/b.py:5: Import "a.b" could not be resolved'


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("", 0),
        ("No source files found.", 0),
        (answer(), 2),
        (answer(), 137),
        (answer()[:-20], 1),
        ('{\n    "version": "1"}', 0),
        (answer(diagnostic("Der Import konnte nicht aufgelöst werden")), 1),
        ('{\n    "version": "1", "generalDiagnostics": [3], "summary": {"filesAnalyzed": 1}}', 1),
    ],
)
def test_an_answer_that_is_none_is_never_nothing_missing(output: str, code: int) -> None:
    """Silence, a crash, a cut-off answer and unknown words all raise."""
    with pytest.raises(PyrightError):
        parse_report(output, code, folder="/r")


def found(**changes: object) -> dict[str, object]:
    """What the interpreter says of one module."""
    module = {"finder": "PathFinder", "origin": "/x/a.py", "files": ["/x/a.py"], "real": ["/x/a.py"], "native": False}
    return {**module, "owner": "", **changes}


def line(nonce: str = "n0", **modules: object) -> str:
    """The interpreter's answer."""
    return f"{nonce} " + json.dumps({"version": "3.11.2", "editable": [], "modules": modules})


def test_the_interpreters_answer_is_found_among_what_it_prints() -> None:
    """Interpreters may print at start-up."""
    lookup = parse_lookup(f"hello\n{line(a=found())}\nbye", "n0", ["a", "b"])

    assert str(lookup.modules["a"]) == "PathFinder /x/a.py"
    assert "b" not in lookup.modules


@pytest.mark.parametrize(
    ("output", "match"),
    [
        ("", "0 answers"),
        (line("other", a=found()), "0 answers"),
        (f"{line()}\n{line()}", "2 answers"),
        ("n0 []", "malformed"),
        ("n0 {", "malformed"),
        (line(a=found(native="no")), "malformed"),
        (line(a=found(surplus=1)), "malformed"),
        (line(c=found()), "not asked for: c"),
        (line(absent_n0=found(finder="Everything")), "modules that do not exist, through Everything"),
    ],
)
def test_an_answer_is_read_strictly(output: str, match: str) -> None:
    """Another nonce, two answers, another form, more than was asked, and too good to be true."""
    with pytest.raises(LookupFailedError, match=match):
        parse_lookup(output, "n0", ["a"])


@pytest.mark.parametrize(
    ("changes", "stand_in"),
    [
        ({"files": ["/w/p/a.py"], "real": ["/w/p/a.py"]}, "a.py"),
        ({"files": ["/w/p/a.py"], "real": ["/elsewhere/x.py"]}, "a.py"),
        ({"files": ["/opt/a.py"], "real": ["/w/p/hidden/a.py"]}, "hidden/a.py"),
        ({"files": ["/w/p/kept.py"], "real": ["/w/p/kept.py"]}, ""),
        ({"files": ["/w/p/a/x.py", "/w/p/a/kept.py"], "real": ["/w/p/a/x.py", "/w/p/a/kept.py"]}, ""),
        ({"files": ["/w/p/a.so"], "real": ["/w/p/a.so"], "native": True}, ""),
        ({"files": ["/w/p/a.py"], "real": ["/w/p/a.py"], "owner": "a"}, ""),
        ({"files": ["/w/p/.venv/lib/python3.11/site-packages/a.py"], "real": ["/w/x"]}, ""),
        ({"files": ["/w/p/third_party/a/a.py"], "real": ["/w/p/third_party/a/a.py"]}, ""),
        ({"files": ["/w/project/a.py"], "real": ["/w/project/a.py"]}, ""),
        ({"files": [], "real": []}, ""),
    ],
)
def test_stand_ins_are_told_from_good_work(changes: dict[str, object], stand_in: str) -> None:
    """A stand-in is untracked, pure Python, in the repository (by path or through a link), and nobody installed it."""
    module = Module.model_validate(found(**changes))

    place = module.untracked_in("/w/p", {"kept.py", "a/kept.py"}, ["/w/p", "/w/p/third_party/a"])

    assert place == stand_in


def ask(tmp_path: Path, names: list[str], repository: Path) -> dict[str, Any]:
    """Run the script as containers do, on this interpreter."""
    script = Path(str(resources.files("pytest_researchenv.probes").joinpath("inside", "find_modules.py")))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "find_modules.py").write_bytes(script.read_bytes())
    (folder / "request.json").write_text(request("n0", names, str(repository)))
    command = [sys.executable, str(folder / "find_modules.py"), str(folder / "request.json")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    return {name: module.model_dump() for name, module in parse_lookup(done.stdout, "n0", names).modules.items()}


def test_modules_are_found_without_being_imported(tmp_path: Path) -> None:
    """A package that fails on import is found; folders without modules and the script itself are not."""
    repository = tmp_path / "repository"
    for path, text in {
        "fails/__init__.py": "raise SystemExit(9)\n",
        "fails/inner/fast.py": "",
        "src/spaced/deep/module.py": "",
        "data/train.json": "{}",
    }.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)

    names = ["sys", "json", "pytest", "fails", "spaced", "data", "absent", "find_modules", "pytest_researchenv"]
    modules = ask(tmp_path, names, repository)

    assert sorted(modules) == ["fails", "json", "pytest", "pytest_researchenv", "spaced", "sys"]
    assert modules["sys"]["finder"] == "BuiltinImporter"
    assert modules["pytest"]["owner"] == "pytest"
    assert modules["fails"]["files"] == [f"{repository}/fails/__init__.py"] * 2 + [f"{repository}/fails/inner/fast.py"]
    assert modules["spaced"]["files"] == [f"{repository}/src/spaced/deep/module.py"]


# --- the probe on a fake engine ---------------------------------------------------------------------------

PYTHON = "/env/bin/python"
BROKEN_MARK = "/broken"


def interpreter(files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    """An interpreter that finds nothing."""
    nonce = json.loads(files.read(argv[-1]))["nonce"]
    return 0, line(nonce).encode()


def task_on(sandbox: FakeSandbox, root: Path, *, report: SelfReport | None, problem: str = "") -> ProbeTask:
    """A task whose snapshot is marked as broken."""
    repository = Repository("someone/project", PathSource("."))
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
    return ProbeTask(environment, repository, Tree(root, files, ""), sandbox, Mount("tools", TARGET), len, {})


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


def timeout() -> tuple[int, bytes]:
    """Run until the deadline."""
    raise FakeTimeoutError


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda: (1, answer(files=0).encode()), "analysed 0 of 1 files"),
        (lambda: (0, b""), "printed no JSON"),
        (lambda: (127, b"node: error while loading shared libraries"), "exited with code 127: node: error"),
        (timeout, "timed out"),
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
    with pytest.raises(InfrastructureError, match=words):
        C0Probe().judge(task)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert words in result.reason
    assert not sandbox.containers


def test_a_lost_image_is_no_verdict(tmp_path: Path) -> None:
    """The agent is not blamed for an image that somebody removed."""
    (tmp_path / "a.py").touch()
    sandbox = FakeSandbox()
    task = task_on(sandbox, tmp_path, report=SelfReport(python_path=PYTHON))
    sandbox.remove_image(task.environment.image)

    with pytest.raises(ImageError):
        C0Probe().judge(task)
