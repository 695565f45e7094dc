"""What agents still need: keys first of all."""

from __future__ import annotations

from pytest_researchenv.agents.listing import missing
from pytest_researchenv.agents.profiles import load_profiles
from pytest_researchenv.doctor.values import Asked, Finding, State
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.prices import load_prices


__all__ = ["agent_findings"]


def agent_findings(asked: Asked) -> tuple[Finding, ...]:
    """Say of the chosen agents what each lacks; where none was chosen, which are ready.

    Raises:
        ConfigurationError: an agent is unknown, or a file of profiles or prices is wrong.
    """
    profiles = load_profiles(asked.agents_files)
    if unknown := [name for name in asked.agents if name not in profiles]:
        raise ConfigurationError(f"no agent is called {unknown[0]!r}\nknown agents: {', '.join(profiles)}")
    prices = load_prices(asked.prices)
    needs = {
        name: missing(profiles[name], folders=[asked.folder], environ=asked.environ, prices=prices)
        for name in asked.agents or profiles
    }
    if asked.agents:
        return tuple(
            Finding(f"agent {name}", State.PROBLEM, "not ready", f"needs {'; '.join(wanted)}")
            if wanted
            else Finding(f"agent {name}", State.OK, "ready")
            for name, wanted in needs.items()
        )
    ready = [name for name, wanted in needs.items() if not wanted]
    others = [name for name, wanted in needs.items() if wanted]
    found = [Finding("agents that are ready", State.OK if ready else State.WARNING, ", ".join(ready) or "none")]
    if others:
        fix = "`researchenv agents NAME` says what each needs, most often a key"
        # Nobody wants all of them: those that are wanted are named with --agent.
        found.append(Finding("agents that are not", State.SKIPPED, ", ".join(others), fix))
    return tuple(found)
