"""The parts of our evaluations: what is read of hostile folders, files and logs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.unit.research.own_tasks import SUITE


_PLACES = (SUITE / "_shared", SUITE / "digits-continual" / "evaluation")
_SEEDS = (0, 1)
_RANGES = {"Acc": (0.0, 100.0)}
_FIXED = {"steps": 2}
_GOOD = [{"method": "lda", "steps": 2, "seed": seed, "Acc": 90.5} for seed in _SEEDS]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of evaluations: they lie in no package of ours, and are forgotten afterwards."""
    names = ("judging", "judging.access", "judging.calls", "judging.handed_in", "judging.reading", "arrays")
    for place in _PLACES:
        monkeypatch.syspath_prepend(str(place))
    yield {name: __import__(name, fromlist=["x"]) for name in names}
    for name in names:
        sys.modules.pop(name, None)


def _log(*events: tuple[str, list[object]]) -> bytes:
    lines = [[0, "roots", ["/opt/venv/lib/python3.11/site-packages", "/", "/srv/labels"]]]
    lines += [[number, event, arguments] for number, (event, arguments) in enumerate(events, 1)]
    lines.append([len(lines), "os.researchgym.end", ["end"]])
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _seen(modules: dict[str, ModuleType], log: bytes, *, ended: bool = True) -> list[str]:
    allowed = modules["judging.access"].Allowed("/call", ("/code", "/call"), ("/call/out", "/call/tmp"))
    return [one.check for one in modules["judging.access"].trespasses(log, allowed, ended=ended)]


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("open", ["/call/x.npy", "rb", 0]),
        ("open", ["out/state.npz", "wb", os.O_WRONLY]),
        ("open", ["/code/data/digits.csv.gz", "rb", 0]),
        ("open", ["/opt/venv/lib/python3.11/site-packages/numpy/linalg.py", "r", 0]),
        ("open", ["/proc/self/status", "r", 0]),
        ("open", [7, "rb", 0]),
        ("open", ["/dev/null", "w", os.O_WRONLY]),
        ("ctypes.dlopen", [None]),
        ("ctypes.dlopen", ["/opt/venv/lib/python3.11/site-packages/numpy.libs/libopenblas.so"]),
    ],
)
def test_honest_work_is_allowed(modules: dict[str, ModuleType], event: str, arguments: list[object]) -> None:
    """Files of the call, the code, the environment and the system."""
    assert _seen(modules, _log((event, arguments))) == []


@pytest.mark.parametrize(
    ("event", "arguments", "check"),
    [
        ("open", ["/srv/labels/all.json", "r", 0], "access"),
        ("open", ["../labels.json", "r", 0], "access"),
        ("open", ["/proc/self/environ", "r", 0], "access"),
        ("open", ["/proc/1/environ", "r", 0], "access"),
        ("open", ["x.npy", "r+b", os.O_RDWR], "access"),
        ("open", ["/code/continual/run.py", None, os.O_WRONLY], "access"),
        ("open", ["/opt/venv/lib/python3.11/site-packages/sklearn/datasets/data/digits.csv.gz", "rb", 0], "access"),
        ("os.listdir", ["/srv"], "access"),
        ("os.rename", ["/code/continual/run.py", "/call/tmp/run.py", -1, -1], "access"),
        ("subprocess.Popen", ["cat", ["cat", "/srv/labels"], None, None], "program"),
        ("os.fork", [], "program"),
        ("socket.connect", ["<socket>", "192.0.2.1"], "network"),
        ("socket.getaddrinfo", ["example.org", 443], "network"),
        ("ctypes.dlopen", ["libc.so.6"], "memory"),
        ("gc.get_objects", [0], "memory"),
    ],
)
def test_what_leads_elsewhere_is_named(
    modules: dict[str, ModuleType], event: str, arguments: list[object], check: str
) -> None:
    """A root that a path file of the environment adds is none."""
    assert _seen(modules, _log((event, arguments))) == [check]


def test_a_log_that_was_tampered_with_is_named(modules: dict[str, ModuleType]) -> None:
    """It lacks a line in the middle, or the last one, or holds something else."""
    whole = _log(("open", ["/call/x.npy", "rb", 0]), ("open", ["/call/y.npy", "rb", 0])).splitlines(keepends=True)

    assert _seen(modules, b"".join(whole)) == []
    assert _seen(modules, b"".join(whole[:1] + whole[2:])) == ["access"]
    assert _seen(modules, b"".join(whole[:-1])) == ["access"]
    assert _seen(modules, b"".join(whole[:-1]), ended=False) == []
    assert _seen(modules, b"".join(whole[:-1]) + b"nothing to see\n" + whole[-1]) == ["access"]
    assert _seen(modules, b"") == ["access"]


@pytest.mark.parametrize(
    ("content", "check"),
    [
        (json.dumps(_GOOD), None),
        ("[", "results-invalid"),
        ("[" * 100_000, "results-invalid"),
        ('{"seed": 0}', "results-invalid"),
        ("[1, 2]", "results-invalid"),
        (json.dumps(_GOOD[:1]), "results-seeds"),
        (json.dumps([*_GOOD, _GOOD[0]]), "results-seeds"),
        (json.dumps([*_GOOD, {**_GOOD[0], "seed": 7}]), "results-seeds"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "seed": True}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "Acc": float("nan")}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "Acc": float("inf")}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "Acc": 100.1}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "Acc": True}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "Acc": "99"}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "Acc": 10**400}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "steps": 5}]), "results-invalid"),
        (json.dumps([_GOOD[0], {**_GOOD[1], "method": "own"}]), "results-invalid"),
        (json.dumps([{**one, "method": "--help"} for one in _GOOD]), "results-invalid"),
        (json.dumps([{**one, "method": "\ud800"} for one in _GOOD]), "results-invalid"),
        (b"\xff\xfe", "results-invalid"),
    ],
)
def test_results_are_read_strictly(
    modules: dict[str, ModuleType], tmp_path: Path, content: str | bytes, check: str | None
) -> None:
    """One record for each seed, of one method, with numbers in their range."""
    path = tmp_path / "results" / "steps2.json"
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    claims = modules["judging.handed_in"].read_claims(path, _SEEDS, _RANGES, _FIXED)

    assert (check in {one.check for one in claims.findings}) if check else claims.findings == []
    assert bool(claims.values) == (check is None)


@pytest.mark.parametrize("kind", ["missing", "link", "linked folder", "pipe", "folder", "huge"])
def test_only_a_plain_file_is_read_as_results(modules: dict[str, ModuleType], tmp_path: Path, kind: str) -> None:
    """Nothing else is opened, waited for, or followed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "steps2.json").write_text(json.dumps(_GOOD), encoding="utf-8")
    path = tmp_path / "work" / "results" / "steps2.json"
    path.parent.parent.mkdir()
    if kind == "linked folder":
        path.parent.symlink_to(elsewhere)
    else:
        path.parent.mkdir()
    if kind == "link":
        path.symlink_to(elsewhere / "steps2.json")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.write_bytes(b" " * (2 * 1024 * 1024))

    claims = modules["judging.handed_in"].read_claims(path, _SEEDS, _RANGES, _FIXED)

    assert [one.check for one in claims.findings] == ["results-missing"]


def test_what_numpy_reads_is_what_was_written(modules: dict[str, ModuleType]) -> None:
    """Arrays are written without NumPy."""
    values = array("f", [0.5, -0.25, 1.0, 2.0, 3.0, 4.0])

    matrix = np.load(io.BytesIO(modules["arrays"].floats(values, 3)), allow_pickle=False)
    vector = np.load(io.BytesIO(modules["arrays"].integers([3, 1, 2])), allow_pickle=False)

    assert matrix.tolist() == [[0.5, -0.25, 1.0], [2.0, 3.0, 4.0]]
    assert matrix.dtype == np.float32
    assert vector.tolist() == [3, 1, 2]
    assert vector.dtype == np.int64


@pytest.mark.parametrize("how", ["float64", "float32", "float16", "bytes", "scaled"])
def test_rows_in_a_state_are_found(modules: dict[str, ModuleType], how: str) -> None:
    """In any type of numbers, and whatever they were scaled by."""
    rows = np.tanh(np.random.default_rng(1).normal(size=(40, 64))).astype(np.float32)
    ways: dict[str, np.ndarray] = {
        "float64": rows[:3].astype(np.float64),
        "float32": rows[:3],
        "float16": rows[:3].astype(np.float16),
        "bytes": ((rows[:3] + 1) * 127).round().astype(np.uint8),
        "scaled": rows[:3] * 17 - 4,
    }

    assert _rows_kept(modules, rows, kept=ways[how], other=np.ones(5)) == 3


def test_means_are_no_rows(modules: dict[str, ModuleType]) -> None:
    """Nor are other rows of the same kind, constants, or what is no array of numbers at all."""
    rows = np.tanh(np.random.default_rng(1).normal(size=(40, 64))).astype(np.float32)
    others = np.tanh(np.random.default_rng(2).normal(size=(40, 64))).astype(np.float32)

    assert _rows_kept(modules, rows, means=rows.mean(axis=0), others=others, flat=np.ones((3, 64))) == 0
    assert _rows_kept(modules, rows, odd=np.full((2, 64), np.nan), words=np.array(["a"] * 64)) == 0
    assert modules["arrays"].rows_kept(b"no archive", array("f", rows.ravel().tolist()), 64) == 0


def _rows_kept(modules: dict[str, ModuleType], rows: np.ndarray, **state: np.ndarray) -> int:
    packed = io.BytesIO()
    np.savez(packed, **state)  # type: ignore[arg-type]
    found: int = modules["arrays"].rows_kept(packed.getvalue(), array("f", rows.ravel().tolist()), 64)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("task", ["digits-continual", "morpheme-tokens"])
def test_the_types_of_a_task_are_right(task: str, tmp_path: Path) -> None:
    """Each task is checked for itself, since all have modules of the same names; NumPy yields Any."""
    folder = SUITE / task
    for path, files in (
        (f"_shared:{task}/code:{task}/evaluation", [SUITE / "_shared" / "judging", *_sources(folder)]),
        (f"{task}/code", [folder / "withheld" / "own.py"]),
    ):
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-warn-return-any",
            "--config-file=",
            f"--cache-dir={tmp_path}",
        ]
        done = subprocess.run(
            [*command, *map(str, files)],
            cwd=SUITE,
            env={**os.environ, "MYPYPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _sources(folder: Path) -> list[Path]:
    packages = [path.parent for path in (folder / "code").glob("*/__init__.py")]
    return [*packages, *(folder / "evaluation").glob("*.py")]
