"""What is seen of a reported interpreter from outside: that it is there, and what environment it belongs to."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_researchenv.probes.world import Interpreter
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Sandbox


__all__ = ["Broken", "find_interpreter", "is_taken"]

#: Where CUDA's own images and packages install the toolkit.
_SYSTEM_CUDA = "/usr/local/cuda"

#: Most bytes of a conda environment's state file that are read.
_STATE_BYTES = 1 << 16

#: Variables that are taken from no environment: they say what else a program runs or loads, or where it looks for that.
#: An environment has to find its own modules and libraries, as it does when its interpreter is called by path.
_REFUSED = re.compile(
    r"PATH|IFS|ENV|PS4|(?:LD|DYLD|BASH|NODE|GIT|OPENSSL|PYTEST|COV_CORE|COVERAGE|OMP_TOOL|RESEARCHENV)_.*"
    r"|(?:PYTHON|PERL|RUBY|CUDA_INJECTION).*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|GCONV_PATH|LOCPATH|NLSPATH|GLIBC_TUNABLES|HOSTALIASES"
    # What libraries import or load by the name of, and where they look for code that they compiled or keep.
    r"|MPLBACKEND|MATPLOTLIBRC|MPLCONFIGDIR|(?:XDG|OCL_ICD)_.*|NCCL_(?:NET|TUNER|PROFILER)_PLUGIN"
    r"|PJRT_NAMES_AND_LIBRARY_PATHS|TF_PLUGGABLE_DEVICE_LIBRARY_PATH|(?:NUMBA|CUPY|TRITON|TORCHINDUCTOR)_CACHE_DIR"
    r"|TORCH_EXTENSIONS_DIR|INTEL_(?:LIBITTNOTIFY|JIT_PROFILER)(?:32|64)?"
    # torch imports the parents of what it is to log; the rest name code of profilers, of plugins and of Java.
    r"|TORCH_LOGS|CLASSPATH|_?(?:JAVA_TOOL|JDK_JAVA|JAVA)_OPTIONS|(?:OMPI|PMIX|PRTE)_MCA_.*|.*_TOOLS?_LIB.*"
    r"|.*(?:PLUGIN|INJECTION|PRELOAD|_HOOK|_MODULE)(?:S|\d*)(?:_.*)?|.*_DRIVERS?_PATH|(?:NUMBA_CUDA|RDMAV)_DRIVERS?"
    r"|VK_(?:ADD|ICD|LAYER).*|__(?:EGL|GLX)_.*|.*_PTXAS_PATH"
)


@dataclass(frozen=True, slots=True)
class Broken:
    """The environment does not even let a probe start; the engine is not to blame.

    Attributes:
        reason: what happened, in words.
    """

    reason: str


def find_interpreter(
    sandbox: Sandbox, image: str, python: str, *, labels: Mapping[str, str] | None = None
) -> Interpreter | Broken:
    """Look for a reported interpreter in an image from outside, without running anything."""
    with sandbox.opened(ContainerSpec(image=image, argv=("/bin/sh", "-c", ":"), labels=labels or {})) as container:
        if not _exists(container, python):
            return Broken(f"the reported interpreter {python} does not exist")
        # Where Python itself looks for it, one folder above the executable's.
        prefix = str(PurePosixPath(python).parent.parent)
        conda = _exists(container, f"{prefix}/conda-meta/history")
        return Interpreter(
            python,
            venv=prefix if _exists(container, f"{prefix}/pyvenv.cfg") else "",
            conda=prefix if conda else "",
            cuda=next((home for home in (prefix, _SYSTEM_CUDA) if _exists(container, f"{home}/bin/nvcc")), ""),
            variables=_conda_variables(container, prefix) if conda else {},
        )


def _exists(container: Container, path: str) -> bool:
    # That there is nothing is only believed of an answer that cannot mean trouble with the engine.
    if container.stat(path) is not None:
        return True
    with container.get(path) as stream:
        return stream is not None


def _conda_variables(container: Container, prefix: str) -> dict[str, str]:
    """Read what `conda env config vars set` left; anything but a plain object of strings counts as nothing."""
    with container.get(f"{prefix}/conda-meta/state") as stream:
        if stream is None:
            return {}
        try:
            with tarfile.open(fileobj=stream, mode="r|") as members:
                member = members.next()
                file = members.extractfile(member) if member and member.isreg() else None
                state = json.loads(file.read(_STATE_BYTES)) if file else {}
        except (tarfile.TarError, ValueError, RecursionError):
            return {}
    found = state.get("env_vars") if isinstance(state, dict) else None
    if not isinstance(found, dict):
        return {}
    return {
        name: value for name, value in found.items() if isinstance(value, str) and "\0" not in value and is_taken(name)
    }


def is_taken(name: str) -> bool:
    """Whether a variable that an environment asks for is given to probes."""
    return name.isidentifier() and _REFUSED.fullmatch(name) is None
