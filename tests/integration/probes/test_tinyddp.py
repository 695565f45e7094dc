"""All tiers on a real training repository, and environments of it that are broken for exactly one reason."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Evidence,
    Parallel,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount
from pytest_researchenv.sandbox.tools import ensure_tools


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


_log = logging.getLogger(__name__)

VENV = "/opt/venv/tinyddp"
SITE = f"{VENV}/lib/python3.11/site-packages"
EXTENSION = "/workspace/tinyddp/tinyddp/_C.cpython-311-x86_64-linux-gnu.so"
EVERY = tuple(Tier)
RUNNING = (Tier.C1, Tier.C3, Tier.C4)

Judge = Callable[..., dict[Tier, TierResult]]


@pytest.fixture(scope="module")
def tools(docker_client: DockerClient, owner: Owner, base_image: str) -> Mount:
    """The volume with node and pyright."""
    return ensure_tools(docker_client, owner=owner, image=base_image, say=_log.info)


@pytest.fixture
def judge(  # noqa: PLR0917 - fixtures come by name.
    docker_sandbox: DockerSandbox,
    base_image: str,
    tools: Mount,
    tinyddp: Repository,
    tinyddp_tree: Tree,
    tinyddp_environment: str,
) -> Iterator[Judge]:
    """Judges the good environment after a shell script has been at it."""
    made: list[str] = []

    def freeze(script: str) -> str:
        with docker_sandbox.opened(ContainerSpec(tinyddp_environment)) as container:
            container.start()
            done = container.exec(["bash", "-ec", script], timeout_s=120)
            assert done.ok, done.output.text()
            container.stop()
            made.append(container.freeze("researchenv/test-tinyddp-broken:latest", labels={}))
        return made[-1]

    def run(script: str = "", *, tiers: tuple[Tier, ...] = RUNNING, **c4: object) -> dict[Tier, TierResult]:
        specs = {**tinyddp.tiers, Tier.C4: dataclasses.replace(tinyddp.tiers[Tier.C4], **c4)}  # type: ignore[arg-type] # by name
        environment = Environment(
            key=EnvironmentKey("run", "agent", "tinyddp", 1),
            image=freeze(script) if script else tinyddp_environment,
            base_image=base_image,
            workdir=tinyddp.workdir,
            report=SelfReport(python_path=f"{VENV}/bin/python"),
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        task = ProbeTask(
            environment=environment,
            repository=dataclasses.replace(tinyddp, tiers=specs),
            tree=tinyddp_tree,
            sandbox=docker_sandbox,
            tools=tools,
            log=len,
            settings={},
        )
        return {tier: probe.judge(task) for tier, probe in PROBES.items() if tier in tiers}

    yield run
    for image in made:
        docker_sandbox.remove_image(image)


def _failed(results: dict[Tier, TierResult]) -> set[Tier]:
    assert {result.verdict for result in results.values()} <= {Verdict.PASSED, Verdict.FAILED}, results
    return {tier for tier, result in results.items() if result.verdict is Verdict.FAILED}


def test_the_good_environment_passes(judge: Judge) -> None:
    """One process trains; two ranks really meet over gloo; what stands in for devices is marked."""
    results = judge(tiers=EVERY)

    assert _failed(results) == set(), results
    assert [results[tier].emulated for tier in (Tier.C1, Tier.C3, Tier.C4)] == [False, True, True]
    calls = "calls: DistributedDataParallel 1, all_gather 1, all_reduce 20"
    ranks = results[Tier.C4].evidence["ranks"]
    assert isinstance(ranks, list)
    assert [rank.partition(" (")[0] + rank.partition(")")[2] for rank in ranks] == [
        f"rank 0 of 2 over gloo, {calls}",
        f"rank 1 of 2 over gloo, {calls}",
    ]
    assert results[Tier.C4].evidence["exchanged"] is True


@pytest.mark.slow
def test_a_missing_package_fails_c0_alone(judge: Judge) -> None:
    """The repository's tests import it; its training does not."""
    results = judge(f"rm -r {SITE}/pytest {SITE}/_pytest", tiers=EVERY)

    assert _failed(results) == {Tier.C0}
    assert results[Tier.C0].reason.endswith("imports missing: pytest")


@pytest.mark.slow
def test_an_import_time_crash_fails_every_tier_that_runs_something(judge: Judge) -> None:
    """With the exception as the decisive line, behind a launcher, too."""
    results = judge(f"echo 'raise RuntimeError(\"half installed\")' >> {SITE}/torch/__init__.py", tiers=EVERY)

    assert _failed(results) == {Tier.C1, Tier.C2, Tier.C3, Tier.C4}
    assert results[Tier.C1].decisive == results[Tier.C3].decisive == "RuntimeError: half installed"


#: Leaves bytecode of torch that has its source's time and size, and does something else.
FORGE = f"""
{VENV}/bin/python - << 'END'
import importlib.util, marshal, os, struct
source = "{SITE}/torch/__init__.py"
with open(source) as file:
    code = compile(file.read() + "\\nraise RuntimeError('forged')", source, "exec")
seen = os.stat(source)
head = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(seen.st_mtime), seen.st_size)
with open(importlib.util.cache_from_source(source), "wb") as file:
    file.write(head + marshal.dumps(code))
END
! {VENV}/bin/python -c "import torch"
"""


@pytest.mark.slow
def test_forged_bytecode_is_run_by_no_probe(judge: Judge) -> None:
    """Nor by the ranks that a launcher starts."""
    results = judge(FORGE, tiers=EVERY)

    assert _failed(results) == set(), results


@pytest.mark.slow
def test_an_extension_of_another_torch_fails_every_tier_that_runs_something(judge: Judge) -> None:
    """With the loader's own words as the decisive line, also of the ranks behind a launcher."""
    code = "extern int of_another_torch(void); int use(void) { return of_another_torch(); }"
    results = judge(f"echo '{code}' > /tmp/c.c; gcc -shared -fPIC -o {EXTENSION} /tmp/c.c", tiers=EVERY)

    said = f"ImportError: {EXTENSION}: undefined symbol: of_another_torch"
    assert _failed(results) == {Tier.C1, Tier.C3, Tier.C4}
    for tier in (Tier.C1, Tier.C3, Tier.C4):
        assert (tier, results[tier].cause, results[tier].decisive) == (tier, Cause.EXIT_CODE, said)


def test_an_extension_that_was_cut_off_is_a_failure(judge: Judge) -> None:
    """As an interrupted build leaves it."""
    result = judge(f"truncate -s 100 {EXTENSION}", tiers=(Tier.C1,))[Tier.C1]

    assert result.cause is Cause.EXIT_CODE
    assert result.decisive.startswith(f"ImportError: {EXTENSION}: ")


@pytest.mark.slow
def test_a_broken_interconnect_fails_c4_alone(judge: Judge) -> None:
    """Where gloo is told to use an interface that does not exist, one process still trains."""
    results = judge(f'echo \'import os; os.environ["GLOO_SOCKET_IFNAME"] = "ib7"\' > {SITE}/broken.pth', tiers=EVERY)

    assert _failed(results) == {Tier.C4}
    assert "ib7" in results[Tier.C4].decisive


@pytest.mark.slow
def test_ranks_that_never_meet_fail_c4_alone(judge: Judge) -> None:
    """One trains as before; each of two trains alone, and ends with code 0: the reason says what was seen."""
    alone = 'import os; os.environ.update(RANK="0", WORLD_SIZE="1")'
    results = judge(f"echo '{alone}' > {SITE}/broken.pth", tiers=EVERY)

    assert _failed(results) == {Tier.C4}
    assert results[Tier.C4].cause is Cause.NO_EVIDENCE
    assert "2 processes say that they are rank 0" in results[Tier.C4].reason
    assert "joined no process group" in results[Tier.C4].reason


SPAWN = """
import os, torch
from torch import distributed, multiprocessing

def work(rank, size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    distributed.all_reduce(torch.ones(1))
    distributed.destroy_process_group()

if __name__ == "__main__":
    multiprocessing.spawn(work, (2,), nprocs=2)
    print("ended")
"""


def test_ranks_that_a_script_spawns_itself_are_observed(judge: Judge) -> None:
    """Children of torch.multiprocessing go through the observer, too."""
    argv = ("bash", "-c", 'echo "$1" > /tmp/script.py; exec {python} {observer} /tmp/script.py', "-", SPAWN)
    evidence = Evidence(output=("^ended$",), parallel=Parallel.COLLECTIVE)
    result = judge(tiers=(Tier.C4,), argv=argv, evidence=evidence)[Tier.C4]

    assert result.verdict is Verdict.PASSED, result
    assert result.evidence["exchanged"] is True
