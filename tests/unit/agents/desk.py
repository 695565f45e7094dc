"""A container in which a Python program of an agent's is acted: what it finds is noted, and it prints a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_researchenv.agents.protocol import TOOL_TARGET, Agent, AgentTask, Telemetry
from pytest_researchenv.gateway.protocol import GatewayAddress
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox, FakeTimeoutError
from pytest_researchenv.sandbox.protocol import ContainerSpec
from tests.unit.agents.bench import ADDRESS, REPOSITORY


__all__ = ["PYTHON", "Desk"]

PYTHON = f"{TOOL_TARGET}/python/bin/python3"


@dataclass
class Desk:
    """Where an agent works.

    Attributes:
        prints: what the program prints; None: it never ends.
        code: what it exits with.
        full: whether nothing can be written into the folder in memory.
        files: what was written there: path → content.
        argv: the program's arguments.
        environment: its variables.
        transcript: what the agent handed on.
    """

    prints: bytes | None = b""
    code: int = 0
    full: bool = False
    files: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    transcript: bytes = b""

    def work(self, agent: Agent, prompt: str = "Build it.", model: GatewayAddress | None = ADDRESS) -> Telemetry:
        """Let it work to its end."""
        sandbox = FakeSandbox()
        sandbox.program("/bin/sh", self._shell)
        sandbox.program(PYTHON, self._python)
        with sandbox.opened(ContainerSpec(sandbox.add_image("base"))) as container:
            container.start()
            theirs = {"HOME": "/elsewhere", "PIP_INDEX_URL": "https://index"}
            return agent.work(AgentTask(REPOSITORY, container, theirs, 60, self._print, prompt, model))

    def _shell(self, _files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        path = argv[-1]
        before = self.files.get(path, "") if ">>" in argv[2] else ""
        self.files[path] = before + environment["PART"]
        return (1, b"no room") if self.full else (0, b"")

    def _python(self, _files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        self.argv, self.environment = argv, environment
        if self.prints is None:
            raise FakeTimeoutError
        return self.code, self.prints

    def _print(self, chunk: bytes) -> None:
        self.transcript += chunk
