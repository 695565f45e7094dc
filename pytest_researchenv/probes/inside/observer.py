"""Run a Python script unchanged, and record what its process saw of other processes and of devices.

    python observer.py SCRIPT [ARGUMENT …]
    python observer.py -m MODULE [ARGUMENT …]

The record, `records/rank-R.PID.json` beside this file, is written again at every step, so that it survives a kill.

Nothing is imported before the script does: modules are wrapped at the moment the script imports them. The wrappers call
through with the same arguments; what they add is one exchange of random tokens over the script's own process group.
That takes place where every rank is known to be: with a backend for the CPU right after the group is up; with NCCL
alone after the script's first collective over all ranks, when each rank has chosen its device, or else before the group
is destroyed. Processes started by `multiprocessing` (so by `torch.multiprocessing.spawn`, too) are observed as well.
Collectives made in C++ without one of the wrapped constructors are not counted.

Standard library only, Python 3.9 and newer.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

# ruff: noqa: ANN401 - what is wrapped belongs to a library that is not here to give it types.

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.machinery
import importlib.util
import json
import os
import re
import runpy
import secrets
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any


_FOLDER = Path(__file__).resolve().parent
#: How this process's children of `multiprocessing` know what to run: `-m MODULE` or an absolute path, as JSON.
_RUNS = "RESEARCHENV_OBSERVED"
#: Seconds that the process may be kept at its end, so that its device memory can be seen from outside.
_HOLD = "RESEARCHENV_HOLD_S"
_NONCE = "RESEARCHENV_NONCE"

_TOKEN_BYTES = 8
#: An exchange with a rank that is gone must not hang: the backends' own limits are 10 to 30 minutes.
_EXCHANGE = timedelta(seconds=60)

_COLLECTIVES = (
    *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce"),
    *("all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list"),
    *("gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor"),
    *("scatter", "scatter_object_list"),
)
_POINT_TO_POINT = ("batch_isend_irecv", "irecv", "isend", "recv", "send")
#: Constructors that make a model parallel: module → class or function.
_CONSTRUCTORS = {
    "torch.nn.parallel.distributed": "DistributedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "FullyShardedDataParallel",
    "torch.distributed.fsdp._fully_shard._fully_shard": "fully_shard",
    "torch.distributed._composable.fsdp.fully_shard": "fully_shard",
    "torch.distributed.tensor.parallel.api": "parallelize_module",
}
_C10D = "torch.distributed.distributed_c10d"


_Call = Callable[..., Any]
_After = Callable[[Any, Any, Any], None]
_Watch = Callable[[Any], None]


#: What may hold device memory beside torch.
_OTHERS = ("cupy", "jaxlib", "numba.cuda", "pycuda", "tensorflow")


class _Record:
    """What this process saw."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: in a forked child nothing of its parent's counts."""
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self.rank: int | None = None
        self.world_size = 0
        self.backend = ""
        self.gathered: list[str] = []
        self.calls: dict[str, int] = {}
        self.problem = ""
        self.path: Path | None = None
        self.inside = threading.local()

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Calls in the block are the library's own, or ours."""
        self.inside.yes = True
        try:
            yield
        finally:
            self.inside.yes = False

    def count(self, name: str) -> None:
        """Count a call of the script's."""
        self.calls[name] = self.calls.get(name, 0) + 1
        # Every call would be too much of a good thing; the end writes the rest.
        if self.calls[name] in (1, 10, 100, 1000):
            self.write()

    def write(self) -> None:
        """Write it all down; what cannot be written must not end the script."""
        with contextlib.suppress(OSError):
            self._write()

    def _write(self) -> None:
        rank = self.rank if self.rank is not None else _environment_rank()
        text = json.dumps(
            {
                "nonce": os.environ.get(_NONCE, ""),
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "rank": rank,
                "world_size": self.world_size,
                "backend": self.backend,
                "token": self.token.hex(),
                "gathered": self.gathered,
                "calls": self.calls,
                "allocated": _allocated(),
                "torch": _cuda() is not None and not any(name in sys.modules for name in _OTHERS),
                "problem": self.problem,
            }
        )
        folder = _FOLDER / "records"
        path = folder / f"rank-{'none' if rank is None else rank}.{os.getpid()}.json"
        draft = folder / f".{os.getpid()}"
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        if self.path and self.path != path:
            self.path.unlink()
        self.path = path


_record = _Record()


def _environment_rank() -> int | None:
    for name in ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"):
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[name])
    return None


def _cuda() -> Any:
    """Torch's view of CUDA, if this process has used any; never initialises it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _allocated() -> dict[str, int]:
    """Peak of the memory that torch allocated on each device: index → bytes."""
    cuda = _cuda()
    peaks = {} if cuda is None else {str(i): cuda.max_memory_allocated(i) for i in range(cuda.device_count())}
    return {index: peak for index, peak in peaks.items() if peak}


# --- the exchange -----------------------------------------------------------------------------------------


def _exchange(group: Any = None, device: object = "cpu") -> None:
    """Gather every rank's token, and write down what came."""
    torch = sys.modules["torch"]
    distributed = torch.distributed
    size = distributed.get_world_size(group)
    own = torch.tensor(list(_record.token), dtype=torch.uint8, device=device)
    everyones = [torch.zeros_like(own) for _ in range(size)]
    try:
        with _record.nested():
            distributed.all_gather(everyones, own, group=group, async_op=True).wait(_EXCHANGE)
            _record.gathered = [bytes(token.tolist()).hex() for token in everyones]
    except RuntimeError as error:
        _record.problem = f"the ranks could not exchange tokens: {error}"[:500]
    _record.write()


def _exchange_after(device: object, group: Any) -> None:
    """Exchange after a call of the script's in which all ranks took part."""
    torch = sys.modules["torch"]
    distributed = torch.distributed
    if _record.gathered or _record.problem or not distributed.is_initialized():
        return
    if distributed.get_world_size(group) != distributed.get_world_size():
        return
    if not device or torch.cuda.is_current_stream_capturing():
        return
    _exchange(group, device)


def _has_cpu_backend(c10d: Any) -> bool:
    configured = getattr(c10d, "get_backend_config", None)
    backends = f"{configured() if configured else ''} {_record.backend}"
    return "gloo" in backends or "mpi" in backends


def _device_of(values: Iterable[Any]) -> object:
    """The CUDA device of what a call was given; None when nothing of it is on one."""
    for value in values:
        first: Any = value[0] if isinstance(value, (list, tuple)) and value else None
        for tensor in (value, first):
            if getattr(tensor, "is_cuda", False):
                return tensor.device
    return None


def _current_device() -> object:
    """Where collectives of Python objects put them."""
    cuda = _cuda()
    return None if cuda is None else f"cuda:{cuda.current_device()}"


# --- wrapping ---------------------------------------------------------------------------------------------


def _around(function: _Call, after: _After, before: Callable[[], None] | None = None) -> _Call:
    """Call through, and look only at calls that the script itself makes."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if getattr(_record.inside, "yes", False):
            return function(*arguments, **keywords)
        if before is not None:
            before()
        with _record.nested():
            result = function(*arguments, **keywords)
        after(result, arguments, keywords)
        return result

    return call


def _watch_c10d(c10d: Any) -> None:
    def up(_result: Any, _arguments: Any, _keywords: Any) -> None:
        _record.rank, _record.world_size = c10d.get_rank(), c10d.get_world_size()
        _record.backend = str(c10d.get_backend())
        _record.gathered, _record.problem = [], ""
        if _has_cpu_backend(c10d):
            _exchange()
        _record.write()

    def down() -> None:
        if c10d.is_initialized() and _record.calls and not (_record.gathered or _record.problem):
            _exchange(device=_current_device() or "cpu")
        _record.write()

    def counted(name: str) -> _After:
        return lambda _result, _arguments, _keywords: _record.count(name)

    _wrap(c10d, "init_process_group", lambda function: _around(function, up))
    _wrap(c10d, "new_group", lambda function: _around(function, counted("new_group")))
    _wrap(c10d, "destroy_process_group", lambda function: _around(function, lambda *_: None, before=down))
    for name in _COLLECTIVES:
        _wrap(c10d, name, functools.partial(_around, after=_collective(c10d, name)))
    for name in _POINT_TO_POINT:
        _wrap(c10d, name, functools.partial(_around, after=counted(name)))


def _collective(c10d: Any, name: str) -> _After:
    def after(_result: Any, arguments: Any, keywords: Any) -> None:
        group = _group_of(c10d, (*arguments, *keywords.values()))
        # A rank that calls a collective in a group of its own works with nobody.
        if group is None or c10d.get_world_size(group) > 1:
            _record.count(name)
        device = _device_of((*arguments, *keywords.values()))
        _exchange_after(device or ("object" in name and _current_device()), group)

    return after


def _group_of(c10d: Any, arguments: Any) -> Any:
    """The process group among a call's arguments; None for the one of all ranks."""
    kind = getattr(c10d, "ProcessGroup", None)
    return next((value for value in arguments if kind is not None and isinstance(value, kind)), None)


def _wrap(module: Any, name: str, wrapper: Callable[[_Call], _Call]) -> None:
    """Replace a function of a module, and where the package around it has it from there."""
    function = getattr(module, name, None)
    if function is None:
        return
    wrapped = wrapper(function)
    for place in (module, sys.modules[module.__name__.rpartition(".")[0]]):
        if getattr(place, name, None) is function:
            setattr(place, name, wrapped)


def _watch_constructor(module: Any) -> None:
    name = _CONSTRUCTORS[module.__name__]

    def after(_result: Any, arguments: Any, _keywords: Any) -> None:
        group = getattr(arguments[0], "process_group", None) if arguments else None
        if group is None or group.size() > 1:
            _record.count(name)
        # Of a class, self; of a function, the module that it made parallel.
        parameter = next(iter(arguments[0].parameters()), None) if arguments else None
        _exchange_after(_device_of([parameter]), None)

    made = getattr(module, name, None)
    if isinstance(made, type):
        made.__init__ = _around(made.__init__, after)  # type: ignore[misc] # that is the point
    else:
        _wrap(module, name, lambda function: _around(function, after))


def _watch_spawn(spawn: Any) -> None:
    """Let children that import the main module anew do so through this file."""
    function = spawn.get_preparation_data

    @functools.wraps(function)
    def call(name: str) -> Any:
        data = function(name)
        if data.pop("init_main_from_name", None) or data.get("init_main_from_path"):
            data["init_main_from_path"] = str(_FOLDER / Path(__file__).name)
        return data

    spawn.get_preparation_data = call


class _Watcher(MetaPathFinder):
    """Wraps modules right after they were executed."""

    def __init__(self, watched: dict[str, _Watch]) -> None:
        self._watched = watched
        for name in [name for name in watched if name in sys.modules]:
            watched.pop(name)(sys.modules[name])

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 - the interface's
        """Find the module as if this were not here, and have it watched once it is loaded."""
        watch = self._watched.pop(name, None)
        spec = importlib.util.find_spec(name) if watch else None
        if watch is None or spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign] # of this loader alone
        return spec


def _watch() -> None:
    watched: dict[str, _Watch] = {_C10D: _watch_c10d, "multiprocessing.spawn": _watch_spawn}
    watched.update(dict.fromkeys(_CONSTRUCTORS, _watch_constructor))
    sys.meta_path.insert(0, _Watcher(watched))
    os.register_at_fork(after_in_child=_record.reset)


# --- running ----------------------------------------------------------------------------------------------


def _hold() -> None:
    """Wait until somebody outside has seen this process's device memory, if it has any."""
    limit = float(os.environ.get(_HOLD) or 0)
    if "torch" in sys.modules and _cuda() is None:
        return
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and not (_FOLDER / "release").exists():
        time.sleep(0.05)


def _end() -> None:
    _record.write()
    _hold()


def _run_script(path: str, name: str) -> dict[str, Any]:
    """Execute a script as Python itself does, and return its names."""
    module = types.ModuleType(name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module.__dict__.update(__file__=path, __loader__=loader, __package__=None, __builtins__=__builtins__)
    # What else Python gives to a script depends on its version; this file is one.
    own: dict[str, object] = {"__annotations__": {}, "__cached__": None}
    module.__dict__.update({key: value for key, value in own.items() if key in globals()})
    # Under its own name, also in a spawned child: dataclasses and typing look there while the script is executed.
    sys.modules[name] = module
    # The future imports of this file are not the script's.
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - this is what it is for.
    return module.__dict__


def _launched(arguments: list[str]) -> list[str]:
    """Put the option of older launchers behind the script: they insert it before, taking this file for the script."""
    rank = [argument for argument in arguments[:1] if re.fullmatch(r"--local[-_]rank=\d+", argument)]
    rest = arguments[len(rank) :]
    place = 2 if rest[:1] == ["-m"] else 1
    return [*rest[:place], *rank, *rest[place:]]


def _main(arguments: list[str]) -> None:
    arguments = _launched(arguments)
    module = arguments[0] == "-m"
    sys.argv = arguments[module:]
    path = str(Path(arguments[module]).absolute())
    sys.path[0] = os.getcwd() if module else str(Path(path).resolve().parent)  # noqa: PTH109 - as Python has it
    os.environ[_RUNS] = json.dumps(arguments[:2] if module else [path])
    _watch()
    _record.write()
    try:
        if module:
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            _run_script(path, "__main__")
    except SystemExit as stop:
        _end() if stop.code in (None, 0) else _record.write()
        raise
    except BaseException:
        _record.write()
        raise
    _end()


def _end_child() -> None:
    if _record.path:
        _end()


def child() -> dict[str, Any]:
    """Prepare a child of `multiprocessing`, and return the main module's names, which it may need to unpickle."""
    _watch()
    atexit.register(_end_child)
    runs = json.loads(os.environ[_RUNS])
    if runs[0] == "-m":
        return runpy.run_module(runs[1], run_name="__mp_main__")
    return _run_script(runs[0], "__mp_main__")


if __name__ == "__main__":
    if not sys.argv[1:] or sys.argv[1:] == ["-m"]:
        sys.exit("usage: observer.py SCRIPT [ARGUMENT ...] | -m MODULE [ARGUMENT ...]")
    _main(sys.argv[1:])
elif __name__ == "__mp_main__":
    # A module of its own, so that no name of the script's replaces one of ours.
    _spec = importlib.util.spec_from_file_location("researchenv_observer", __file__)
    _own = importlib.util.module_from_spec(_spec)  # type: ignore[arg-type] # a file has one
    _spec.loader.exec_module(_own)  # type: ignore[union-attr] # likewise
    globals().update(_own.child())
