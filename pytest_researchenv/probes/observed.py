"""What an environment shows of itself in a fresh container: what `inside/claims.py` is asked and answers."""

from __future__ import annotations

import secrets
import tarfile
from dataclasses import dataclass
from importlib import resources
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.probes.interpreter import Broken, find_interpreter
from pytest_researchenv.probes.launch import attempt_labels, attempted, restored
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.world import probe_environment
from pytest_researchenv.sandbox.protocol import Completed, ContainerSpec


__all__ = ["Observed", "Unusable", "observe"]

#: Importing torch takes seconds, with cold bytecode on a slow disk a minute.
_TIMEOUT_S = 300.0

_CONTROL_S = 60.0

#: How much of a line that the environment printed a reason quotes.
_SHOWN = 200

_KINDS = {
    tarfile.DIRTYPE: "a folder",
    tarfile.FIFOTYPE: "a FIFO",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
}


@dataclass(frozen=True, slots=True)
class Observed:
    """What the reported interpreter is and sees.

    Attributes:
        python_version: its version.
        executable: its `sys.executable`.
        torch_metadata: version of torch as its installer recorded it; None without one.
        torch_version: `torch.__version__`; None when torch cannot be imported.
        torch_error: why not, or what went wrong when it was asked for devices; empty when nothing did.
        cuda_available: `torch.cuda.is_available()`.
        gpu_count: `torch.cuda.device_count()`.
        duration_s: how long it took in seconds.
    """

    python_version: str
    executable: str
    torch_metadata: str | None
    torch_version: str | None
    torch_error: str
    cuda_available: bool
    gpu_count: int
    duration_s: float

    def evidence(self) -> dict[str, bool | int | float | str | list[str] | None]:
        """What is recorded of it."""
        return {
            "python_version": self.python_version,
            "executable": self.executable,
            "torch_version": self.torch_version,
            "torch_metadata": self.torch_metadata,
            "torch_error": self.torch_error,
            "cuda_available": self.cuda_available,
            "gpu_count": self.gpu_count,
        }


@dataclass(frozen=True, slots=True)
class Unusable:
    """The reported interpreter is none that can be asked.

    Attributes:
        reason: what is there instead, in words.
        duration_s: how long it ran in seconds.
    """

    reason: str
    duration_s: float = 0.0


class _Interpreter(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    python_version: str
    executable: str
    metadata: str | None


class _Torch(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    torch_version: str | None
    error: str
    cuda_available: bool
    gpu_count: int


_Answer = TypeVar("_Answer", _Interpreter, _Torch)


def observe(task: ProbeTask, python: str) -> Observed | Unusable:
    """Ask the reported interpreter, in the probe's world, what it is and what its torch sees.

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
    nonce = secrets.token_hex(8)
    completed = attempted(task, lambda: _run(task, python, nonce), control=lambda: _control(task))
    if isinstance(completed, Broken):
        return Unusable(f"it cannot be started: {completed.reason}")
    return _parse(completed, nonce)


def _wrong_kind(task: ProbeTask, python: str) -> str:
    """What stands at a path instead of a program, read from outside; empty for a file or a link."""
    spec = ContainerSpec(image=task.environment.image, argv=("/bin/sh", "-c", ":"), labels=attempt_labels(task))
    with task.sandbox.opened(spec) as container, container.get(python) as stream:
        if stream is None:
            return "no such file"
        with tarfile.open(fileobj=stream, mode="r|") as members:
            member = members.next()
    if member is None:
        return "an empty archive"
    if member.isreg() or member.issym() or member.islnk():
        return ""
    return f"it is {_KINDS.get(member.type, 'a special file')}"


def _run(task: ProbeTask, python: str, nonce: str) -> Completed | Broken:
    interpreter = find_interpreter(task.sandbox, task.environment.image, python, labels=attempt_labels(task))
    if isinstance(interpreter, Broken):
        return interpreter
    folder = f"/researchenv/probes/{nonce}"
    script = f"{folder}/script/claims.py"
    content = resources.files("pytest_researchenv.probes").joinpath("inside", "claims.py").read_bytes()
    spec = ContainerSpec(
        image=task.environment.image,
        argv=(python, "-B", script, nonce),
        environment=probe_environment(interpreter),
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


def _parse(completed: Completed, nonce: str) -> Observed | Unusable:
    """Read both answers from all that was printed."""
    printed = completed.stdout.text().splitlines()
    answers = [line.removeprefix(f"{nonce} ") for line in printed if line.startswith(f"{nonce} ")]
    interpreter = _answer(_Interpreter, answers[0]) if answers else None
    if interpreter is None:
        lines = completed.output.text().splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "(nothing printed)")
        reason = f"it is no Python that can be used: it {completed.how}: {last[:_SHOWN]}"
        return Unusable(reason, duration_s=completed.duration_s)
    torch = _answer(_Torch, answers[1]) if len(answers) > 1 else None
    if torch is None:
        torch = _Torch(torch_version=None, error=f"it {completed.how} over it", cuda_available=False, gpu_count=0)
    return Observed(
        python_version=interpreter.python_version,
        executable=interpreter.executable,
        torch_metadata=interpreter.metadata,
        torch_version=torch.torch_version,
        torch_error=torch.error,
        cuda_available=torch.cuda_available,
        gpu_count=torch.gpu_count,
        duration_s=completed.duration_s,
    )


def _answer(model: type[_Answer], text: str) -> _Answer | None:
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None
