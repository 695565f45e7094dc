"""A person's look into an environment: a shell in a throw-away container from the frozen image."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Environment
from pytest_researchenv.probes.interpreter import find_interpreter
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.daemon import Address, explicit_address, find
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Sandbox
from pytest_researchenv.store import load_environment


__all__ = ["add_command", "open_shell"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    shell = commands.add_parser("shell")
    shell.add_argument(
        "attempt", type=Path, metavar="FOLDER", help="folder of the attempt, as a failure message names it"
    )
    shell.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="command to run instead of a shell")
    shell.set_defaults(run=lambda arguments: open_shell(arguments.attempt, arguments.command))


def open_shell(folder: Path, command: Sequence[str]) -> int:
    """Run a command, or an interactive shell, in a copy of an attempt's environment; return its exit code.

    The container is limited and cut off as a probe's is, and has a probe's variables; tracked files are as the agent
    left them.

    Raises:
        ConfigurationError: the folder holds no environment, or the docker command is missing.
        DaemonUnavailableError: no container engine answers.
    """
    environment = load_environment(folder)
    program = shutil.which("docker") or shutil.which("podman")
    if program is None:
        raise ConfigurationError("neither docker nor podman is on PATH: install one (Debian, Ubuntu: docker.io)")
    client, address = find()
    with contextlib.closing(client):
        sandbox = DockerSandbox(client, Owner.current(environment.key.run))
        interpreter = _interpreter(sandbox, environment)
        spec = ContainerSpec(image=environment.image, labels={"researchenv.attempt": str(environment.key)})
        with sandbox.opened(spec) as container:
            container.start()
            argv = _command(address, environment, interpreter, container.id, command)
            return subprocess.run([program, *argv], check=False).returncode


def _command(
    address: Address, environment: Environment, interpreter: Interpreter, container: str, command: Sequence[str]
) -> list[str]:
    variables = probe_environment(interpreter)
    return [
        # What the user chose the program reads by itself, with what belongs to it.
        *([] if explicit_address() else ["--host", address.url]),
        "exec",
        "--interactive",
        *(["--tty"] if sys.stdin.isatty() else []),
        f"--workdir={environment.workdir}",
        *(f"--env={name}={value}" for name, value in variables.items()),
        container,
        *(command or ["bash"]),
    ]


def _interpreter(sandbox: Sandbox, environment: Environment) -> Interpreter:
    """Return the reported interpreter, or the image's own where the report leads nowhere: people look at both."""
    python = environment.report.python_path if environment.report else None
    found = find_interpreter(sandbox, environment.image, python) if python else None
    return found if isinstance(found, Interpreter) else Interpreter("/usr/bin/python3")
