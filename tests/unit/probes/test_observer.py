"""Rules of the observer: a script runs as it would alone, and what its process did is on record."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest


OBSERVER = Path(__file__).parents[3] / "pytest_researchenv/probes/inside/observer.py"

#: A torch of a few lines: one rank, a process group, one collective that is made of another.
TORCH = {
    "__init__.py": """
uint8 = "uint8"
class Tensor(list):
    device = "cpu"
    is_cuda = property(lambda self: self.device != "cpu")
    def tolist(self): return list(self)
def tensor(values, dtype, device):
    made = Tensor(values)
    made.device = str(device)
    return made
def zeros_like(like): return Tensor([0] * len(like))
class cuda:
    is_initialized = staticmethod(lambda: True)
    is_current_stream_capturing = staticmethod(lambda: False)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)
    max_memory_allocated = staticmethod(lambda index: 4096)
""",
    "distributed/__init__.py": "from torch.distributed.distributed_c10d import *\n",
    "distributed/distributed_c10d.py": """
up = False
gathered_on = []
class Work:
    def wait(self, limit): pass
def is_initialized(): return up
def init_process_group(backend, rank=0, world_size=1):
    global up
    up = True
    globals().update(_rank=rank, _size=world_size, _backend=backend)
def destroy_process_group():
    global up
    up = False
def get_rank(): return _rank
def get_world_size(group=None): return _size
def get_backend(): return _backend
def all_gather(into, own, group=None, async_op=False):
    gathered_on.append(own.device)
    for place in into: place[:] = own
    return Work()
def all_gather_object(into, own, group=None):
    if own is None: raise ValueError("nothing to gather")
    all_gather(into, own)
    return "gathered"
def send(tensor, dst): pass
""",
    "nn/__init__.py": "",
    "nn/parallel/__init__.py": "from torch.nn.parallel.distributed import DistributedDataParallel\n",
    "nn/parallel/distributed.py": """
class DistributedDataParallel:
    def __init__(self, module): self.module = module
    def parameters(self): return iter(())
""",
}

Run = Callable[..., subprocess.CompletedProcess[str]]


class Place:
    """A folder with a script, the stand-in torch and the observer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.observer = folder / "observer" / "observer.py"
        (folder / "observer/records").mkdir(parents=True)
        shutil.copy(OBSERVER, self.observer)
        (folder / "repo").mkdir()
        for name, text in TORCH.items():
            (folder / "lib/torch" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "lib/torch" / name).write_text(text, encoding="utf-8")

    def run(self, script: str, *start: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Write the script and run a command in its folder."""
        (self.folder / "repo/script.py").write_text(script, encoding="utf-8")
        environment = {"PYTHONPATH": str(self.folder / "lib"), "RESEARCHENV_NONCE": "n", **variables}
        return subprocess.run(
            [sys.executable, *start],
            cwd=self.folder / "repo",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def observed(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script under the observer."""
        return self.run(script, str(self.observer), "script.py", *arguments, **variables)

    def records(self) -> list[Mapping[str, object]]:
        """What was written down, sorted by file."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "observer/records").glob("*.json"))]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A new folder."""
    return Place(tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        "import sys; print(sys.argv, sys.path, __file__, __name__, __spec__, __package__, __loader__.path)",
        "import sys; print(sorted(vars()), sys.modules['__main__'].__dict__ is globals())",
        "import sys; sys.exit('no such option')",
        "import sys; sys.exit(3)",
        "import atexit, pickle\nclass A: pass\natexit.register(lambda: print(len(pickle.dumps(A())) > 1))",
        "import inspect\ndef f(): return 1\nprint(inspect.getsource(f))",
        "# -*- coding: latin-1 -*-\nprint(__builtins__.__name__, __doc__)",
        "'a docstring'\nprint(__doc__, __annotations__ if '__annotations__' in globals() else '')\nx: int = 3",
        "import helper; print(helper.__file__)",
        "from dataclasses import *\n@dataclass\nclass C: steps: int = 1\nprint(fields(C)[0].type, C.__annotations__)",
    ],
)
def test_a_script_runs_as_it_would_alone(place: Place, script: str) -> None:
    """Arguments, path, names, exit code: there is no difference to be seen."""
    (place.folder / "repo/helper.py").write_text("")

    alone = place.run(script, "script.py", "--steps", "2")
    observed = place.observed(script, "--steps", "2")

    assert (observed.returncode, observed.stdout, observed.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_a_module_runs_as_it_would_alone(place: Place) -> None:
    """`-m`, too."""
    script = "import sys; print(sys.argv, sys.path, __name__, __spec__.name)"

    alone = place.run(script, "-m", "script", "a")
    observed = place.run(script, str(place.observer), "-m", "script", "a")

    assert observed.stdout == alone.stdout != ""


def test_an_exception_ends_it_with_its_own_traceback(place: Place) -> None:
    """The exception is the last line, and the exit code is Python's."""
    observed = place.observed("raise LookupError('no data')")

    assert observed.returncode == 1
    assert observed.stderr.endswith("LookupError: no data\n")


def test_nothing_is_imported_before_the_script_does(place: Place) -> None:
    """The order of initialisation stays the script's own."""
    observed = place.observed("import sys; print(any(name.startswith('torch') for name in sys.modules)); import torch")

    assert observed.stdout == "False\n", observed.stderr


def test_what_a_rank_did_is_on_record(place: Place) -> None:
    """Its own calls are counted, not those that they are made of, and not ours; the token went round."""
    script = (
        "import torch\n"
        "from torch.distributed import all_gather_object, destroy_process_group, init_process_group, send\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "init_process_group('gloo', rank=0, world_size=1)\n"
        "print(all_gather_object([torch.Tensor()], torch.Tensor([1])), DDP('m').module)\n"
        "send(None, 1); send(None, 1)\n"
        "destroy_process_group()\n"
    )

    observed = place.observed(script)

    assert (observed.stdout, observed.stderr) == ("gathered m\n", "")
    (record,) = place.records()
    assert record["calls"] == {"all_gather_object": 1, "DistributedDataParallel": 1, "send": 2}
    assert (record["rank"], record["world_size"], record["backend"], record["nonce"]) == (0, 1, "gloo", "n")
    assert record["gathered"] == [record["token"]]
    assert record["allocated"] == {"0": 4096}


@pytest.mark.parametrize(
    ("calls", "devices"),
    [
        ("d.all_gather_object([torch.Tensor()], here); d.all_gather_object([torch.Tensor()], here)", 3 * ["cuda:1"]),
        ("d.all_gather_object([torch.Tensor()], torch.Tensor())", ["cpu", "cuda:0"]),
        ("d.send(here, 1)", ["cuda:0"]),
        ("", []),
    ],
    ids=["collective", "of objects", "point to point", "nothing"],
)
def test_ranks_choose_their_devices_before_tokens_go_round(place: Place, calls: str, devices: list[str]) -> None:
    """Over NCCL, an exchange right after the start could meet two ranks on one device, and break the script."""
    script = (
        "import torch; from torch import distributed as d\n"
        "d.init_process_group('nccl')\n"
        "before = list(d.gathered_on)\n"
        "here = torch.tensor([1], dtype='uint8', device='cuda:1')\n"
        f"{calls}\n"
        "d.destroy_process_group()\n"
        "print(before, d.gathered_on)\n"
    )

    observed = place.observed(script)

    assert (observed.stdout, observed.stderr) == (f"[] {devices}\n", "")
    (record,) = place.records()
    assert record["gathered"] == ([record["token"]] if devices else [])


def test_an_error_of_the_library_reaches_the_script(place: Place) -> None:
    """It is the script's to handle, and the next call is counted again."""
    script = (
        "import torch; from torch import distributed as d\n"
        "d.init_process_group('gloo')\n"
        "try: d.all_gather_object([], None)\n"
        "except ValueError as error: print(error)\n"
        "d.all_gather_object([torch.Tensor()], torch.Tensor())\n"
    )

    assert place.observed(script).stdout == "nothing to gather\n"
    (record,) = place.records()
    assert record["calls"] == {"all_gather_object": 1}


def test_what_a_killed_process_did_is_on_record(place: Place) -> None:
    """Each step is written at once."""
    script = (
        "import os, torch; from torch import distributed as d\n"
        "d.init_process_group('gloo')\n"
        "d.all_gather_object([torch.Tensor()], torch.Tensor())\n"
        "os._exit(0)\n"
    )

    place.observed(script)

    (record,) = place.records()
    assert (record["rank"], record["calls"]) == (0, {"all_gather_object": 1})


def test_a_rank_that_only_its_launcher_knows_of_is_on_record(place: Place) -> None:
    """Independent ranks need no process group."""
    place.observed("print('alone')", RANK="3")

    (record,) = place.records()
    assert (record["rank"], record["world_size"], record["gathered"]) == (3, 0, [])


def test_a_spawned_child_executes_the_script_under_its_own_name(place: Place) -> None:
    """What dataclasses and typing look up by module name while a script is imported is the script's."""
    script = (
        "from __future__ import annotations\n"
        "import dataclasses, multiprocessing, typing\n"
        "class Other: pass\n"
        "@dataclasses.dataclass\n"
        "class C:\n    table: typing.ClassVar[dict] = {}\n    other: Other | None = None\n"
        "typing.get_type_hints(C)\n"
        "def work(): print([field.name for field in dataclasses.fields(C)], flush=True)\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    child.start(); child.join(); print(child.exitcode)\n"
    )

    observed = place.observed(script)

    assert (observed.stdout, observed.stderr) == ("['other']\n0\n", "")


def test_the_option_of_older_launchers_reaches_the_script(place: Place) -> None:
    """They put --local-rank before the script, since they take the observer for it."""
    script = "import sys; print(sys.argv)"

    observed = place.run(script, str(place.observer), "--local-rank=1", "script.py", "--steps", "2")

    assert observed.stdout == "['script.py', '--local-rank=1', '--steps', '2']\n", observed.stderr


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("module", [False, True])
def test_children_are_observed_whatever_names_the_script_uses(place: Place, method: str, *, module: bool) -> None:
    """Their main module is the script, and no name of its own replaces one of the observer's."""
    script = (
        "import multiprocessing, sys\n"
        "class _record: pass\n"
        "def _end(*a): raise SystemExit(9)\n"
        "_main = child = _watch = _hold = _exchange = None\n"
        "def work(rank, seen):\n"
        "    import torch; from torch import distributed as d\n"
        "    d.init_process_group('gloo', rank=rank, world_size=1)\n"
        "    print(isinstance(seen, _record), sys.argv[1:], flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    start = multiprocessing.get_context('{method}').Process\n"
        "    children = [start(target=work, args=(rank, _record())) for rank in (0, 1)]\n"
        "    for child in children: child.start(); child.join(); assert child.exitcode == 0\n"
    )
    start = ("-m", "script") if module else ("script.py",)

    observed = place.run(script, str(place.observer), *start, "x")

    assert (observed.stdout, observed.stderr) == ("True ['x']\n" * 2, "")
    by_rank = {record["rank"]: record for record in place.records()}
    assert by_rank.keys() == {0, 1, None}
    assert len({record["token"] for record in by_rank.values()}) == 3


def test_it_is_held_at_its_end_until_it_is_released(place: Place) -> None:
    """So that no process is too fast to be seen; the wait has an end of its own."""
    started = time.monotonic()
    place.observed("import torch", RESEARCHENV_HOLD_S="1.5")
    unreleased = time.monotonic() - started

    (place.observer.parent / "release").touch()
    started = time.monotonic()
    place.observed("import torch", RESEARCHENV_HOLD_S="60")
    released = time.monotonic() - started

    assert released < 1.5 < unreleased < 30


@pytest.mark.parametrize("script", ["raise ValueError", "import sys; sys.exit(2)"])
def test_what_failed_is_not_held(place: Place, script: str) -> None:
    """There is nothing to be seen any more."""
    started = time.monotonic()
    place.observed(script, RESEARCHENV_HOLD_S="30")

    assert time.monotonic() - started < 10


def test_a_folder_that_cannot_be_written_does_not_end_the_script(place: Place) -> None:
    """The script goes on as if nobody had looked."""
    shutil.rmtree(place.folder / "observer/records")

    assert place.observed("print('on')").stdout == "on\n"


def test_without_a_script_it_says_how_to_use_it(place: Place) -> None:
    """Instead of a traceback."""
    assert "usage" in place.run("", str(place.observer)).stderr
