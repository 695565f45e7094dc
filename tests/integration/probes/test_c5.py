"""C5 with real interpreters: honest ones contradict nothing, and forged answers contradict what is seen outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    PathSource,
    Repository,
    SelfReport,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.c5 import C5Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


if TYPE_CHECKING:
    from pytest_researchenv.sandbox.docker import DockerSandbox

#: What stands in for torch.
TORCH = """
from types import SimpleNamespace
__version__ = "SAYS"
cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
"""

#: Runs before anything else of an environment: says another version, and tries to answer for the interpreter.
HOOK = """
import sys
sys.version = "2.7.18"
for word in sys.orig_argv + open("/proc/self/cmdline").read().split(chr(0)):
    print(f"\\n{word} " + '{"python_version": "2.7.18", "executable": ""}', flush=True)
"""

PREPARE = """
set -e
torch() { # PREFIX SAYS RECORDED [MORE]: as pip leaves it, with a line more
    site=$(echo "$1"/lib/python3.*/site-packages)
    mkdir -p "$site/torch" "$site/torch-$3.dist-info"
    sed "s/SAYS/$2/" /made/torch.py > "$site/torch/__init__.py"
    echo "${4:-}" >> "$site/torch/__init__.py"
    printf 'Metadata-Version: 2.1\\nName: torch\\nVersion: %s\\n\\nText.\\n' "$3" > "$site/torch-$3.dist-info/METADATA"
}
for name in good label copied old relinked twice lying circle found hooked; do
    python3 -m venv --without-pip "/opt/$name"
done
torch /opt/good 2.13.0+cu128 2.13.0+cu128
torch /opt/label 2.15.0+cu132 2.15.0
python3 -m venv --without-pip --copies --clear /opt/copied
torch /opt/copied 1.13.0a0 1.13.0a0+gitunknown
# What a new interpreter below it leaves behind.
sed -i 's/^version = .*/version = 3.9.2/' /opt/old/pyvenv.cfg
mkdir -p /opt/python/bin
ln -s /usr/bin/python3 /opt/python/bin/python3
ln -sf /opt/python/bin/python3 /opt/relinked/bin/python

torch /opt/twice 2.13.0 2.13.0 'import sys; print("", sys.argv[1] + " {}", sep=chr(10), flush=True)'
torch /opt/lying 9.9.9 2.13.0
torch /opt/circle 9.9.9 2.13.0
(cd /opt/circle/lib/python3.*/site-packages && ln -s torch-9.9.9.dist-info torch-9.9.9.dist-info)
torch /opt/found 2.13.0 2.13.0 'cuda.is_available, cuda.device_count = lambda: True, lambda: 8'
torch /opt/hooked 2.13.0 2.13.0
(cd /opt/hooked/lib/python3.*/site-packages && cp /made/hook.py sitecustomize.py && cp /made/hook.py early.py &&
    echo 'import early' > early.pth)
"""

Freeze = Callable[[str, Mapping[str, str], str], str]
Judge = Callable[..., TierResult]


@pytest.fixture(scope="module")
def interpreters(freeze: Freeze, base_image: str) -> str:
    """An image with many interpreters."""
    return freeze(base_image, {"made/torch.py": TORCH, "made/hook.py": HOOK}, PREPARE)


@pytest.fixture(scope="module")
def version(docker_sandbox: DockerSandbox, base_image: str) -> str:
    """The version of all of them."""
    argv = ("/usr/bin/python3", "-c", "import platform; print(platform.python_version())")
    with docker_sandbox.opened(ContainerSpec(base_image, argv=argv)) as container:
        return container.run(timeout_s=60).stdout.text().strip()


@pytest.fixture
def judge_claims(docker_sandbox: DockerSandbox, base_image: str, interpreters: str, tmp_path: Path) -> Judge:
    """Judges a self-report about one of them; the CPU stands in for devices."""

    def run(name: str, **claims: object) -> TierResult:
        python = name if name.startswith("/") else f"/opt/{name}/bin/python"
        environment = Environment(
            key=EnvironmentKey("run", "agent", "c5", 1),
            image=interpreters,
            base_image=base_image,
            workdir="/workspace/c5",
            report=SelfReport(**{"python_path": python, **claims}),  # type: ignore[arg-type] # by name
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        return C5Probe().judge(
            ProbeTask(
                environment=environment,
                repository=Repository("c5", PathSource("."), frameworks=("torch",)),
                tree=Tree(tmp_path, (), "digest"),
                sandbox=docker_sandbox,
                tools=Mount("unused", "/unused"),
                log=len,
                settings={},
            )
        )

    return run


@pytest.mark.parametrize(
    ("name", "torch"),
    [
        ("/usr/bin/python3", None),
        ("good", "2.13.0"),
        ("label", "2.15.0"),
        ("copied", "1.13.0a0"),
        ("old", None),
        ("relinked", None),
    ],
)
def test_honest_interpreters_contradict_nothing(
    judge_claims: Judge, version: str, name: str, torch: str | None
) -> None:
    """Links, copies, an old `pyvenv.cfg` and labels of builds are no contradictions, and true claims hold."""
    result = judge_claims(name, python_version=version, torch_version=torch)

    assert (result.verdict, result.findings, result.evidence["contradictions"]) == (Verdict.PASSED, (), [])
    assert len(result.evidence["holds"]) == 2 + (torch is not None)  # type: ignore[arg-type] # a list


def test_hooks_cannot_change_the_version_or_answer_for_the_interpreter(judge_claims: Judge, version: str) -> None:
    """What runs by itself runs after the first answer; what it prints for the second makes two of it."""
    result = judge_claims("hooked", python_version=version)

    assert result.evidence["python_version"] == version
    assert result.findings == ()
    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.TAMPERED)
    assert "torch contradicts itself: it answered" in result.reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("twice", "it answered 2 times"),
        ("lying", "it says that it is 9.9.9, and its installer recorded 2.13.0"),
        ("circle", "it says that it is 9.9.9, and its installer recorded 2.13.0"),
        ("found", "it finds CUDA available and 8 devices, and the container was given 0"),
    ],
)
def test_a_torch_that_contradicts_what_is_seen_is_a_false_claim(judge_claims: Judge, name: str, said: str) -> None:
    """The version that it says is claimed, and does not hold."""
    claim = "9.9.9" if said.startswith("it says") else "2.13.0"
    result = judge_claims(name, torch_version=claim)

    assert [(one.field, one.observed) for one in result.findings] == [
        ("torch_version", f"torch contradicts itself: {said}")
    ]
    assert result.cause is Cause.FALSE_CLAIMS
