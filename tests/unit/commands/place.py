"""A folder in which every example of every command finds what it is about."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.trajectory import AgentInfo, Steps, Trajectory, dump
from pytest_researchenv.cli import main
from pytest_researchenv.doctor.values import Asked
from pytest_researchenv.lock import write_lock
from pytest_researchenv.recording.manifest import begun, save_manifest
from pytest_researchenv.runs.values import AttemptRecord
from tests.unit.archives import archive
from tests.unit.statistics.made import attempt, verdicts, write
from tests.unit.statistics.papers import as_published


__all__ = ["asked", "leave_alone", "make_place"]

_FIXTURES = Path(__file__).parents[3] / "fixtures"
_QUICKSTART = ("kvpress", "tinyddp")


def asked(folder: Path, *agents: str, **environ: str) -> Asked:
    """What a run is to be, on a host with this environment."""
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, **environ}
    return Asked(folder / "results", folder / "cache", agents, folder=folder, environ=environ)


def leave_alone(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Have a command ask nobody: no engine answers, no index or proxy is configured, no agent is chosen."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{home}/none.sock")
    for name in os.environ:
        if name.upper().startswith(("PIP_", "UV_", "NPM_CONFIG_", "RESEARCHENV_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def make_place(folder: Path) -> None:
    """Make it."""
    shutil.copytree(_FIXTURES / "suites" / "tiny", folder / "suites" / "tiny")
    shutil.copytree(_FIXTURES / "repos", folder / "repos", symlinks=True)
    (folder / "suites" / "tiny" / "suite.toml").write_text('name = "tiny"\n')
    # Its descriptions name their trees by a relative path, which leads to fixtures/repos.
    shutil.copytree(folder / "suites" / "tiny", folder / "my-suite")
    for file in (folder / "my-suite").glob("*/repo.toml"):
        file.write_text(file.read_text().replace("../../../repos/", "../../repos/"))
    write_lock(folder / "my-suite")
    (folder / "checkout").mkdir()
    (folder / "checkout" / "setup.py").write_text("import setuptools\n")
    (folder / "docs").mkdir()
    steps = Steps()
    steps.add("user", "build it")
    (folder / "trajectory.json").write_bytes(dump(Trajectory(AgentInfo("some-agent", "1", "model"), steps.steps)))
    _runs(folder / "researchenv-results")
    theirs = ["export", "run", "nightly", "--results", str(folder / "researchenv-results")]
    assert main([*theirs, "--output", str(folder / "theirs.tar.gz")]) == 0


def _runs(results: Path) -> None:
    for name, agents in (("default", ("codex", "claude-opus")), ("before", ("codex",)), ("after", ("codex",))):
        write(results, [_attempt(f"quickstart/{slug}", agent) for agent in agents for slug in _QUICKSTART], name=name)
        session = begun(
            session="20260101T000000-0",
            run=name,
            command=["pytest", "my-suite", f"--researchenv-agent={agents[0]}", "-k", "C1 or C3"],
            agents=agents,
            distributions=[],
            folder=results,
        )
        save_manifest(results / name, replace(session, ended="2026-01-01T00:01:00+00:00", exit_status=1))
    for folder in (results / "default").glob("*/*/*/attempt-*"):
        (folder / "C1-001.log").write_text("ImportError: libGL.so.1\n")
        (folder / "transcript.log").write_text("building\n")
        archive(folder)
    write(results, [_attempt("tiny/plain", "noop")], name="nightly")
    write(results, as_published("codex"), name="night-1")


def _attempt(repository: str, agent: str) -> AttemptRecord:
    """C1 and C3 fail, the rest passes."""
    return attempt(repository, verdicts("pfpfpp"), agent=agent, wall_s=60.0, cost_usd=0.5)
