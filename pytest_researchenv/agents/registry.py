"""Which agents there are: profiles made into agents of their kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_researchenv.agents.profiles import Kind, Profile, load_profiles, shipped_tables
from pytest_researchenv.agents.protocol import Agent, Needs, Tool
from pytest_researchenv.agents.script import ScriptAgent, baseline_script, noop_script, oracle_script
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, Budget, ModelService


__all__ = ["AGENTS", "find_agent", "known_agents", "module_of", "needs_of"]

#: Where each kind is made; imported when an agent of it is asked for.
_CLASSES = {
    Kind.CLAUDE_CODE: ("pytest_researchenv.agents.claude_code", "ClaudeCodeAgent"),
    Kind.CODEX: ("pytest_researchenv.agents.codex", "CodexAgent"),
    Kind.MINI_SWE: ("pytest_researchenv.agents.mini_swe", "MiniSweAgent"),
    Kind.NEXAU: ("pytest_researchenv.agents.nexau", "NexauAgent"),
    Kind.OPENHANDS: ("pytest_researchenv.agents.openhands", "OpenHandsAgent"),
    Kind.COMMAND: ("pytest_researchenv.agents.command", "CommandAgent"),
}

_SCRIPTS = {Kind.ORACLE: oracle_script, Kind.BASELINE: baseline_script, Kind.NOOP: noop_script}

#: In which header services of a protocol usually take their key.
_AUTH = {Api.MESSAGES: Auth.API_KEY, Api.RESPONSES: Auth.BEARER, Api.CHAT: Auth.BEARER}


class _Shipped(Mapping[str, str]):
    """Our own agents, read when they are asked for."""

    def __getitem__(self, name: str) -> str:
        return str(shipped_tables()[name].get("description", ""))

    def __iter__(self) -> Iterator[str]:
        return iter(shipped_tables())

    def __len__(self) -> int:
        return len(shipped_tables())


#: Every agent that comes with this package, with what it is.
AGENTS: Mapping[str, str] = _Shipped()


def known_agents(profiles: Mapping[str, Profile] | None = None) -> Mapping[str, str]:
    """Return every agent's name with what it is; without profiles, those that come with this package."""
    if profiles is None:
        return AGENTS
    return {name: profile.description or f"of kind {profile.kind}" for name, profile in profiles.items()}


def find_agent(
    name: str, *, profiles: Mapping[str, Profile] | None = None, environ: Mapping[str, str] = os.environ
) -> Agent:
    """Return the agent of this name.

    Args:
        name: name of its profile.
        profiles: every profile; None for those that come with this package.
        environ: the environment, which may name a model and endpoints.

    Raises:
        ConfigurationError: there is none, or its profile does not say enough; the message tells what to do.
    """
    # Without profiles of the user's, scripts need nothing to be read.
    if profiles is None and name in tuple(_SCRIPTS):
        return ScriptAgent(name, _SCRIPTS[Kind(name)])
    known = load_profiles() if profiles is None else profiles
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ConfigurationError(f"no agent is called {name!r}{hint} Known agents: {', '.join(known)}.")
    return _made(name, known[name], environ)


def module_of(kind: Kind) -> str:
    """Return the module that makes agents of a kind; empty for scripts."""
    return _CLASSES[kind][0] if kind in _CLASSES else ""


def needs_of(profile: Profile, environ: Mapping[str, str] = os.environ) -> Needs:
    """Return what a profile says must be there."""
    service = None
    if profile.asks_model and profile.api:
        service = ModelService(
            api=profile.api,
            endpoint=profile.base_url(environ),
            auth=profile.auth or _AUTH[profile.api],
            key=profile.key,
            model=profile.model_name(environ),
            also=profile.also,
        )
    return Needs(
        service=service,
        budget=Budget(profile.max_cost_usd, profile.max_tokens, profile.max_requests),
        reach=profile.network,
        allow=profile.allow,
        timeout_s=profile.timeout_s,
        inactivity_s=profile.inactivity_s,
        prompted=not profile.kind.script,
    )


def _made(name: str, profile: Profile, environ: Mapping[str, str]) -> Agent:
    if lacking := profile.lacking(environ):
        raise ConfigurationError(f"the agent {name!r} cannot work: {lacking}")
    needs = needs_of(profile, environ)
    if profile.kind.script:
        return ScriptAgent(name, _SCRIPTS[profile.kind], environment=profile.environment, needs=needs)
    own: dict[str, Any] = {"version": profile.version, "arguments": profile.arguments}
    if profile.kind is Kind.COMMAND:
        own = {"command": profile.command}
        if profile.files:
            needs = replace(needs, tool=_files(profile.files))
    module, cls = _CLASSES[profile.kind]
    make: Callable[..., Agent] = getattr(import_module(module), cls)
    return make(name=name, needs=needs, environment=profile.environment, **own)


def _files(path: str) -> Tool:
    # Imported like the kinds, when an agent asks for it.
    from pytest_researchenv.agents.command import FilesTool  # noqa: PLC0415 - see above

    return FilesTool(Path(path))
