"""What agents share whose tool is a command line program in the container: how it is started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pytest_researchenv.agents._scratch import write_text
from pytest_researchenv.agents.protocol import SCRATCH, AgentTask, Needs
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, GatewayAddress, ModelService
from pytest_researchenv.sandbox.protocol import Completed


__all__ = ["digest_of", "excerpt", "model_of", "run_tool", "served"]

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
    return task.container.exec(
        ["/bin/sh", "-c", _START, _PROMPT, *argv],
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


def served(name: str, needs: Needs, api: Api) -> ModelService:
    """Return the model that an agent asks.

    Raises:
        ConfigurationError: its profile names none, or one in a protocol that its tool does not speak.
    """
    if needs.service is None:
        raise ConfigurationError(f"{name} needs a model: name one in its profile, with its endpoint")
    if needs.service.api is not api:
        raise ConfigurationError(
            f"{name} asks its model by {api}, and its profile's is served by {needs.service.api}: "
            "take another endpoint, or another kind of agent"
        )
    return needs.service


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
