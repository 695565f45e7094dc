"""C1 in real containers, and attacks on it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Evidence,
    JsonEvidence,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


PYTHON = "/opt/venv/bin/python"
REPO = "/workspace/project"

#: The repository: a program in a package, whose answer depends on a second module.
FILES = {
    "pkg/__init__.py": "",
    "pkg/core.py": "ANSWER = 42\n",
    "run.py": (
        "import json, os, sys\n"
        "from pkg.core import ANSWER\n"
        "seen = {'answer': ANSWER, 'venv': sys.prefix, 'world': dict(os.environ)}\n"
        "json.dump(seen, open(sys.argv[1] + '/seen.json', 'w'))\n"
    ),
}
SPEC = TierSpec(
    argv=("{python}", "run.py", "{out}"),
    timeout_s=60,
    evidence=Evidence(json=(JsonEvidence("{out}/seen.json", "answer", equals=42),)),
)

Sabotage = Callable[[str], str]
Judge = Callable[..., TierResult]


def _tar(files: Mapping[str, str]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{REPO}/{name}".lstrip("/"))
            member.size, member.mtime = len(text), 1_700_000_000
            archive.addfile(member, io.BytesIO(text.encode()))
    buffer.seek(0)
    return buffer


@pytest.fixture(scope="module")
def sabotaged(docker_sandbox: DockerSandbox, base_image: str) -> Iterator[Sabotage]:
    """Freezes a good environment after a shell script has been at it; images are removed at the end."""
    made: list[str] = []

    def freeze(image: str, script: str) -> str:
        with docker_sandbox.opened(ContainerSpec(image)) as container:
            container.put("/", _tar(FILES if image == base_image else {}))
            container.start()
            done = container.exec(["sh", "-ec", script], timeout_s=120)
            assert done.ok, done.output.text()
            container.stop()
            made.append(container.freeze(f"researchenv-test-c1:{len(made)}", labels={}))
        return made[-1]

    good = freeze(base_image, "python3 -m venv --without-pip /opt/venv")
    yield lambda script: freeze(good, script) if script else good
    for image in reversed(made):
        docker_sandbox.remove_image(image)


@pytest.fixture
def judge(docker_sandbox: DockerSandbox, base_image: str, sabotaged: Sabotage, tmp_path: Path) -> Judge:
    """Judges the environment that a script left."""

    def run(script: str = "", *, changed: tuple[str, ...] = (), python: str = PYTHON, **spec: object) -> TierResult:
        for name, text in FILES.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        environment = Environment(
            key=EnvironmentKey("run", "agent", "project", 1),
            image=sabotaged(script),
            base_image=base_image,
            workdir=REPO,
            report=SelfReport(python_path=python),
            report_problem="",
            changed=changed,
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        tier = TierSpec(**{"argv": SPEC.argv, "timeout_s": 60, "evidence": SPEC.evidence, **spec})  # type: ignore[arg-type] # by name
        task = ProbeTask(
            environment=environment,
            repository=Repository("someone/project", PathSource("."), tiers={Tier.C1: tier}),
            tree=Tree(tmp_path, tuple(sorted(FILES)), "digest"),
            sandbox=docker_sandbox,
            tools=Mount("unused", "/unused"),
            log=len,
            settings={},
        )
        return C1Probe().judge(task)

    return run


def _seen(**wanted: str) -> Evidence:
    return Evidence(json=tuple(JsonEvidence("{out}/seen.json", key, equals=value) for key, value in wanted.items()))


def test_a_good_environment_passes(judge: Judge) -> None:
    """The repository's program ran in the reported virtual environment, and its file was read from outside."""
    result = judge(evidence=_seen(venv="/opt/venv"))

    assert (result.verdict, result.cause) == (Verdict.PASSED, Cause.NONE), result.reason


def test_the_process_sees_the_documented_world(judge: Judge) -> None:
    """Devices are hidden, and locale, time zone and hash seed are fixed, in the real process."""
    world = {"CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "HOME": "/root"}
    evidence = Evidence(
        json=tuple(JsonEvidence("{out}/seen.json", f"world.{name}", equals=value) for name, value in world.items())
    )

    assert judge(evidence=evidence).verdict is Verdict.PASSED


def test_an_edited_tracked_file_is_put_back(judge: Judge) -> None:
    """What the agent wrote into the repository decides nothing; without putting it back it would."""
    script = f"echo 'ANSWER = 7' > {REPO}/pkg/core.py; rm {REPO}/run.py"

    assert judge(script, changed=("pkg/core.py", "run.py")).verdict is Verdict.PASSED
    assert judge(script).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    "script",
    [
        f"mkdir /elsewhere; rm -r {REPO}/pkg; ln -s /elsewhere {REPO}/pkg",
        f"rm -r {REPO}/pkg; ln -s /nowhere {REPO}/pkg",
        f"rm -r {REPO}/pkg; echo > {REPO}/pkg",
        f"rm {REPO}/pkg/core.py; mkdir -p {REPO}/pkg/core.py/deep",
        f"cp -r {REPO} /elsewhere; rm -r {REPO}; ln -s /elsewhere {REPO}",
        "rm -rf /researchenv; mkdir /elsewhere; ln -s /elsewhere /researchenv",
        "rm -rf /researchenv; ln -s /nowhere /researchenv",
    ],
    ids=["link", "dangling link", "file for folder", "folder for file", "repository link", "our link", "our dangling"],
)
def test_whatever_stands_in_the_way_is_replaced(judge: Judge, script: str) -> None:
    """Links, files and folders that the agent put in the place of others are never followed."""
    assert judge(script, changed=tuple(FILES)).verdict is Verdict.PASSED


def test_bytecode_left_beside_a_tracked_file_is_not_run(judge: Judge) -> None:
    """Python would trust it: it has the time and the size of the source it replaces."""
    script = (
        f"cd {REPO}; cp -p pkg/core.py /tmp/kept; echo 'ANSWER = 13' > pkg/core.py; touch -r /tmp/kept pkg/core.py; "
        "/opt/venv/bin/python -m compileall -q pkg; cp -p /tmp/kept pkg/core.py; "
        # It does work outside the probe's world.
        "/opt/venv/bin/python -c 'from pkg.core import ANSWER; assert ANSWER == 13'"
    )

    assert judge(script).verdict is Verdict.PASSED


#: Leaves bytecode of a module on the path that says FORGED, and its source that says GENUINE: same time, same size.
FORGED = (
    "cd /opt/venv/lib/python3.11/site-packages; echo 'SAID = \"FORGED \"' > dep.py; touch -d @1700000000 dep.py; "
    "/opt/venv/bin/python -m compileall -q dep.py; "
    "echo 'SAID = \"GENUINE\"' > dep.py; touch -d @1700000000 dep.py; "
    "/opt/venv/bin/python -c 'from dep import SAID; assert SAID == \"FORGED \"'"
)
#: Notes what the module says in a process that is started in some way.
NOTE = "import dep, sys; open(sys.argv[1] + '/' + sys.argv[2], 'w').write(dep.SAID)"
CHILDREN = f"""
import json, multiprocessing, os, subprocess, sys
note = {NOTE!r}
out = sys.argv[1]
def spawned(name):
    sys.argv[2:] = [name]
    exec(note)
if __name__ == "__main__":
    for name in ("spawn", "forkserver"):
        process = multiprocessing.get_context(name).Process(target=spawned, args=(name,))
        process.start()
        process.join()
    subprocess.run([sys.executable, "-c", note, out, "child"], check=True)
    os.spawnl(os.P_WAIT, "/bin/sh", "sh", "-c", 'exec python -c "$0" "$1" shell', note, out)
    spawned("main")
    kinds = ("main", "spawn", "forkserver", "child", "shell")
    said = {{name: open(os.path.join(out, name)).read() for name in kinds}}
    import dep
    beside = os.path.dirname(dep.__cached__) == os.path.join(os.path.dirname(dep.__file__), "__pycache__")
    json.dump({{**said, "kept": os.path.isfile(dep.__cached__), "beside": beside}}, open(out + "/seen.json", "w"))
"""


def test_bytecode_of_an_installed_module_is_not_run(judge: Judge) -> None:
    """Nor in any child, however it is started; what Python compiles it keeps, so that children need not."""
    script = f"{FORGED}; cat > /opt/children.py << 'EOF'\n{CHILDREN}\nEOF"
    wanted: dict[str, str | bool] = dict.fromkeys(("main", "spawn", "forkserver", "child", "shell"), "GENUINE")
    wanted |= {"kept": True, "beside": False}
    evidence = tuple(JsonEvidence("{out}/seen.json", name, equals=value) for name, value in wanted.items())

    result = judge(script, argv=("{python}", "/opt/children.py", "{out}"), evidence=Evidence(json=evidence))

    assert result.verdict is Verdict.PASSED, f"{result.reason}: {result.decisive}"


def test_the_repositorys_own_bytecode_is_not_run_by_a_child_without_the_probes_variables(judge: Judge) -> None:
    """Such a child looks beside the sources again."""
    script = (
        f"cd {REPO}; cp -p pkg/core.py /tmp/kept; echo 'ANSWER = 13' > pkg/core.py; touch -r /tmp/kept pkg/core.py; "
        "/opt/venv/bin/python -m compileall -q pkg; cp -p /tmp/kept pkg/core.py"
    )
    argv = ("/usr/bin/env", "-i", "{python}", "run.py", "{out}")

    assert judge(script, argv=argv).verdict is Verdict.PASSED


def test_a_reported_interpreter_that_is_missing_is_a_failure(judge: Judge) -> None:
    """With a reason that names it."""
    result = judge(python="/opt/other/bin/python")

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "/opt/other/bin/python does not exist" in result.reason


@pytest.mark.parametrize(
    "script",
    [
        f"rm {PYTHON}; ln -s /nowhere {PYTHON}",
        f"rm {PYTHON}; echo 'no program' > {PYTHON}",
        f"rm {PYTHON}; mkdir {PYTHON}",
        "rm -rf /workspace; echo > /workspace; rm -rf /usr/lib /lib64 || :",
    ],
    ids=["dangling", "not executable", "folder", "no system"],
)
def test_an_environment_that_starts_nothing_fails_and_is_no_error(judge: Judge, script: str) -> None:
    """The engine's refusal is held against the environment, since the base image works."""
    result = judge(script, changed=tuple(FILES))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert result.reason


def test_a_working_directory_that_cannot_be_entered_fails_and_is_no_error(judge: Judge) -> None:
    """The engine answers with an error here, which the control run on the base image does not repeat."""
    result = judge(f"echo > {REPO}/data", workdir="{repo}/data")

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert result.reason


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("raise SystemExit(3)", Cause.EXIT_CODE),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Cause.SIGNAL),
        ("import time; print('waiting', flush=True); time.sleep(60)", Cause.TIMEOUT),
        ("print('done')", Cause.NO_EVIDENCE),
        ("import os; os.symlink('/etc/hostname', os.environ['RESEARCHENV_OUT'] + '/seen.json')", Cause.NO_EVIDENCE),
    ],
)
def test_every_end_has_its_cause(judge: Judge, code: str, cause: Cause) -> None:
    """Exit code, signal, deadline and missing evidence are told apart."""
    result = judge(argv=("{python}", "-c", code), timeout_s=3)

    assert (result.verdict, result.cause) == (Verdict.FAILED, cause)


def test_an_exception_is_the_decisive_line(judge: Judge) -> None:
    """What a person needs to see first."""
    result = judge(argv=("{python}", "-c", "import torch"))

    assert result.decisive == "ModuleNotFoundError: No module named 'torch'"


def test_there_is_no_network(judge: Judge) -> None:
    """A probe that declares no assets cannot fetch anything."""
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"

    assert "Network is unreachable" in judge(argv=("{python}", "-c", code)).decisive
