"""Which agents there are."""

from __future__ import annotations

from difflib import get_close_matches

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.script import ScriptAgent, noop_script, oracle_script
from pytest_researchenv.errors import ConfigurationError


__all__ = ["AGENTS", "find_agent"]

#: Every known agent, with what it is, for listings.
AGENTS = {
    "oracle": "runs the suite's known-good recipe (oracle.sh) and reports honestly",
    "noop": "installs nothing and reports the bare interpreter",
}

_SCRIPTS = {"oracle": oracle_script, "noop": noop_script}


def find_agent(name: str) -> Agent:
    """Return the agent of this name.

    Raises:
        ConfigurationError: there is none; the message lists those there are.
    """
    if name not in AGENTS:
        near = get_close_matches(name, AGENTS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ConfigurationError(f"no agent is called {name!r}{hint} Known agents: {', '.join(AGENTS)}.")
    return ScriptAgent(name, _SCRIPTS[name])
