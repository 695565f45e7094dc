"""Rules of the probe's world."""

from __future__ import annotations

from pytest_researchenv.probes.world import SYSTEM_PATH, Interpreter, probe_environment


def test_the_reported_interpreter_comes_first_on_path() -> None:
    """`python` and console scripts of the environment win over the system's."""
    environment = probe_environment(Interpreter("/opt/venv/bin/python"))

    assert f"/opt/venv/bin:{SYSTEM_PATH}" == environment["PATH"]


def test_a_virtual_environment_is_activated_and_a_bare_interpreter_is_not() -> None:
    """VIRTUAL_ENV is set where activation would set it, and nowhere else."""
    inside = probe_environment(Interpreter("/opt/venv/bin/python", venv="/opt/venv"))
    bare = probe_environment(Interpreter("/usr/bin/python3"))

    assert inside["VIRTUAL_ENV"] == "/opt/venv"
    assert "VIRTUAL_ENV" not in bare


def test_nothing_redirects_imports_or_libraries() -> None:
    """The environment has to find its own modules: no variable does it for it."""
    environment = probe_environment(Interpreter("/usr/bin/python3"))

    assert not {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "LD_LIBRARY_PATH", "LD_PRELOAD"} & environment.keys()


def test_the_host_has_no_influence() -> None:
    """Two hosts give the same world: locale, time zone, hash seed and threads are fixed."""
    environment = probe_environment(Interpreter("/usr/bin/python3"))

    assert environment == {
        "PATH": f"/usr/bin:{SYSTEM_PATH}",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }


def test_devices_are_hidden_on_request_only() -> None:
    """An empty list, unlike an unset variable, hides every device."""
    hidden = probe_environment(Interpreter("/usr/bin/python3"), hide_devices=True)
    shown = probe_environment(Interpreter("/usr/bin/python3"))

    assert hidden["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in shown
