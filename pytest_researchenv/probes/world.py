"""The world that every probe runs in: fixed, documented in `docs/probe-world.md`, the same for every agent.

Nothing of it comes from the agent but the interpreter that the self-report names, and the environment that this
interpreter is found to belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath


__all__ = ["SYSTEM_PATH", "Interpreter", "probe_environment"]

#: PATH of the probe's world, without the interpreter's folder.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Threads of numerical libraries. A fixed number, since the engine's host may be another machine and results must not
#: depend on it.
THREADS = 2


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A reported interpreter, as it was found in the image.

    Attributes:
        path: absolute path, as reported. It is not resolved: a virtual environment is found by this very path.
        venv: root of the virtual environment it belongs to; empty when it belongs to none.
        conda: root of the conda-style environment it belongs to; empty likewise.
        cuda: root of the CUDA toolkit with a compiler that it comes with, or that the image has; empty likewise.
        variables: what the environment's own record of variables holds.
    """

    path: str
    venv: str = ""
    conda: str = ""
    cuda: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The folder that holds it."""
        return str(PurePosixPath(self.path).parent)


def probe_environment(
    interpreter: Interpreter,
    *,
    hide_devices: bool = False,
) -> dict[str, str]:
    """Make the environment variables of a probe's main process.

    PYTHONPATH and LD_LIBRARY_PATH are absent on purpose: an environment that needs them has to say so itself.

    Args:
        interpreter: the reported interpreter.
        hide_devices: whether accelerators are hidden from frameworks.

    Returns:
        Name → value; nothing else is in the process's environment but what the image itself sets.
    """
    count = str(THREADS)
    environment = {
        **interpreter.variables,
        "PATH": f"{interpreter.folder}:{SYSTEM_PATH}",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        # Threads that spin while they wait starve one another where probes share processors (benchmarks/contention.py:
        # two small trainings on two busy cores took 80 to 110 s, and 1 to 3 s with this).
        "OMP_WAIT_POLICY": "PASSIVE",
        "TOKENIZERS_PARALLELISM": "false",
        # Model hubs fail at once instead of trying to connect.
        "HF_HUB_OFFLINE": "1",
    }
    if interpreter.venv:
        environment["VIRTUAL_ENV"] = interpreter.venv
    if interpreter.conda:
        name = PurePosixPath(interpreter.conda).name
        environment |= {"CONDA_PREFIX": interpreter.conda, "CONDA_DEFAULT_ENV": name, "CONDA_SHLVL": "1"}
    if interpreter.cuda:
        environment["CUDA_HOME"] = interpreter.cuda
        environment["PATH"] += f":{interpreter.cuda}/bin"
    if hide_devices:
        environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
    return environment
