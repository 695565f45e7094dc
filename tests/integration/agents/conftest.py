"""A stand-in of the providers' services, and a place in which pytest runs agents against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from pytest_researchenv.packedlogs import open_log
from pytest_researchenv.sandbox.labels import KIND, alive
from tests.contract.standin import StandIn, in_container, tape
from tests.integration.workplace import Ran, Workplace


__all__ = ["CANARY", "NEEDY", "Bench"]

#: The key of the stand-in. It must turn up nowhere.
CANARY = "sk-canary-5f0e1c9a7b3d4286"

#: What sets up the repository `needy`, and reports honestly.
NEEDY = (
    "python3 -m venv --without-pip /opt/needy",
    "pip --python /opt/needy/bin/python install --no-index /workspace/needy/vendor/tinydep-1.0-py3-none-any.whl",
    """/opt/needy/bin/python - <<'END'
import json, platform, sys
names = ("torch_version", "cuda_available", "gpu_count", "ddp_expected_ok", "notes")
report = dict.fromkeys(names) | {
    "python_path": sys.executable,
    "python_version": platform.python_version(),
    "env_tool": "venv",
    "env_name": "/opt/needy",
}
json.dump(report, open("/researchenv/report.json", "w"))
END""",
)


@dataclass
class Bench:
    """Runs agents at the repository `needy`, against the stand-in."""

    place: Workplace
    standin: StandIn
    folder: Path

    def play(self, name: str, **more: Any) -> None:  # noqa: ANN401 - a tape's own keys
        """Have the stand-in play a tape, for whoever has the canary, unless another key is given."""
        self.standin.play(tape(name, **{"key": CANARY, **more}))

    def profile(self, text: str) -> str:
        """Write a file of profiles, and return the option that names it."""
        path = self.folder / "profiles.toml"
        path.write_text(text)
        return f"--researchenv-agents-file={path}"

    def run(self, agent: str, *arguments: str, environ: Mapping[str, str] | None = None, key: str = CANARY) -> Ran:
        """Let an agent build `needy`, and judge C1 unless the arguments select otherwise."""
        selection = () if "-k" in arguments else ("-k", "c1 and needy")
        variables = {**self.variables(key), **(environ or {})}
        options = ("--researchenv-retry-delay=0.1", "--researchenv-retries=0")
        return self.place.run(
            f"--researchenv-agent={agent}", *options, *selection, *arguments, cwd=self.folder, environ=variables
        )

    def variables(self, key: str = CANARY) -> dict[str, str]:
        """What leads tools to the stand-in."""
        return {
            "ANTHROPIC_BASE_URL": self.standin.bridge_url,
            "OPENAI_BASE_URL": f"{self.standin.bridge_url}/v1",
            "ANTHROPIC_API_KEY": key,
            "OPENAI_API_KEY": key,
            "RESEARCHENV_MODEL": "stand-in",
        }

    def attempt(self, agent: str, number: int = 1, *, repository: str = "needy") -> Path:
        """The folder of an attempt."""
        return self.folder / f"researchenv-results/default/{agent}/tiny/{repository}/attempt-{number:03d}"

    def log(self, agent: str, name: str) -> str:
        """What a log of an attempt holds."""
        with open_log(self.attempt(agent) / name) as log:
            return log.read().decode(errors="replace")

    def record(self, agent: str, number: int = 1) -> dict[str, Any]:
        """What the environment's record says."""
        return dict(json.loads((self.attempt(agent, number) / "environment.json").read_text()))


@pytest.fixture(scope="session")
def standin(docker_client: DockerClient, base_image: str) -> Iterator[StandIn]:
    """The stand-in, in a container on the default bridge."""
    with in_container(docker_client, base_image, tape("good", key=CANARY)) as standin:
        yield standin


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory, docker_client: DockerClient, standin: StandIn) -> Iterator[Bench]:
    """A place of its own; what was frozen is removed in the end."""
    folder = tmp_path_factory.mktemp("bench")
    place = Workplace(folder, docker_client)
    yield Bench(place, standin, folder)
    place.clean()


@pytest.fixture
def survivors(docker_client: DockerClient) -> Callable[[], list[str]]:
    """Names of containers and networks of attempts whose pytest has ended."""

    def find() -> list[str]:
        containers = docker_client.api.containers(all=True, filters={"label": "researchenv.attempt"})
        networks = docker_client.api.networks(filters={"label": "researchenv.attempt"})
        # Other tests run at the same time.
        return [
            str(item["Id"])
            for item in (*containers, *networks)
            if alive(item["Labels"]["researchenv.process"]) is False and item["Labels"][KIND] != "snapshot"
        ]

    return find
