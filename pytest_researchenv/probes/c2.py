"""C2, hardware alignment: do the frameworks that a repository declares fit the device and its driver?

Each framework is imported by the reported interpreter in a container of its own, is asked what it sees, and computes a
value that is known only here. With devices, what it sees is compared with what the driver says outside. On the CPU the
same shows that the framework's binary runs on this processor; such a result is emulated.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.hardware import Device, Hardware
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.probes.alignment import (
    Answer,
    cuda_support,
    expected,
    kernel_support,
    read_answer,
    without_answer,
)
from pytest_researchenv.probes.evidence import decisive_line
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import attempt_labels, attempted, restored, seen_interpreter
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.protocol import Completed, ContainerSpec, Limits, Termination


__all__ = ["C2Probe"]

_CONTROL_S = 60.0

_CAUSES = {
    Termination.EXITED: Cause.EXIT_CODE,
    Termination.SIGNALLED: Cause.SIGNAL,
    Termination.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    Termination.TIMED_OUT: Cause.TIMEOUT,
    Termination.DISK_FULL: Cause.DISK_FULL,
}

#: What the script was doing, by the last stage that it told.
_DOING = {
    "": "before it was asked anything",
    "import": "while it was imported",
    "look": "while it looked for devices",
    "compute": "while it computed",
    "done": "after it had computed",
}

_ILLEGAL_INSTRUCTION = 128 + 4

#: The engine's init process ends so when it cannot execute the interpreter.
_NOT_STARTED = (126, 127)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was observed of one framework.

    Attributes:
        framework: its name.
        completed: how the script ended.
        answer: what it said.
        nonce: what it had to carry.
    """

    framework: str
    completed: Completed
    answer: Answer
    nonce: str

    @property
    def name(self) -> str:
        """Framework and version."""
        return f"{self.framework} {self.answer.version}".rstrip()

    @property
    def log(self) -> str:
        """What was printed beside the answer."""
        return without_answer(self.completed.output.text(), self.nonce)


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why a framework does not pass."""

    cause: Cause
    reason: str
    decisive: str = ""


class C2Probe:
    """Decides tier C2: every declared framework sees the devices, fits the driver, and computes right on them."""

    @property
    def tier(self) -> Tier:
        """The tier it decides."""
        return Tier.C2

    def judge(self, task: ProbeTask) -> TierResult:
        """Ask every declared framework, and compare with the driver.

        Raises:
            SandboxError: the engine fails on the base image, too.
        """
        if reason := _not_applicable(task):
            return TierResult(Tier.C2, Verdict.SKIPPED, Cause.NOT_APPLICABLE, reason)
        hardware = task.hardware
        if not hardware.emulated and (shortage := hardware.shortage(1)):
            return TierResult(Tier.C2, Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE, shortage)
        emulated = TierResult(Tier.C2, Verdict.FAILED, emulated=hardware.emulated)
        python = reported_python(task.environment)
        if isinstance(python, Unreported):
            return replace(emulated, cause=python.cause, reason=python.reason)
        with task.leased(task.devices_then) as held:
            seen = _looked(held, python)
        if isinstance(seen, Broken):
            return replace(emulated, cause=Cause.BROKEN_ENVIRONMENT, reason=seen.reason)
        return _verdict(seen, held.hardware)


def _not_applicable(task: ProbeTask) -> str:
    spec = task.repository.spec(Tier.C2)
    if not spec.supported:
        return spec.skip_reason
    return "" if task.repository.frameworks else "repo.toml declares no frameworks"


# --- observing --------------------------------------------------------------------------------------------


def _looked(task: ProbeTask, python: str) -> list[_Seen] | Broken:
    """Ask every declared framework."""
    interpreter = attempted(task, lambda: seen_interpreter(task, python))
    if isinstance(interpreter, Broken):
        return interpreter
    seen: list[_Seen] = []
    for framework in task.repository.frameworks:
        asked = _ask(task, interpreter, framework)
        if isinstance(asked, Broken):
            return asked
        seen.append(asked)
    return seen


def _ask(task: ProbeTask, interpreter: Interpreter, framework: str) -> _Seen | Broken:
    """Run the script for one framework, with all the devices that were leased."""
    nonce = secrets.token_hex(8)
    home = f"/researchenv/probes/{secrets.token_hex(8)}"
    script = f"{home}/script/alignment.py"
    hardware, tier = task.hardware, task.repository.spec(Tier.C2)
    spec = ContainerSpec(
        image=task.environment.image,
        argv=(interpreter.path, script, framework, nonce, hardware.accelerator.value),
        environment={
            **probe_environment(interpreter, hide_devices=hardware.emulated),
            # JAX would take three quarters of each device's memory at once.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        },
        workdir=task.environment.workdir,
        limits=Limits(memory_bytes=int(tier.memory_gb * 1024**3)),
        devices=() if hardware.emulated else hardware.uuids,
        labels=attempt_labels(task),
    )
    text = resources.files("pytest_researchenv.probes").joinpath("inside", "alignment.py").read_bytes()

    def call() -> Completed:
        with restored(task, spec, files={script: text}) as container:
            return container.run(timeout_s=tier.timeout_s, on_output=task.log)

    completed = attempted(task, call, control=partial(_control, task, spec))
    if isinstance(completed, Broken):
        return completed
    return _Seen(framework, completed, read_answer(completed.stdout.text(), nonce), nonce)


def _control(task: ProbeTask, spec: ContainerSpec) -> None:
    """Start a process on the base image, with the same devices."""
    environment = replace(task.environment, image=task.environment.base_image, changed=())
    # The working directory is made by the file that is put into it.
    files = {f"{spec.workdir}/.researchenv": b""}
    plain = replace(spec, image=environment.image, argv=("/bin/sh", "-c", ":"))
    with restored(replace(task, environment=environment), plain, files=files) as container:
        completed = container.run(timeout_s=_CONTROL_S)
    if not completed.ok:
        raise SandboxError(f"the control run on the base image {environment.image} {completed.how}")


# --- deciding ---------------------------------------------------------------------------------------------


def _verdict(seen: list[_Seen], hardware: Hardware) -> TierResult:
    faults = [fault for one in seen if (fault := _fault(one, hardware))]
    evidence: dict[str, bool | int | float | str | list[str] | None] = {}
    for one in seen:
        evidence |= _evidence(one, hardware)
    result = TierResult(
        Tier.C2,
        Verdict.FAILED if faults else Verdict.PASSED,
        duration_s=sum(one.completed.duration_s for one in seen),
        evidence=evidence,
        emulated=hardware.emulated,
    )
    if faults:
        reason = "; ".join(fault.reason for fault in faults)
        return replace(result, cause=faults[0].cause, reason=reason, decisive=faults[0].decisive)
    where = "the CPU" if hardware.emulated else _listed([device.name for device in hardware.devices])
    return replace(result, reason=f"{', '.join(one.name for one in seen)} computed right on {where}")


def _fault(seen: _Seen, hardware: Hardware) -> _Fault | None:
    answer = seen.answer
    if answer.stage in {"", "import", "look"}:
        return _ended(seen)
    if not hardware.emulated and (fault := _misaligned(seen, hardware)):
        return fault
    if answer.stage != "done":
        return _ended(seen)
    count = 1 if hardware.emulated else len(hardware.devices)
    if len(answer.values) != count:
        return _Fault(Cause.HARDWARE_MISMATCH, f"{seen.name} computed on {len(answer.values)} devices, not on {count}")
    for number, value in enumerate(answer.values):
        if value != expected(seen.nonce, number):
            # By its name in the framework's own order, which need not be the driver's.
            where = "the CPU" if hardware.emulated else answer.devices[number]
            return _Fault(Cause.HARDWARE_MISMATCH, f"{seen.name} computed a wrong value on {where}")
    # A crash at exit is told like any other: what follows an import in earnest would end the same way.
    return None if seen.completed.ok else _ended(seen)


def _ended(seen: _Seen) -> _Fault:
    """The script did not come to its end, or not to a good one."""
    completed, doing = seen.completed, _DOING[seen.answer.stage]
    decisive = decisive_line(seen.log)
    if completed.ok:
        return _Fault(Cause.NO_EVIDENCE, f"{seen.name} ended the process {doing}, without an answer", decisive)
    if not seen.answer.stage and completed.exit_code in _NOT_STARTED:
        return _Fault(Cause.BROKEN_ENVIRONMENT, f"the interpreter could not be started: {decisive}", decisive)
    if completed.exit_code == _ILLEGAL_INSTRUCTION:
        text = f"{seen.name} {completed.how} (illegal instruction: built for another processor) {doing}"
        return _Fault(Cause.SIGNAL, text, decisive)
    cause = _CAUSES[completed.termination]
    if seen.answer.stage == "import" and decisive.startswith("ModuleNotFoundError:"):
        cause = Cause.MISSING_IMPORTS
    said = f": {decisive}" if decisive else ""
    return _Fault(cause, f"{seen.name} {completed.how} {doing}{said}", decisive)


def _misaligned(seen: _Seen, hardware: Hardware) -> _Fault | None:
    """Compare what the framework sees, and was built for, with what the driver says outside."""
    answer, wanted = seen.answer, [device.name for device in hardware.devices]
    complete = len(answer.devices) == len(wanted)
    if not complete and answer.built_cuda is None and not answer.devices:
        reason = f"{seen.name} sees no device: it seems to be built without CUDA"
    elif not complete and cuda_support(answer.built_cuda, hardware.cuda) == "":
        driver = "{}.{}".format(*hardware.cuda)
        reason = (
            f"{seen.name} is built for CUDA {answer.built_cuda}; the driver {hardware.driver} supports up to {driver}"
        )
    elif not complete:
        reason = f"{seen.name} sees {len(answer.devices)} of {len(wanted)} devices ({_listed(list(answer.devices))})"
    elif sorted(map(_plain, answer.devices)) != sorted(map(_plain, wanted)):
        reason = f"{seen.name} sees {_listed(list(answer.devices))}; the driver names {_listed(wanted)}"
    elif device := _without_kernels(answer, hardware.devices):
        capability = "{}.{}".format(*device.compute_capability)
        reason = (
            f"{seen.name} has no kernels for {device.name} (compute capability {capability}): "
            f"it is compiled for {' '.join(answer.architectures or ())}"
        )
    else:
        return None
    return _Fault(Cause.HARDWARE_MISMATCH, reason, decisive_line(seen.log))


def _without_kernels(answer: Answer, devices: tuple[Device, ...]) -> Device | None:
    """The first device that the framework's kernels do not run on, as far as it says what they are compiled for."""
    if answer.architectures is None:
        return None
    architectures = answer.architectures
    return next((one for one in devices if not kernel_support(architectures, one.compute_capability)), None)


def _plain(name: str) -> str:
    """A product name as it compares: older drivers leave the maker out."""
    return " ".join(name.split()).removeprefix("NVIDIA ").casefold()


def _listed(names: list[str]) -> str:
    """Names with their numbers, in the order in which they first come."""
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items()) or "none"


def _evidence(seen: _Seen, hardware: Hardware) -> dict[str, bool | int | float | str | list[str] | None]:
    answer, name = seen.answer, seen.framework
    told: dict[str, bool | int | float | str | list[str] | None] = {
        f"{name}_version": answer.version,
        f"{name}_built_cuda": answer.built_cuda,
        f"{name}_devices": list(answer.devices),
        f"{name}_architectures": None if answer.architectures is None else list(answer.architectures),
        f"{name}_ended": f"{seen.completed.how} {_DOING[answer.stage]}",
    }
    if not hardware.emulated:
        architectures = answer.architectures or ()
        support = (kernel_support(architectures, device.compute_capability) for device in hardware.devices)
        capabilities = [".".join(map(str, capability)) for capability in answer.capabilities]
        told |= {
            "driver": hardware.driver,
            "driver_cuda": "{}.{}".format(*hardware.cuda),
            "driver_devices": [device.name for device in hardware.devices],
            f"{name}_capabilities": capabilities,
            f"{name}_driver_support": cuda_support(answer.built_cuda, hardware.cuda),
            f"{name}_kernel_support": sorted({entry for entry in support if entry}),
        }
    return told
