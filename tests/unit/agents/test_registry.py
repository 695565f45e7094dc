"""A name becomes an agent, with what its profile says, and nothing is loaded for it before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv.agents.profiles import MODEL_VARIABLE, Kind, load_profiles
from pytest_researchenv.agents.registry import AGENTS, find_agent, known_agents, module_of, needs_of
from pytest_researchenv.agents.script import baseline_script, oracle_script
from pytest_researchenv.errors import ConfigurationError, SuiteError
from pytest_researchenv.gateway.protocol import Api, Auth, Budget, ModelService, Reach
from pytest_researchenv.model import PathSource, Repository


ENVIRON = {MODEL_VARIABLE: "some-model", "LLM_BASE_URL": "http://localhost:1/v1"}


@pytest.mark.parametrize("name", load_profiles())
def test_every_shipped_profile_becomes_an_agent(name: str) -> None:
    """Of its name, with the model and the limits of its profile."""
    profile = load_profiles()[name]

    agent = find_agent(name, environ=ENVIRON)

    assert agent.name == name
    assert agent.free is profile.kind.script
    assert agent.needs.budget == needs_of(profile, ENVIRON).budget
    assert agent.needs.service == needs_of(profile, ENVIRON).service
    assert agent.needs.reach is profile.network
    assert agent.needs.prompted is not profile.kind.script


def test_every_kind_is_made_somewhere() -> None:
    """A kind that profiles may name can be had."""
    assert {kind for kind in Kind if not module_of(kind)} == {Kind.ORACLE, Kind.BASELINE, Kind.NOOP}


def test_what_a_profile_says_is_what_the_agent_needs() -> None:
    """The header of the key is the protocol's usual one, unless the profile says another."""
    profiles = load_profiles()

    sonnet = needs_of(profiles["claude-sonnet"], {"ANTHROPIC_BASE_URL": "http://localhost:2/"})

    assert sonnet.service == ModelService(
        api=Api.MESSAGES,
        endpoint="http://localhost:2",
        auth=Auth.API_KEY,
        key="ANTHROPIC_API_KEY",
        model=profiles["claude-sonnet"].model,
        also=profiles["claude-sonnet"].also,
    )
    assert sonnet.budget == Budget(max_cost_usd=10.0, max_requests=600)
    assert (sonnet.reach, sonnet.inactivity_s, sonnet.timeout_s) == (Reach.ALLOWLIST, 1800, None)
    glm = needs_of(profiles["claude-code-glm"], {}).service
    codex = needs_of(profiles["codex"], {}).service
    assert glm is not None
    assert codex is not None
    assert (glm.auth, codex.auth) == (Auth.BEARER, Auth.BEARER)


def test_a_script_takes_what_a_profile_says(tmp_path: Path) -> None:
    """A suite's recipe can be tried without network."""
    file = tmp_path / "agents.toml"
    file.write_text('[offline]\nkind = "oracle"\nnetwork = "none"\ntimeout_s = 60\n')

    agent = find_agent("offline", profiles=load_profiles([file]))

    assert (agent.name, agent.free, agent.needs.reach, agent.needs.timeout_s) == ("offline", True, Reach.NONE, 60)
    assert not agent.needs.prompted
    assert agent.trajectory(tmp_path / "none") is None


def test_an_unknown_name_is_told_with_the_known_ones(tmp_path: Path) -> None:
    """With the nearest, and the user's own among them."""
    with pytest.raises(ConfigurationError, match=r"'claude-sonet'; did you mean 'claude-sonnet'\? .*oracle, base"):
        find_agent("claude-sonet")
    file = tmp_path / "agents.toml"
    file.write_text('[mine]\nkind = "noop"\n')
    with pytest.raises(ConfigurationError, match=r"Known agents: .*mine"):
        find_agent("zzz", profiles=load_profiles([file]))


def test_an_agent_without_a_model_or_an_endpoint_is_told_before_work_starts() -> None:
    """With the variable that would name it."""
    with pytest.raises(ConfigurationError, match=f"'mini-swe' cannot work: .*{MODEL_VARIABLE}"):
        find_agent("mini-swe", environ={})
    with pytest.raises(ConfigurationError, match=r"'paper-nexau' cannot work: .*LLM_BASE_URL"):
        find_agent("paper-nexau", environ={})


def test_known_agents_have_a_word_each(tmp_path: Path) -> None:
    """For listings and messages."""
    file = tmp_path / "agents.toml"
    file.write_text('[mine]\nkind = "noop"\n')

    assert dict(known_agents()) == dict(AGENTS)
    assert list(AGENTS) == list(load_profiles())
    assert all(AGENTS.values())
    assert known_agents(load_profiles([file]))["mine"] == "of kind noop"


def test_no_agent_is_loaded_before_one_is_asked_for() -> None:
    """Every pytest session of everybody who has this package installed imports the registry."""
    heavy = {"pydantic", "docker", "jinja2", "rich", "requests", "dotenv", "keyring"}
    script = (
        "import sys; from pytest_researchenv.agents import registry; registry.find_agent('noop'); "
        f"len(registry.AGENTS); print([name for name in sys.modules if name.split('.')[0] in {heavy} "
        "or name.startswith('pytest_researchenv.agents.c')])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_baseline_agent_runs_what_the_task_has_and_says_where_one_has_nothing(tmp_path: Path) -> None:
    """A research task's best baseline is a script of its own; other suites have none."""
    repository = Repository("owner/thing", PathSource("."), folder=str(tmp_path))
    agent = find_agent("baseline")
    with pytest.raises(SuiteError, match=r"no script for the agent `baseline`.*baseline\.sh"):
        agent.inputs(repository)

    (tmp_path / "baseline.sh").write_text("run lda\n")

    assert baseline_script(repository) == "run lda\n"
    assert agent.free
    assert agent.needs.service is None


def test_a_recipe_may_take_in_a_file_beside_it_and_nothing_else(tmp_path: Path) -> None:
    """So that the withheld method stands in one place."""
    (tmp_path / "withheld").mkdir()
    (tmp_path / "withheld" / "own.py").write_text("METHOD = 1\n")
    (tmp_path / "oracle.sh").write_text("cat >own.py <<'X'\n@withheld/own.py@\nX\necho a@b.c @\n")
    repository = Repository("owner/thing", PathSource("."), folder=str(tmp_path))

    assert oracle_script(repository) == "cat >own.py <<'X'\nMETHOD = 1\nX\necho a@b.c @\n"
    (tmp_path / "oracle.sh").write_text("@withheld/other.py@\n")
    with pytest.raises(SuiteError, match=r"other\.py"):
        oracle_script(repository)
