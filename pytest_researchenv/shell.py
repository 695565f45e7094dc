"""A person's look into an environment: a shell in a throw-away container from the frozen image."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Environment
from pytest_researchenv.probes.launch import find_interpreter
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Sandbox
from pytest_researchenv.store import load_environment


__all__ = ["open_shell", "shell_command"]


def open_shell(folder: Path, command: Sequence[str]) -> int:
    """Run a command, or an interactive shell, in a copy of an attempt's environment; return its exit code.

    Raises:
        ConfigurationError: the folder holds no environment, or the docker command is missing.
        DaemonUnavailableError: no container engine answers.
    """
    environment = load_environment(folder)
    client = shutil.which("docker") or shutil.which("podman")
    if client is None:
        raise ConfigurationError("neither docker nor podman is on PATH: install one (Debian, Ubuntu: docker.io)")
    owner = Owner.current(environment.key.run)
    interpreter = _interpreter(DockerSandbox(connect(), owner), environment)
    labels = owner.labels("container", attempt=str(environment.key))
    argv = shell_command(environment, interpreter, command, labels=labels, terminal=sys.stdin.isatty())
    return subprocess.run([client, *argv], check=False).returncode


def shell_command(
    environment: Environment,
    interpreter: Interpreter,
    command: Sequence[str],
    *,
    labels: Mapping[str, str],
    terminal: bool,
) -> list[str]:
    """Return the engine client's arguments for a command, or an interactive shell, in the probe's world."""
    variables = probe_environment(interpreter, pycache="/tmp/pycache")  # noqa: S108 - in a container of its own
    return [
        "run",
        "--rm",
        "--interactive",
        *(["--tty"] if terminal else []),
        "--network=none",
        "--hostname=localhost",
        f"--workdir={environment.workdir}",
        *(f"--env={name}={value}" for name, value in variables.items()),
        *(f"--label={name}={value}" for name, value in labels.items()),
        environment.image,
        *(command or ["bash"]),
    ]


def _interpreter(sandbox: Sandbox, environment: Environment) -> Interpreter:
    """Return the reported interpreter, or the image's own where the report leads nowhere: people look at both."""
    python = environment.report.python_path if environment.report else None
    found = find_interpreter(sandbox, environment.image, python) if python else None
    return found if isinstance(found, Interpreter) else Interpreter("/usr/bin/python3")
