"""A container in which a tool of an agent's is acted: what it was told is noted, and it prints a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_researchenv.agents.protocol import Agent, AgentTask, Telemetry
from pytest_researchenv.gateway.protocol import GatewayAddress
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, FakeTimeoutError
from pytest_researchenv.sandbox.protocol import ContainerSpec


__all__ = ["ADDRESS", "RECORDINGS", "REPOSITORY", "Bench"]

RECORDINGS = Path(__file__).parent / "recordings"
REPOSITORY = Repository("project", PathSource("."))
ADDRESS = GatewayAddress("http://gateway:4000", "the-token")

_PROMPT = "/researchenv/scratch/prompt.md"


@dataclass
class Bench:
    """Where an agent works.

    Attributes:
        prints: what the tool prints; None: it never ends.
        code: what it exits with.
        fails: whether the prompt cannot be written.
        prompt: what was written for it.
        argv: the tool and its arguments.
        environment: its variables.
        transcript: what the agent handed on.
    """

    prints: bytes | None = b""
    code: int = 0
    fails: bool = False
    prompt: str = ""
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    transcript: bytes = b""

    def work(self, agent: Agent, prompt: str = "Build it.", model: GatewayAddress | None = ADDRESS) -> Telemetry:
        """Let it work to its end."""
        sandbox = FakeSandbox()
        sandbox.program("/bin/sh", self._shell)
        with sandbox.opened(ContainerSpec(sandbox.add_image("base"))) as container:
            container.start()
            theirs = {"HOME": "/elsewhere", "PIP_INDEX_URL": "https://index"}
            return agent.work(AgentTask(REPOSITORY, container, theirs, 60, self._print, prompt, model))

    def _shell(self, _files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        if "PART" in environment:
            assert argv[-1] == _PROMPT
            self.prompt = (self.prompt if ">>" in argv[2] else "") + environment["PART"]
            return (1, b"no room") if self.fails else (0, b"")
        assert argv[1:4] == ("-c", 'exec "$@" < "$0"', _PROMPT)
        self.argv, self.environment = argv[4:], environment
        if self.prints is None:
            raise FakeTimeoutError
        return self.code, self.prints

    def _print(self, chunk: bytes) -> None:
        self.transcript += chunk
