"""Profiles say who works; what is wrong with one is told with its place and the fix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_researchenv.agents.listing import missing
from pytest_researchenv.agents.profiles import MODEL_VARIABLE, Kind, Profile, load_profiles
from pytest_researchenv.cli import main
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, Price, Reach


COMMAND = '[mine]\nkind = "command"\ncommand = ["my-agent"]\n'


def written(tmp_path: Path, text: str, name: str = "agents.toml") -> Path:
    """Write a file of profiles."""
    file = tmp_path / name
    file.write_text(text)
    return file


def test_every_promised_agent_is_shipped() -> None:
    """Those of the papers and the usual ones."""
    assert set(load_profiles()) == {
        "oracle",
        "baseline",
        "noop",
        "claude-sonnet",
        "claude-opus",
        "claude-code-glm",
        "codex",
        "mini-swe",
        "openhands",
        "nexau",
        "paper-codex",
        "paper-glm",
        "paper-sonnet",
        "paper-nexau",
    }


def test_the_published_configurations_have_their_models_and_their_hour() -> None:
    """As in arXiv 2603.06739."""
    profiles = load_profiles()

    told = {name: (one.kind, one.model, one.timeout_s) for name, one in profiles.items() if name.startswith("paper-")}

    assert told == {
        "paper-codex": (Kind.CODEX, "gpt-5.1-codex", 3600),
        "paper-glm": (Kind.CLAUDE_CODE, "glm-4.7", 3600),
        "paper-sonnet": (Kind.CLAUDE_CODE, "claude-sonnet-4-5-20250929", 3600),
        "paper-nexau": (Kind.NEXAU, "nex-agi/DeepSeek-V3.1-Nex-N1", 3600),
    }


def test_every_shipped_agent_with_a_model_is_bounded() -> None:
    """None can run away, and each goes through the allowlist; scripts cost nothing and reach everything."""
    for name, profile in load_profiles().items():
        if profile.kind.script:
            assert (profile.network, profile.asks_model) == (Reach.OPEN, False), name
        else:
            assert profile.network is Reach.ALLOWLIST, name
            assert profile.max_cost_usd or profile.max_tokens, name
            assert profile.max_requests, name
            assert profile.inactivity_s, name
            assert profile.description, name


def test_every_shipped_limit_of_money_can_be_kept(tmp_path: Path) -> None:
    """The models of shipped profiles have known prices, wherever a profile limits what they may cost."""
    for name, profile in load_profiles().items():
        environ = {profile.key: "some-value", MODEL_VARIABLE: "some-model", "LLM_BASE_URL": "http://localhost:1"}

        assert missing(profile, folders=[tmp_path], environ=environ) == [], name


def test_a_profile_that_changes_one_key_is_two_lines(tmp_path: Path) -> None:
    """Everything else is taken over; variables are joined."""
    file = written(
        tmp_path,
        '[dear]\nextends = "claude-sonnet"\nmax_cost_usd = 20\n'
        '[dearer]\nextends = "dear"\nmax_cost_usd = 30.5\nenvironment = { A = "1" }\n'
        '[dearest]\nextends = "dearer"\nenvironment = { B = "2" }\n',
    )

    profiles = load_profiles([file])

    shipped = profiles["claude-sonnet"]
    assert profiles["dear"].max_cost_usd == 20
    assert (profiles["dear"].model, profiles["dear"].key) == (shipped.model, shipped.key)
    assert (profiles["dearest"].max_cost_usd, profiles["dearest"].environment) == (30.5, {"A": "1", "B": "2"})


def test_a_users_own_agent_is_less_than_ten_lines(tmp_path: Path) -> None:
    """Any command line, here one that asks a model."""
    text = """
[my-agent]
kind = "command"
command = ["my-agent", "--task", "{prompt_file}", "--url", "{url}"]
environment = { MY_KEY = "{token}" }
model = "gpt-5.2"
api = "openai-chat"
endpoint = "https://api.openai.com/v1"
key = "OPENAI_API_KEY"
network = "allowlist"
"""
    assert len(text.strip().splitlines()) < 10

    profile = load_profiles([written(tmp_path, text)])["my-agent"]

    assert profile.asks_model
    assert (profile.kind, profile.api, profile.auth) == (Kind.COMMAND, Api.CHAT, None)


def test_later_files_win_and_may_extend_what_they_replace(tmp_path: Path) -> None:
    """A lab's file may change a shipped profile, and a user's file the lab's."""
    lab = written(tmp_path, '[codex]\nextends = "codex"\nmax_requests = 7\n', "lab.toml")
    own = written(tmp_path, '[codex]\nextends = "codex"\nmodel = "gpt-5.2-codex"\n', "own.toml")

    codex = load_profiles([lab, own])["codex"]

    assert (codex.model, codex.max_requests, codex.kind) == ("gpt-5.2-codex", 7, Kind.CODEX)


SERVICE = '[mine]\nextends = "mini-swe"\n'

WRONG = {
    "a table too deep": (
        '[agents.mine]\nkind = "oracle"',
        r"agents: holds tables alone: an agent 'mine' is written \[mine\]",
    ),
    "an unknown key": ('[mine]\nextends = "codex"\nmax_cost = 1\n', r"mine\.max_cost: unknown key .*'max_cost_usd'"),
    "an unknown kind": ('[mine]\nkind = "codecs"\n', r"mine\.kind: .*not \"codecs\"; did you mean 'codex'"),
    "no kind": ('[mine]\nmodel = "m"\n', r"mine\.kind: missing; .*extends"),
    "a wrong type": (f'{SERVICE}max_tokens = "many"\n', r"mine\.max_tokens: must be .*integer, not \"many\""),
    "half a token": (f"{SERVICE}max_tokens = 1.5\n", r"mine\.max_tokens: must be .*not 1\.5"),
    "no list": (f'{SERVICE}also = "m"\n', r"mine\.also: must be a list, not \"m\""),
    "a number as argument": (f"{SERVICE}arguments = [1]\n", r"mine\.arguments\.0: must be .*string, not 1"),
    "an unknown network": (f'{SERVICE}network = "opened"\n', r"mine\.network: .*did you mean 'open'"),
    "no money": (f"{SERVICE}max_cost_usd = 0\n", r"mine\.max_cost_usd: must be a positive number, not 0"),
    "endless time": (f"{SERVICE}timeout_s = inf\n", r"mine\.timeout_s: must be "),
    "an unknown base": (
        '[mine]\nextends = "codecs"\n',
        r"mine\.extends: \"codecs\" is no profile; did you mean 'codex'",
    ),
    "itself as base": ('[mine]\nextends = "mine"\n', r"mine\.extends: \"mine\" is no profile"),
    "a circle": ('[a]\nextends = "b"\n[b]\nextends = "a"\n', r"extends: goes round in a circle: a → b → a"),
    "a date": (f"{SERVICE}model = 2026-01-01\n", r"mine: holds a date"),
    "no table": ('kind = "codex"\n', r"kind: \"codex\" is no table: .*\[NAME\]"),
    "no TOML": ("[mine\n", r"is not valid TOML"),
    "a long number": (f"a = {'9' * 5000}", r"is not valid TOML"),
    "deep": (f"a = {'[' * 5000}", r"is not valid TOML"),
    "capitals": ("[Mine]\n", r"Mine: a name is 1 to 40 of a-z"),
    "two hyphens": ("[my--own]\n", r"my--own: a name is"),
    "a sign at its end": ("[mine-]\n", r"mine-: a name is"),
    "a long name": (f"[{'a' * 41}]\n", r"a name is 1 to 40"),
    "a reserved name": ("[no-agent]\n", r"none of no-agent"),
    "a tier's name": ("[doc3-agent]\n", r"doc3-agent: holds 'c3', so that `-k C3` would select it"),
    "no command": ('[mine]\nkind = "command"\n', r'mine\.command: missing; .*command = \["my-agent"'),
    "a command elsewhere": (
        f'{SERVICE}command = ["a"]\n',
        r"mine\.command: is for kind = \"command\" only; this is mini-swe",
    ),
    "another protocol": (
        '[mine]\nextends = "codex"\napi = "openai-chat"\n',
        r"mine\.api: must be \"openai-responses\" for kind codex, not \"openai-chat\"",
    ),
    "no protocol": (
        '[mine]\nkind = "mini-swe"\nendpoint = "https://a.b"\nkey = "K"\n',
        r"mine\.api: missing; give one",
    ),
    "no endpoint": (
        '[mine]\nkind = "mini-swe"\napi = "openai-chat"\nkey = "K"\n',
        r"mine\.endpoint: missing; .*https://",
    ),
    "no key": (f'{SERVICE}key = ""\n', r"mine\.key: missing; give the name of the variable"),
    "an endpoint that is none": (f'{SERVICE}endpoint = "api.openai.com"\n', r"mine\.endpoint: .* is no base URL"),
    "a password in an endpoint": (
        f'{SERVICE}endpoint = "https://u:hunter2@a.b"\n',
        r"mine\.endpoint: holds a name or a",
    ),
    "a key in place of its name": (f'{SERVICE}key = "sk-hunter2"\n', r"mine\.key: must be the name of a variable"),
    "a key for the tool": (
        f'{SERVICE}environment = {{ OPENAI_API_KEY = "hunter2" }}\n',
        r"mine\.environment\.OPENAI_API_KEY: is the key, which no agent gets",
    ),
    "a variable that is none": (f'{SERVICE}environment = {{ "a b" = "1" }}\n', r"mine\.environment\.a b: is no name"),
    "a model with spaces": (f'{SERVICE}model = "gpt 5"\n', r"mine\.model: \"gpt 5\" is no name of a model"),
    "an address as host": (f'{SERVICE}allow = ["https://a.b/"]\n', r"mine\.allow: .* is no host: write example\.org"),
    "hosts without a list": (
        f'{SERVICE}network = "open"\nallow = ["a.b"]\n',
        r"mine\.allow: means nothing with network = \"open\"",
    ),
    "a model for a script": ('[mine]\nkind = "noop"\nmodel = "m"\n', r"mine\.model: means nothing here: kind noop"),
    "a model without a way": (f'{COMMAND}model = "m"\n', r"mine\.model: .*asks a model only where `api` says how"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_file_profile_key_value_and_fix(tmp_path: Path, case: str) -> None:
    """And no secret that somebody wrote there by mistake is shown."""
    text, expected = WRONG[case]
    file = written(tmp_path, text)

    with pytest.raises(ConfigurationError) as caught:
        load_profiles([file])

    assert str(caught.value).startswith(str(file))
    assert re.search(expected, str(caught.value)), str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """With the options that name such files."""
    with pytest.raises(ConfigurationError, match=r"none\.toml does not exist: --researchenv-agents-file"):
        load_profiles([tmp_path / "none.toml"])


def test_model_and_endpoint_may_come_from_the_environment() -> None:
    """The providers' own variables are honoured where a profile names them; an empty one is none."""
    profile = load_profiles()["mini-swe"]
    environ = {MODEL_VARIABLE: " some-model ", "OPENAI_BASE_URL": "http://localhost:8000/v1/"}

    assert (profile.model_name(environ), profile.base_url(environ)) == ("some-model", "http://localhost:8000/v1")
    assert profile.lacking(environ) == ""
    assert (profile.model_name({}), profile.base_url({"OPENAI_BASE_URL": ""})) == ("", "https://api.openai.com/v1")
    assert MODEL_VARIABLE in profile.lacking({})
    told = profile.lacking({**environ, "OPENAI_BASE_URL": "http://u:hunter2@localhost"})
    assert "OPENAI_BASE_URL" in told
    assert "hunter2" not in told
    assert "LLM_BASE_URL" in load_profiles()["paper-nexau"].lacking({})


def some_profile(**changes: object) -> Profile:
    """Make a profile that asks a model."""
    values: dict[str, object] = {
        "kind": Kind.COMMAND,
        "command": ("a",),
        "model": "m",
        "api": Api.CHAT,
        "auth": Auth.BEARER,
        "endpoint": "https://a.b",
        "key": "SOME_KEY",
        "max_cost_usd": 1.0,
    }
    return Profile(**{**values, **changes})  # type: ignore[arg-type]


def test_what_an_agent_still_needs_is_told(tmp_path: Path) -> None:
    """A key, a model, a price; and nothing where it is ready."""
    prices = {"m": Price(1.0, 2.0)}
    environ = {"SOME_KEY": "some-value"}

    def wanted(profile: Profile, environ: dict[str, str], known: dict[str, Price]) -> list[str]:
        return missing(profile, folders=[tmp_path], environ=environ, prices=known)

    assert wanted(some_profile(), environ, prices) == []
    assert wanted(Profile(Kind.NOOP), {}, {}) == []
    (key,) = wanted(some_profile(), {}, prices)
    assert key.startswith("the key SOME_KEY, ")
    (price,) = wanted(some_profile(also=("small",)), environ, prices)
    assert "small has no known price" in price
    assert wanted(some_profile(max_cost_usd=None, also=("small",)), environ, prices) == []
    (model,) = wanted(some_profile(model=""), environ, prices)
    assert MODEL_VARIABLE in model
    (broken,) = wanted(some_profile(), {"SOME_KEY": "some\nvalue"}, prices)
    assert "cannot be a key" in broken


def test_the_command_lists_all_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the user's file, too; who asks for one that cannot work is told by the exit code."""
    file = written(tmp_path, COMMAND)

    assert main(["agents", "--agents-file", str(file)]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{listed}" for name in load_profiles([file]))
    assert main(["agents", "mine", "--agents-file", str(file)]) == 0
    assert main(["agents", "mini-swe"]) == 1
    assert "needs: no model is named" in capsys.readouterr().out
    assert main(["agents", "codecs"]) == 1
