"""Profiles: which agents there are, by name, from our own `profiles.toml` and the user's files.

The keys are described in `profiles.toml`. Importing this module is cheap; reading profiles needs pydantic.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import tomli

from pytest_researchenv._sources import STRICT
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, Reach


__all__ = ["MODEL_VARIABLE", "Kind", "Profile", "host_problem", "load_profiles", "shipped_tables"]

#: Names the model of profiles that name none.
MODEL_VARIABLE = "RESEARCHENV_MODEL"

_SHIPPED = "profiles.toml"


class Kind(StrEnum):
    """What kinds of agents there are."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    MINI_SWE = "mini-swe"
    NEXAU = "nexau"
    OPENHANDS = "openhands"
    COMMAND = "command"
    ORACLE = "oracle"
    BASELINE = "baseline"
    NOOP = "noop"

    @property
    def script(self) -> bool:
        """Whether it is a shell script of ours, without a model."""
        return self in {Kind.ORACLE, Kind.BASELINE, Kind.NOOP}


#: Kinds whose tool speaks one protocol only.
_APIS = {Kind.CLAUDE_CODE: Api.MESSAGES, Kind.CODEX: Api.RESPONSES}

#: Keys that mean nothing without a model.
_MODEL_KEYS = ("model", "also", "api", "endpoint", "endpoint_variable", "auth", "key")

# As part of an image's tag and of test ids: lower case, and no sign at either end.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TIER = re.compile(r"c[0-5]")
_LONGEST_NAME = 40
_RESERVED = ("no-agent", "all", "none")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A whole top-level domain is no host.
_HOST = re.compile(r"(\*\.(?=.*\.))?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Profile:
    """An agent as it is described; `profiles.toml` tells what each key means."""

    __pydantic_config__: ClassVar = STRICT

    kind: Kind
    description: str = ""
    model: str = ""
    also: tuple[str, ...] = ()
    api: Api | None = None
    endpoint: str = ""
    endpoint_variable: str = ""
    auth: Auth | None = None
    key: str = ""
    version: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    files: str = ""
    network: Reach = Reach.OPEN
    allow: tuple[str, ...] = ()
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_requests: int | None = None
    timeout_s: float | None = None
    inactivity_s: float | None = None

    @property
    def asks_model(self) -> bool:
        """Whether it asks a model: a command does where it says how."""
        return not self.kind.script and (self.kind is not Kind.COMMAND or self.api is not None)

    def model_name(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return the model, also from the environment; empty where none is known."""
        return self.model or environ.get(MODEL_VARIABLE, "").strip()

    def base_url(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return where the model answers, also from the environment, without a slash at its end; empty if unknown."""
        return (environ.get(self.endpoint_variable, "").strip() or self.endpoint).rstrip("/")

    def lacking(self, environ: Mapping[str, str] = os.environ) -> str:
        """Say what is missing to know which model it asks, and where; empty when nothing is."""
        if not self.asks_model:
            return ""
        if not self.model_name(environ):
            return f"no model is named: set the environment variable {MODEL_VARIABLE}, or `model` in a profile of yours"
        url = self.base_url(environ)
        if not url:
            return f"no endpoint is named: set the environment variable {self.endpoint_variable} to its base URL"
        problem = _url_problem(url)
        return f"the environment variable {self.endpoint_variable} {problem}" if problem else ""


@dataclass(frozen=True, slots=True)
class _Table:
    """A profile as it stands in a file."""

    file: str
    name: str
    values: Mapping[str, Any]

    def problem(self, key: str, text: str) -> ConfigurationError:
        """Say what is wrong with it."""
        return ConfigurationError(f"{self.file}: {self.name}{f'.{key}' if key else ''}: {text}")


@cache
def shipped_tables() -> Mapping[str, Mapping[str, Any]]:
    """Return our own profiles as they stand in the file, without reading them further."""
    text = (resources.files("pytest_researchenv.agents") / _SHIPPED).read_text(encoding="utf-8")
    return tomli.loads(text)


def load_profiles(files: Sequence[Path] = ()) -> Mapping[str, Profile]:
    """Return every profile by name: our own, then those of the files, each of which wins over those before.

    Raises:
        ConfigurationError: a file cannot be read or is wrong; the message names file, profile, key, value and the fix.
    """
    layers = [_tables(_SHIPPED, shipped_tables())]
    layers += [_tables(str(file), _read(file)) for file in files]
    known: dict[str, Mapping[str, Any]] = {}
    profiles: dict[str, Profile] = {}
    for layer in layers:
        written = {name: _written_out(table, layer, known) for name, table in layer.items()}
        profiles |= {name: _profile(replace(layer[name], values=values)) for name, values in written.items()}
        known |= written
    return profiles


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomli.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{file} does not exist: --researchenv-agents-file and researchenv_agents name files with profiles"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    # A number that is too long is no TOMLDecodeError, and what is nested too deeply is neither.
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from error


def _tables(file: str, raw: Mapping[str, Any]) -> dict[str, _Table]:
    for name, values in raw.items():
        if not isinstance(values, dict):
            raise ConfigurationError(
                f"{file}: {name}: {_shown(values)} is no table: write the keys below a line [NAME]"
            )
        table = _Table(file, name, values)
        if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME or name in _RESERVED:
            raise table.problem(
                "",
                f"a name is 1 to {_LONGEST_NAME} of a-z, 0-9 and single hyphens between them, and none of "
                f"{', '.join(_RESERVED)}: it becomes part of test ids, image tags and folders",
            )
        if tier := _TIER.search(name):
            raise table.problem("", f"holds {tier[0]!r}, so that `-k {tier[0].upper()}` would select it: rename it")
    return {name: _Table(file, name, _located(file, values)) for name, values in raw.items()}


def _located(file: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a profile whose files are named from the root: in the file, they count from where it lies."""
    files = values.get("files")
    if not isinstance(files, str) or not files:
        return values
    return {**values, "files": str(Path(file).absolute().parent / Path(files).expanduser())}


def _written_out(
    table: _Table, layer: Mapping[str, _Table], known: Mapping[str, Mapping[str, Any]], seen: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return a table with all that it takes over from others. Variables are joined, all else is replaced."""
    values = dict(table.values)
    if "extends" not in values:
        return values
    base = values.pop("extends")
    # A profile that extends its own name means the one before it.
    if isinstance(base, str) and base in layer and base != table.name:
        if base in seen:
            raise table.problem("extends", f"goes round in a circle: {' → '.join((*seen, table.name, base))}")
        inherited = _written_out(layer[base], layer, known, (*seen, table.name))
    elif isinstance(base, str) and base in known:
        inherited = known[base]
    else:
        names = [*known, *(name for name in layer if name != table.name)]
        raise table.problem("extends", f"{_shown(base)} is no profile{_nearest(base, names)}")
    if isinstance(values.get("environment"), dict):
        values["environment"] = {**inherited.get("environment", {}), **values["environment"]}
    return {**inherited, **values}


def _profile(table: _Table) -> Profile:
    # Reading profiles must cost nothing where no agent is chosen.
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - see above

    try:
        # Through JSON, since only there pydantic's strict mode takes a list for a tuple and a string for an enum.
        profile = TypeAdapter(Profile).validate_json(json.dumps(table.values), strict=True)
    except TypeError as error:
        raise table.problem("", "holds a date or a time, which no key takes; put it in quotes") from error
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        key = ".".join(map(str, found["loc"]))
        if found["type"] == "missing" and table.values and all(isinstance(one, dict) for one in table.values.values()):
            inner = next(iter(table.values))
            raise table.problem(
                "", f"holds tables alone: an agent {inner!r} is written [{inner}], at the top"
            ) from error
        raise table.problem(key, _text(found["type"], found["msg"], key, found["input"])) from error
    for key, text in _problems(profile, table.values):
        raise table.problem(key, text)
    return profile


def _text(kind: str, message: str, key: str, value: object) -> str:
    names = [one.name for one in fields(Profile)]
    if kind == "unexpected_keyword_argument":
        return f"unknown key (value {_shown(value)}){_nearest(key, [*names, 'extends'])}"
    if kind == "missing":
        return f"missing; give one of {', '.join(Kind)}, or `extends` with a profile to build on"
    words = message.replace("Input should be", "must be").replace("a valid array", "a list")
    words = words.replace("a valid dictionary", "a table").replace("an object", "a table")
    members = {"kind": Kind, "api": Api, "auth": Auth, "network": Reach}.get(key)
    return f"{words}, not {_shown(value)}{_nearest(value, list(map(str, members))) if members else ''}"


def _nearest(value: object, names: Sequence[str]) -> str:
    near = get_close_matches(str(value), names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(names))}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_NAME * 2 else text[: _LONGEST_NAME * 2] + "…"


# --- what types cannot say --------------------------------------------------------------------------------


def _problems(profile: Profile, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _kind_problems(profile, given)
    if profile.asks_model:
        yield from _service_problems(profile)
    yield from _value_problems(profile)
    yield from _environment_problems(profile)
    if profile.allow and profile.network is not Reach.ALLOWLIST:
        yield "allow", f'means nothing with network = "{profile.network}": set network = "{Reach.ALLOWLIST}"'


def _value_problems(profile: Profile) -> Iterator[tuple[str, str]]:
    for name in ("max_cost_usd", "max_tokens", "max_requests", "timeout_s", "inactivity_s"):
        value = getattr(profile, name)
        if value is not None and not 0 < value < math.inf:
            yield name, f"must be a positive number, not {value!r}; for no limit, leave it out"
    for name in ("arguments", "command", "also"):
        if any("\0" in part for part in getattr(profile, name)) or (name == "also" and "" in profile.also):
            yield name, f"{_shown(getattr(profile, name))} cannot be used: a part is empty or holds a zero byte"
    for host in profile.allow:
        if problem := host_problem(host):
            yield "allow", problem


def host_problem(host: str) -> str:
    """Say why something is no host for an allowlist; empty when it is one."""
    return (
        ""
        if _HOST.fullmatch(host)
        else f"{_shown(host)} is no host: write example.org, *.example.org or example.org:8443"
    )


def _environment_problems(profile: Profile) -> Iterator[tuple[str, str]]:
    for name in profile.environment:
        if not _VARIABLE.fullmatch(name):
            yield f"environment.{name}", "is no name of a variable: use letters, digits and _"
        if name == profile.key:
            yield f"environment.{name}", "is the key, which no agent gets: remove it; it is found where keys are kept"


def _kind_problems(profile: Profile, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = profile.kind
    if kind is Kind.COMMAND and not (profile.command and profile.command[0].strip()):
        yield "command", 'missing; give what to run, an argument each: command = ["my-agent", "--headless"]'
    for key in ("command", "files"):
        if kind is not Kind.COMMAND and given.get(key):
            yield key, f'is for kind = "{Kind.COMMAND}" only; this is {kind}'
    if profile.files and not Path(profile.files).exists():
        yield "files", f"{_shown(profile.files)} does not exist; give a file or a folder, from where this file lies"
    unused = () if profile.asks_model else (*_MODEL_KEYS, "max_cost_usd", "max_tokens", "max_requests")
    if kind.script:
        unused = (*unused, "version", "arguments")
    for key in unused:
        if given.get(key):
            why = "asks a model only where `api` says how" if kind is Kind.COMMAND else "takes none"
            yield (
                key,
                f"means nothing here: kind {kind} {why}; remove it{', or set api' if kind is Kind.COMMAND else ''}",
            )
    wanted = _APIS.get(kind)
    if wanted and profile.api is not wanted:
        yield "api", f'must be "{wanted}" for kind {kind}, not {_shown(profile.api)}'


def _service_problems(profile: Profile) -> Iterator[tuple[str, str]]:
    if profile.api is None:
        yield "api", f"missing; give one of {', '.join(Api)}"
    if not (profile.endpoint or profile.endpoint_variable):
        yield "endpoint", f'missing; give the base URL of the model\'s service, such as "{_EXAMPLE}"'
    if profile.endpoint and (problem := _url_problem(profile.endpoint)):
        yield "endpoint", problem
    for name in ("key", "endpoint_variable"):
        value = getattr(profile, name)
        if value and not _VARIABLE.fullmatch(value):
            # It may be the key itself.
            yield (
                name,
                f"must be the name of a variable, such as {_USUAL[name]}; what is there is no name, and not shown",
            )
    if not profile.key:
        yield "key", "missing; give the name of the variable that holds the key, such as OPENAI_API_KEY"
    if profile.model and not re.fullmatch(r"[^\s\x00-\x1f]+", profile.model):
        yield "model", f"{_shown(profile.model)} is no name of a model: it has white space in it"


_EXAMPLE = "https://api.openai.com/v1"
_USUAL = {"key": "OPENAI_API_KEY", "endpoint_variable": "OPENAI_BASE_URL"}


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        return f"is no URL; give one such as {_EXAMPLE}"
    if parts.username is not None or parts.password is not None:
        return "holds a name or a password, which is not shown here: keys belong where `key` names them"
    if not fine or parts.query or parts.fragment:
        return f"{_shown(url)} is no base URL; give one such as {_EXAMPLE}"
    return ""
