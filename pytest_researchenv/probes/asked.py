"""Ask an environment what it is, in a fresh container, by `inside/claims.py`; and hold that against its files."""

from __future__ import annotations

import secrets
import tarfile
from dataclasses import dataclass, field
from importlib import resources
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import attempt_labels, attempted, restored, seen_interpreter
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.observed import Observed, Torch, Unusable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.recorded import Recorded, same_release
from pytest_researchenv.probes.world import probe_environment
from pytest_researchenv.sandbox.peek import opened
from pytest_researchenv.sandbox.protocol import Completed, ContainerSpec


__all__ = ["observe"]

#: Importing torch takes seconds, with cold bytecode on a slow disk a minute.
_TIMEOUT_S = 300.0

_CONTROL_S = 60.0

#: How much of an error that the environment printed a reason quotes.
_ERROR = 500

#: More devices than any number that is meant as one.
_MOST_DEVICES = 1_000_000

_KINDS = {
    tarfile.DIRTYPE: "a folder",
    tarfile.FIFOTYPE: "a FIFO",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
}


class _Interpreter(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    python_version: str
    executable: str


class _Torch(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    torch_version: str | None
    error: str
    cuda_available: bool
    gpu_count: Annotated[int, Field(ge=0, le=_MOST_DEVICES)]
    file: str
    records: list[str]


@dataclass(frozen=True, slots=True)
class _Nonces:
    """What the answers to the two questions start with; what asks the second knows only its own."""

    first: str = field(default_factory=lambda: secrets.token_hex(8))
    second: str = field(default_factory=lambda: secrets.token_hex(8))


_Answer = TypeVar("_Answer", _Interpreter, _Torch)


def observe(task: ProbeTask, python: str) -> Observed | Unusable:
    """Ask the reported interpreter, in the probe's world, what it is and what its torch sees, and compare with files.

    Args:
        task: what is judged.
        python: the reported interpreter's path.

    Raises:
        SandboxError: the engine fails on the base image, too.
    """
    kind = attempted(task, lambda: _wrong_kind(task, python))
    if isinstance(kind, Broken):
        return Unusable(f"it cannot be read: {kind.reason}")
    if kind:
        return Unusable(kind)
    if task.audit and task.audit.interpreter:
        return Unusable(task.audit.interpreter, doubted=True)
    nonces = _Nonces()
    completed = attempted(task, lambda: _run(task, python, nonces), control=lambda: _control(task))
    if isinstance(completed, Broken):
        return Unusable(f"it cannot be started: {completed.reason}")
    answer = _parse(completed, nonces)
    return answer if isinstance(answer, Unusable) else _compared(task, python, answer, completed.duration_s)


def _wrong_kind(task: ProbeTask, python: str) -> str:
    """What stands at a path instead of a program, read from outside; empty for a file or a link."""
    spec = ContainerSpec(image=task.environment.image, argv=("/bin/sh", "-c", ":"), labels=attempt_labels(task))
    with task.sandbox.opened(spec) as container, opened(container, python) as found:
        if found is None:
            return "no such file"
        member, _ = found
    if member.isreg() or member.issym() or member.islnk():
        return ""
    return f"it is {_KINDS.get(member.type, 'a special file')}"


def _run(task: ProbeTask, python: str, nonces: _Nonces) -> Completed | Broken:
    interpreter = seen_interpreter(task, python)
    if isinstance(interpreter, Broken):
        return interpreter
    # Its name tells neither nonce.
    folder = f"/researchenv/probes/{secrets.token_hex(8)}"
    script = f"{folder}/script/claims.py"
    content = resources.files("pytest_researchenv.probes").joinpath("inside", "claims.py").read_bytes()
    spec = ContainerSpec(
        image=task.environment.image,
        # Without variables, it has to be told that it is to run no bytecode that was there before.
        argv=(
            *(python, "-I", "-S", "-B", "-X", f"pycache_prefix={folder}/bytecode"),
            *(script, nonces.first, nonces.second, python),
        ),
        # Some engines give devices to containers whose image asks for them: none is seen where none was given.
        environment=probe_environment(interpreter, hide_devices=not task.hardware.devices),
        workdir="/",
        labels=attempt_labels(task),
        devices=task.hardware.uuids,
    )
    with restored(task, spec, files={script: content}) as container:
        return container.run(timeout_s=_TIMEOUT_S, on_output=task.log)


def _control(task: ProbeTask) -> None:
    """Start a process on the base image with the same devices; raise what the engine raises."""
    spec = ContainerSpec(
        image=task.environment.base_image,
        argv=("/bin/sh", "-c", ":"),
        labels=attempt_labels(task),
        devices=task.hardware.uuids,
    )
    with task.sandbox.opened(spec) as container:
        completed = container.run(timeout_s=_CONTROL_S)
        if not completed.ok:
            raise SandboxError(f"the control run on the base image {spec.image} {completed.how}")


def _parse(completed: Completed, nonces: _Nonces) -> tuple[_Interpreter, _Torch, str] | Unusable:
    """Read both answers from all that was printed; the last is in what way the second contradicts itself."""
    first, second = (_answers(completed, nonce) for nonce in (nonces.first, nonces.second))
    if len(first) > 1:
        reason = f"it contradicts itself: it answered {len(first)} times"
        return Unusable(reason, doubted=True, duration_s=completed.duration_s)
    interpreter = _answer(_Interpreter, first[0]) if first else None
    if interpreter is None:
        lines = completed.output.text().splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "(nothing printed)")
        reason = f"it is no Python that can be used: it {completed.how}: {printable(last)}"
        return Unusable(reason, duration_s=completed.duration_s)
    torch = next((answer for line in second if (answer := _answer(_Torch, line))), None)
    if torch is None:
        error = f"it {completed.how} over it"
        torch = _Torch(torch_version=None, error=error, cuda_available=False, gpu_count=0, file="", records=[])
    return interpreter, torch, f"it answered {len(second)} times" if len(second) > 1 else ""


def _answers(completed: Completed, nonce: str) -> list[str]:
    lines = completed.stdout.text().splitlines()
    return [line.removeprefix(f"{nonce} ") for line in lines if line.startswith(f"{nonce} ")]


def _answer(model: type[_Answer], text: str) -> _Answer | None:
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


# --- what files say ---------------------------------------------------------------------------------------


def _compared(task: ProbeTask, python: str, answer: tuple[_Interpreter, _Torch, str], duration_s: float) -> Observed:
    """Hold what was printed against what stands in the snapshot's files, and against the devices that were given."""
    interpreter, torch, contradiction = answer
    read = attempted(task, lambda: _recorded(task, python, interpreter, torch))
    # What cannot be read is for the audit to say; the interpreter itself could be.
    doubt, recorded = ("", ()) if isinstance(read, Broken) else read
    version = torch.torch_version
    seen = Torch(
        version=None if version is None else printable(version),
        error=printable(torch.error, _ERROR),
        cuda_available=torch.cuda_available,
        gpu_count=torch.gpu_count,
        recorded=recorded,
        stand_in=task.audit.modules.get("torch", "") if task.audit else "",
        contradiction=contradiction or _contradiction(torch, recorded, offered=len(task.hardware.devices)),
    )
    printed = printable(interpreter.python_version)
    return Observed(
        python_version=printed,
        contradiction=f"it prints {printed}, and {doubt}" if doubt else "",
        executable=printable(interpreter.executable),
        torch=seen,
        duration_s=duration_s,
    )


def _recorded(task: ProbeTask, python: str, interpreter: _Interpreter, torch: _Torch) -> tuple[str, tuple[str, ...]]:
    """Read what the snapshot's files record, in a container that never runs."""
    spec = ContainerSpec(image=task.environment.image, argv=("/bin/sh", "-c", ":"), labels=attempt_labels(task))
    with task.sandbox.opened(spec) as container:
        files = Recorded(container)
        doubt = files.python_doubt(python, interpreter.python_version)
        if torch.torch_version is None:
            return doubt, ()
        return doubt, files.torch_versions(torch.file, torch.torch_version, torch.records)


def _contradiction(torch: _Torch, recorded: tuple[str, ...], *, offered: int) -> str:
    version = torch.torch_version
    if version is None:
        return ""
    if recorded and not any(same_release(version, one) for one in recorded):
        return f"it says that it is {printable(version)}, and its installer recorded {', '.join(recorded)}"
    if torch.gpu_count > offered or (torch.cuda_available and not offered):
        available = "available" if torch.cuda_available else "not available"
        count = f"{torch.gpu_count} device{'' if torch.gpu_count == 1 else 's'}"
        return f"it finds CUDA {available} and {count}, and the container was given {offered}"
    return ""
