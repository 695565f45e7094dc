"""What agents share whose tool is a command line program in the container: how it is started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pytest_researchenv.agents._scratch import write_text
from pytest_researchenv.agents.protocol import SCRATCH, AgentTask
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import GatewayAddress
from pytest_researchenv.sandbox.protocol import Completed


__all__ = ["digest_of", "excerpt", "model_of", "run_command", "run_tool"]

_PROMPT = f"{SCRATCH}/prompt.md"

#: The prompt comes by stdin: an argument holds 128 KiB at most, and stands in every list of processes.
_START = 'exec "$@" < "$0"'


def run_tool(task: AgentTask, argv: Sequence[str], environment: Mapping[str, str]) -> Completed:
    """Run a tool in the repository's folder with the prompt as its stdin, until it ends or has to.

    Args:
        task: what it is to do.
        argv: the tool and its arguments.
        environment: variables of its own, which win over the task's.

    Raises:
        SandboxError: the prompt cannot be written, or the engine failed.
    """
    write_text(task.container, _PROMPT, task.prompt)
    return run_command(task, ["/bin/sh", "-c", _START, _PROMPT, *argv], environment)


def run_command(task: AgentTask, argv: Sequence[str], environment: Mapping[str, str]) -> Completed:
    """Run a command in the repository's folder until it ends or has to; what it prints goes to the transcript.

    Args:
        task: what it is to do.
        argv: the command.
        environment: variables of its own, which win over the task's.

    Raises:
        SandboxError: the engine failed.
    """
    return task.container.exec(
        argv,
        timeout_s=task.timeout_s,
        environment={
            **task.environment,
            # What it builds belongs where it would be without it.
            "HOME": "/root",
            "DEBIAN_FRONTEND": "noninteractive",
            **environment,
        },
        workdir=task.repository.workdir,
        on_output=task.transcript,
        stop=task.stop,
    )


def model_of(name: str, task: AgentTask) -> GatewayAddress:
    """Return where the model answers.

    Raises:
        ConfigurationError: the task names no place.
    """
    if task.model is None:
        raise ConfigurationError(f"{name} was given no model to ask: start a gateway for it")
    return task.model


def digest_of(said: Mapping[str, object]) -> str:
    """Digest of what shapes an agent's environments."""
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def excerpt(completed: Completed, *, limit: int = 300) -> str:
    """The end of what was printed, in one line."""
    return " ".join(completed.output.text().split())[-limit:]
