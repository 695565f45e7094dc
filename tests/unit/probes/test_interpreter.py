"""What a reported interpreter belongs to is seen from outside, without running anything."""

from __future__ import annotations

import json

import pytest

from pytest_researchenv.probes.interpreter import Broken, find_interpreter
from pytest_researchenv.probes.world import SYSTEM_PATH, Interpreter, probe_environment
from pytest_researchenv.sandbox.fake import FakeSandbox


def _found(nodes: dict[str, bytes], python: str) -> Interpreter:
    sandbox = FakeSandbox()
    found = find_interpreter(sandbox, sandbox.add_image("snapshot", {python: b"\x7fELF", **nodes}), python)
    assert isinstance(found, Interpreter)
    return found


def test_a_conda_environment_is_activated_as_conda_would() -> None:
    """Prefix, name and level are set, and the variables that the environment itself records."""
    state = {"env_vars": {"MODEL_CACHE": "/data"}, "version": 1}
    nodes = {
        "/opt/conda/envs/lab/conda-meta/history": b"==> now <==",
        "/opt/conda/envs/lab/conda-meta/state": json.dumps(state).encode(),
    }

    environment = probe_environment(_found(nodes, "/opt/conda/envs/lab/bin/python"))

    assert environment["CONDA_PREFIX"] == "/opt/conda/envs/lab"
    assert environment["CONDA_DEFAULT_ENV"] == "lab"
    assert environment["CONDA_SHLVL"] == "1"
    assert environment["MODEL_CACHE"] == "/data"
    assert environment["PATH"] == f"/opt/conda/envs/lab/bin:{SYSTEM_PATH}"
    assert "VIRTUAL_ENV" not in environment


@pytest.mark.parametrize("tool", ["venv", "uv", "poetry"])
def test_a_virtual_environment_of_any_tool_is_one(tool: str) -> None:
    """What makes it one is its pyvenv.cfg, wherever the tool put it."""
    root = {"venv": "/opt/v", "uv": "/workspace/x/.venv", "poetry": "/root/.cache/pypoetry/virtualenvs/x-py3.11"}[tool]

    environment = probe_environment(_found({f"{root}/pyvenv.cfg": b""}, f"{root}/bin/python"))

    assert environment["VIRTUAL_ENV"] == root
    assert "CONDA_PREFIX" not in environment


def test_the_systems_interpreter_belongs_to_nothing() -> None:
    """Nothing is activated that is not there."""
    environment = probe_environment(_found({}, "/usr/bin/python3"))

    assert not {"VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME"} & environment.keys()


def test_the_cuda_toolkit_is_the_environments_else_the_images() -> None:
    """CUDA_HOME leads to a compiler, the environment's own before the image's."""
    image = {"/usr/local/cuda/bin/nvcc": b"nvcc"}
    own = {**image, "/opt/conda/envs/lab/bin/nvcc": b"nvcc"}

    assert probe_environment(_found(image, "/usr/bin/python3"))["CUDA_HOME"] == "/usr/local/cuda"
    assert probe_environment(_found(own, "/opt/conda/envs/lab/bin/python"))["CUDA_HOME"] == "/opt/conda/envs/lab"
    assert probe_environment(_found(image, "/usr/bin/python3"))["PATH"].endswith(":/usr/local/cuda/bin")


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"{",
        b"[]",
        b'{"env_vars": 3}',
        b'{"env_vars": {"A": 1, "B\\u0000": "x", "a b": "c", "PATH": "/evil"}}',
        b"[" * 9999,
    ],
)
def test_a_damaged_or_hostile_record_of_variables_counts_as_nothing(state: bytes) -> None:
    """No form of it breaks the probe, and none redirects it."""
    nodes = {"/opt/c/conda-meta/history": b"", "/opt/c/conda-meta/state": state}

    assert _found(nodes, "/opt/c/bin/python").variables == {}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "LD_PRELOAD",
            "LD_AUDIT",
            "LD_LIBRARY_PATH",
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "PYTHONPYCACHEPREFIX",
        ),
        *("PYTHONUSERBASE", "PYTHON_GIL", "PYTHONSAFEPATH", "BASH_ENV", "ENV", "NODE_OPTIONS", "NODE_PATH", "PERL5OPT"),
        *("RUBYOPT", "GCONV_PATH", "OPENSSL_CONF", "COVERAGE_PROCESS_START", "COV_CORE_SOURCE", "PYTEST_PLUGINS"),
        *("TORCH_LOGS", "NVTX_INJECTION64_PATH", "HSA_TOOLS_LIB", "HDF5_PLUGIN_PATH", "JAVA_TOOL_OPTIONS"),
        *("RAY_RUNTIME_ENV_HOOK", "GTK_MODULES", "HF_MODULES_CACHE", "LIBGL_DRIVERS_PATH", "TRITON_PTXAS_PATH"),
        *("MPLBACKEND", "XDG_CONFIG_HOME", "PJRT_NAMES_AND_LIBRARY_PATHS", "NUMBA_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
        *(
            "CUDA_INJECTION64_PATH",
            "INTEL_LIBITTNOTIFY64",
            "OMP_TOOL_LIBRARIES",
            "GLIBC_TUNABLES",
            "GIT_EXEC_PATH",
            "RESEARCHENV_OUT",
            "PATH",
        ),
    ],
)
def test_no_recorded_variable_runs_something_first(name: str) -> None:
    """Nor says where modules and libraries are: an environment has to find its own."""
    state = json.dumps({"env_vars": {name: "/opt/evil", "OMP_SCHEDULE": "static", "PATHS": "x", "ENVIRONMENT": "y"}})
    nodes = {"/opt/c/conda-meta/history": b"", "/opt/c/conda-meta/state": state.encode()}

    assert _found(nodes, "/opt/c/bin/python").variables == {"OMP_SCHEDULE": "static", "PATHS": "x", "ENVIRONMENT": "y"}


def test_recorded_variables_do_not_change_the_world() -> None:
    """What the world fixes stays fixed."""
    state = json.dumps({"env_vars": {"HOME": "/evil", "PYTHONHASHSEED": "7", "CUDA_VISIBLE_DEVICES": "0"}}).encode()
    nodes = {"/opt/c/conda-meta/history": b"", "/opt/c/conda-meta/state": state}

    environment = probe_environment(_found(nodes, "/opt/c/bin/python"), hide_devices=True)

    assert (environment["HOME"], environment["PYTHONHASHSEED"], environment["CUDA_VISIBLE_DEVICES"]) == (
        "/root",
        "0",
        "",
    )


def test_an_interpreter_that_is_not_there_is_said() -> None:
    """A path that leads nowhere is the environment's fault, in words."""
    sandbox = FakeSandbox()

    found = find_interpreter(sandbox, sandbox.add_image("snapshot", {}), "/opt/v/bin/python")

    assert found == Broken("the reported interpreter /opt/v/bin/python does not exist")
