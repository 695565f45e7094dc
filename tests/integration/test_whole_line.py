"""The whole line with real containers: source, agent, freeze, probes, store, report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from pytest_researchenv.sandbox.labels import PREFIX
from tests.integration.workplace import Ran, Workplace


Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, docker_client: DockerClient) -> Iterator[Workplace]:
    """A place in which pytest runs the tiny suite; what it froze is removed in the end."""
    place = Workplace(tmp_path_factory.mktemp("workplace"), docker_client)
    yield place
    place.clean()


@pytest.fixture(scope="module")
def workplace(place: Workplace) -> Run:
    """Run pytest there."""
    return place.run


@pytest.fixture(scope="module")
def first(workplace: Run) -> Ran:
    """A first run with both script agents."""
    return workplace("--researchenv-agent=oracle", "--researchenv-agent=noop", "-n", "2")


@pytest.fixture
def fresh(place: Workplace, tmp_path: Path) -> Run:
    """Run in a workplace of its own, where nothing is stored yet."""
    place.prepare(tmp_path)

    def run(*arguments: str) -> Ran:
        return place.run("--researchenv-agent=oracle", *arguments, cwd=tmp_path)

    return run


def test_oracle_passes_and_noop_fails_what_needs_something(first: Ran) -> None:
    """A working environment passes every tier, a bare one fails each that needs more, and neither is an error."""
    assert first.outcomes == {
        "C0 oracle-plain": "passed",
        "C1 oracle-plain": "passed",
        "C0 oracle-needy": "passed",
        "C1 oracle-needy": "passed",
        "C0 noop-plain": "passed",
        "C1 noop-plain": "passed",
        "C0 noop-needy": "failure",
        "C1 noop-needy": "failure",
        "integrity oracle-plain": "passed",
        "integrity oracle-needy": "passed",
        "integrity noop-plain": "passed",
        "integrity noop-needy": "passed",
    }, first.text


def test_workers_build_nothing_twice(first: Ran, docker_client: DockerClient) -> None:
    """With -n 2 there is one attempt and one frozen image per agent and repository."""
    keys = [f"default/{agent}/tiny/{name}/attempt-001" for agent in ("noop", "oracle") for name in ("needy", "plain")]

    assert first.attempts() == keys
    for key in keys:
        environment = json.loads((first.folder / f"researchenv-results/{key}/environment.json").read_text())
        frozen = docker_client.images.list(filters={"label": f"{PREFIX}attempt={key}"})
        assert environment["image"] in [image.id for image in frozen]


def test_the_frozen_image_is_configured_as_the_base_image(first: Ran, docker_client: DockerClient) -> None:
    """Nothing of the agent's run is part of the image's configuration; only our labels differ."""
    path = first.folder / "researchenv-results/default/oracle/tiny/needy/attempt-001/environment.json"
    environment = json.loads(path.read_text())
    frozen = docker_client.images.get(environment["image"]).attrs["Config"]
    base = docker_client.images.get(environment["base_image"]).attrs["Config"]

    # The engine invents a host name for what it commits; it configures nothing.
    ignored = ("Labels", "Hostname", "Image")
    assert {k: v for k, v in frozen.items() if k not in ignored} == {k: v for k, v in base.items() if k not in ignored}
    assert all(name.startswith(PREFIX) for name in set(frozen["Labels"]) ^ set(base["Labels"] or {}))


def test_a_run_leaves_nothing_but_frozen_images(fresh: Run, docker_client: DockerClient) -> None:
    """No container, network or volume of a run is there after it, whether its tests passed or failed."""
    run = f"leaves-{uuid.uuid4().hex[:12]}"

    fresh(f"--researchenv-run={run}", "--researchenv-agent=noop", "-k", "needy")

    of_this_run: dict[str, str | list[str] | bool] = {"label": f"{PREFIX}run={run}"}
    assert docker_client.containers.list(all=True, filters=of_this_run) == []
    assert docker_client.networks.list(filters=of_this_run) == []
    assert docker_client.volumes.list(filters=of_this_run) == []
    assert len(docker_client.images.list(filters=of_this_run)) == 2


def test_one_tier_again_starts_no_agent(first: Ran, workplace: Run) -> None:
    """`-k C1` after a full run probes again, on the environments that are there."""
    before = first.attempts()

    again = workplace("--researchenv-agent=oracle", "-k", "C1")

    assert again.outcomes == {"C1 oracle-plain": "passed", "C1 oracle-needy": "passed"}
    assert again.attempts() == before
    assert "environments: 0 to build, 2 to reuse; tiers: 2 to judge" in again.text
    assert (first.folder / "researchenv-results/default/oracle/tiny/plain/attempt-001/C1-002.json").exists()


def test_a_run_that_is_continued_does_only_what_is_missing(fresh: Run) -> None:
    """With a name, stored results stand; a tier that is missing is probed."""
    once = fresh("--researchenv-run=mine", "-k", "plain and C0")

    twice = fresh("--researchenv-run=mine", "-k", "plain")

    folder = once.folder / "researchenv-results/mine/oracle/tiny/plain/attempt-001"
    assert twice.tiers == {"C0 oracle-plain": "passed", "C1 oracle-plain": "passed"}
    assert sorted(path.name for path in folder.glob("C?-*.json")) == ["C0-001.json", "C1-001.json"]


@pytest.mark.slow
def test_what_shaped_an_environment_may_not_change_in_silence(fresh: Run) -> None:
    """A changed recipe stops the run and says what changed; the two options decide."""
    first = fresh("-k", "plain and C0")
    recipe = first.folder / "fixtures/suites/tiny/plain/oracle.sh"
    recipe.write_text(recipe.read_text() + "# changed\n")

    stopped = fresh("-k", "plain and C0")
    reused = fresh("-k", "plain and C0", "--researchenv-reuse-anyway")
    rebuilt = fresh("-k", "plain and C0", "--researchenv-rebuild")

    assert stopped.code == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"agent: oracle \w+ then, oracle \w+ now", stopped.text)
    assert "--researchenv-rebuild" in stopped.text
    assert reused.outcomes == {"C0 oracle-plain": "passed"}
    assert rebuilt.outcomes == {"C0 oracle-plain": "passed"}
    assert rebuilt.attempts() == ["default/oracle/tiny/plain/attempt-001", "default/oracle/tiny/plain/attempt-002"]


def test_edited_tracked_files_are_put_back(fresh: Run, tmp_path: Path) -> None:
    """An entry point that the agent replaced by one that only pretends does not decide a verdict."""
    recipe = tmp_path / "fixtures/suites/tiny/needy/oracle.sh"
    pretender = """import pathlib, sys; pathlib.Path(sys.argv[1], "answer.json").write_text('{"answer": 42}')"""
    recipe.write_text(f"cat > run.py <<'E'\n{pretender}\nE\nreport /usr/bin/python3 system ''\n")

    ran = fresh("-k", "needy and C1")

    assert ran.outcomes == {"C1 oracle-needy": "failure"}
    assert "No module named 'tinydep'" in ran.text


@pytest.mark.parametrize(
    "honest", [pytest.param(True, id="honest", marks=pytest.mark.slow), pytest.param(False, id="false")]
)
def test_a_false_report_fails_c5_alone(fresh: Run, tmp_path: Path, honest: bool) -> None:  # noqa: FBT001 - a parameter
    """A claim that does not hold is a finding of C5, and changes no other tier."""
    folder = tmp_path / "fixtures/suites/tiny/plain"
    with (folder / "repo.toml").open("a") as file:
        file.write("\n[tiers.C5]\n")
    with (folder / "oracle.sh").open("a") as file:
        file.write(
            "" if honest else 'sed -i \'s/"python_version": .*/"python_version": "3.6.1",/\' "$RESEARCHENV_REPORT"\n'
        )

    ran = fresh("-k", "plain")

    c5 = "passed" if honest else "failure"
    assert ran.tiers == {"C0 oracle-plain": "passed", "C1 oracle-plain": "passed", "C5 oracle-plain": c5}, ran.text
    assert honest or "python_version: claimed" in ran.text


def test_a_shell_opens_in_the_probes_world(first: Ran) -> None:
    """The command that a failure names runs in a copy of that environment, without network."""
    folder = first.folder / "researchenv-results/default/oracle/tiny/needy/attempt-001"
    command = ["bash", "-c", "pwd; which python; ls /sys/class/net"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest_researchenv.cli", "shell", str(folder), *command],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.stdout.split() == ["/workspace/needy", "/opt/needy/bin/python", "lo"], done.stderr


DIES = """
import os, pathlib

def pytest_runtest_setup(item):
    died = pathlib.Path(__file__).with_name("died")
    if item.name == "test_c0_static_imports[oracle-needy]" and not died.exists():
        died.touch()
        os._exit(9)
"""


@pytest.mark.slow
def test_a_worker_that_dies_costs_one_test(fresh: Run, tmp_path: Path) -> None:
    """Another worker takes its place and does the rest; what was running when it died is not run again."""
    (tmp_path / "conftest.py").write_text(DIES)

    ran = fresh("--researchenv-agent=noop", "-n", "2")

    assert (tmp_path / "died").exists(), ran.text
    assert "crashed while running" in ran.text
    judged = {name: outcome for name, outcome in ran.tiers.items() if name != "C0 oracle-needy"}
    assert judged == {
        "C1 oracle-needy": "passed",
        "C0 oracle-plain": "passed",
        "C1 oracle-plain": "passed",
        "C0 noop-needy": "failure",
        "C1 noop-needy": "failure",
        "C0 noop-plain": "passed",
        "C1 noop-plain": "passed",
    }, ran.text
