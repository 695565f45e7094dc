"""Compiled extensions that are wrong in one way each, and what a probe that requires them says.

They are small ones of ours, compiled with the base image's gcc; the error of a device is raised by one that stands in
for a CUDA kernel. The rest is real: the loader, the probe's traceback, the judge's decisive line.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
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
from pytest_researchenv.sandbox.protocol import Mount


_SHARED = Path(__file__).parents[3] / "suites/researchenvbench/_shared"
_SITE = "/opt/venv/lib/python3.11/site-packages"
_TAG = "cpython-311-x86_64-linux-gnu"

_SOURCE = """\
#include <Python.h>
#define TEXT(x) #x
#define QUOTED(x) TEXT(x)
#define JOINED(a, b) a##b
#define INIT(name) JOINED(PyInit_, name)
#ifdef NEEDS
extern int NEEDS(void);
#else
#define NEEDS() 42
#endif
static PyObject *launch(PyObject *self, PyObject *nothing) {
#ifdef NO_KERNEL
    PyErr_SetString(PyExc_RuntimeError, NO_KERNEL "\\nCUDA kernel errors might be asynchronously reported");
    return NULL;
#endif
    return PyLong_FromLong(NEEDS());
}
static PyMethodDef methods[] = {{"launch", launch, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, QUOTED(NAME), "", -1, methods};
PyMODINIT_FUNC INIT(NAME)(void) {
#ifdef OTHER_NUMPY
    PyErr_SetString(PyExc_RuntimeError, OTHER_NUMPY);
    return NULL;
#endif
    return PyModule_Create(&module);
}
"""

_PACKAGES = {
    "ours-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n",
    "torn/__init__.py": "from torn import _C\nlaunch = _C.launch\n",
    "old/__init__.py": "from old import _C\nlaunch = _C.launch\n",
    "polite/__init__.py": (
        "try:\n    import symbol\nexcept ImportError as error:\n    raise ImportError('please install it') from error\n"
    ),
    "ordinary/__init__.py": "import nowhere\n",
    "drifted/__init__.py": "from json import loads_all\n",
}

#: What each lacks is removed once it was linked.
_BUILD = f"""\
set -e
python3 -m venv --without-pip /opt/venv
cp -r /packages/. {_SITE}
cd {_SITE}
build() {{
    name=$1; shift
    gcc -shared -fPIC -I/usr/include/python3.11 -DNAME=$(basename $name) /source.c -o $name.{_TAG}.so "$@"
}}
library() {{ echo "int $2(void) {{ return 42; }}" | gcc -shared -fPIC -x c - -o /opt/$1 -Wl,-soname,$1 $3; }}

build good
build symbol -DNEEDS=_ZN3c106detail14torchCheckFailEPKcS2_jRKSs
build tag; mv tag.{_TAG}.so tag.cpython-310-x86_64-linux-gnu.so
build old/_C; mv old/_C.{_TAG}.so old/_C.cpython-310-x86_64-linux-gnu.so
build machine; printf '\\267\\000' | dd of=machine.{_TAG}.so bs=1 seek=18 conv=notrunc status=none
build arm; printf '\\267\\000' | dd of=arm.{_TAG}.so bs=1 seek=18 conv=notrunc status=none
mv arm.{_TAG}.so arm.cpython-311-aarch64-linux-gnu.so
build bits; printf '\\001' | dd of=bits.{_TAG}.so bs=1 seek=4 conv=notrunc status=none
build torn/_C; truncate -s 100 torn/_C.{_TAG}.so
build kernel '-DNO_KERNEL="CUDA error: no kernel image is available for execution on the device"'
build numeric '-DOTHER_NUMPY="module compiled against ABI version 0x1000009 but this version of numpy is 0x2000000"'
for soname in libcudart.so.11.0 libsndfile.so.1; do
    library $soname needed
    name=${{soname%%.*}}
    build ${{name#lib}} -DNEEDS=needed /opt/$soname
    rm /opt/$soname
done
echo 'GLIBCXX_3.4.99 {{ *; }};' > /opt/new; echo 'GLIBCXX_3.4.1 {{ *; }};' > /opt/old
library libours.so dated -Wl,--version-script=/opt/new
build standard -DNEEDS=dated /opt/libours.so -Wl,-rpath,/opt
library libours.so dated -Wl,--version-script=/opt/old
"""

_PROBE = """\
import json, os, pathlib
import extensions

name = os.environ["WANTED"]
with extensions.explained(name):
    answer = extensions.require(name, distribution="ours").launch()
pathlib.Path(os.environ["RESEARCHENV_OUT"], "observed.json").write_text(json.dumps({"answer": answer}))
"""

_ABI, _ARCHITECTURE = "built for another ABI", "built for another architecture"
_HOST = "this process is x86-64, 64 bit"

#: What is required → how the decisive line begins behind the exception's name, and what else is in it.
_FAULTS = {
    "absent": ("missing: absent of ours 1.0: there is no absent", "(re)install it for Python 3.11 and torch (not inst"),
    "good.absent": ("missing: good.absent of ours 1.0: there is no good.absent", ""),
    "symbol": (
        f"{_ABI}: symbol of ours 1.0: {_SITE}/symbol.{_TAG}.so: undefined symbol: _ZN3c106detail14torchCheck",
        "",
    ),
    "polite": (
        f"{_ABI}: polite of ours 1.0: {_SITE}/symbol.{_TAG}.so: undefined symbol: _ZN3c106detail14torchCheck",
        "",
    ),
    "cudart": (
        f"{_ABI}: cudart of ours 1.0: {_SITE}/cudart.{_TAG}.so: libcudart.so.11.0: cannot open shared object",
        "",
    ),
    "standard": (
        f"{_ABI}: standard of ours 1.0: ",
        "/opt/libours.so: version `GLIBCXX_3.4.99' not found (required by ",
    ),
    "numeric": (f"{_ABI}: numeric of ours 1.0: module compiled against ABI version 0x1000009", ""),
    "tag": (
        f"{_ABI}: tag of ours 1.0: {_SITE}/tag.cpython-310-x86_64-linux-gnu.so is for another interpr",
        f"*.{_TAG}.so",
    ),
    "old": (f"{_ABI}: old of ours 1.0: {_SITE}/old/_C.cpython-310-x86_64-linux-gnu.so is for another inte", ""),
    "old._C": (f"{_ABI}: old._C of ours 1.0: {_SITE}/old/_C.cpython-310-x86_64-linux-gnu.so is for anothe", ""),
    "machine": (f"{_ARCHITECTURE}: machine of ours 1.0: {_SITE}/machine.{_TAG}.so is for AArch64, 64 bit", _HOST),
    "arm": (f"{_ARCHITECTURE}: arm of ours 1.0: {_SITE}/arm.cpython-311-aarch64-linux-gnu.so is for AArch64, ", _HOST),
    "bits": (f"{_ARCHITECTURE}: bits of ours 1.0: {_SITE}/bits.{_TAG}.so is for x86-64, 32 bit", _HOST),
    "kernel": (
        f"{_ARCHITECTURE}: kernel: no kernel for this device (device capability unknown, CUDA error: no kern",
        "",
    ),
    "sndfile": ("cannot be loaded: sndfile of ours 1.0: ", "libsndfile.so.1: cannot open shared object file"),
    "torn": (f"cannot be loaded: torn of ours 1.0: {_SITE}/torn/_C.{_TAG}.so: ", ""),
}

Require = Callable[[str], TierResult]


@pytest.fixture(scope="module")
def extended(freeze: Callable[..., str], base_image: str) -> str:
    """An image whose environment holds every extension."""
    files = {f"packages/{name}": text for name, text in _PACKAGES.items()}
    return freeze(base_image, {**files, "source.c": _SOURCE, "workspace/project/README": ""}, _BUILD)


@pytest.fixture
def require(docker_sandbox: DockerSandbox, base_image: str, extended: str, tmp_path: Path) -> Require:
    """Judges C1 of a suite whose probe requires one extension and calls it."""
    folder, tree = tmp_path / "suite/project", tmp_path / "tree"
    (folder / "probes").mkdir(parents=True)
    tree.mkdir()
    (tree / "README").touch()
    (folder / "probes/use.py").write_text(_PROBE, encoding="utf-8")
    shutil.copytree(_SHARED, tmp_path / "suite/_shared", ignore=shutil.ignore_patterns("__pycache__"))

    def run(name: str) -> TierResult:
        spec = TierSpec(
            probe="probes/use.py",
            timeout_s=60,
            environment={"WANTED": name},
            evidence=Evidence(json=(JsonEvidence("{out}/observed.json", "answer", equals=42),)),
        )
        repository = Repository("someone/project", PathSource("."), folder=str(folder), tiers={Tier.C1: spec})
        environment = Environment(
            key=EnvironmentKey("run", "agent", "project", 1),
            image=extended,
            base_image=base_image,
            workdir=repository.workdir,
            report=SelfReport(python_path="/opt/venv/bin/python"),
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        task = ProbeTask(
            environment=environment,
            repository=repository,
            tree=Tree(tree, ("README",), "digest"),
            sandbox=docker_sandbox,
            tools=Mount("unused", "/unused"),
            log=len,
            settings={},
        )
        return C1Probe().judge(task)

    return run


def test_a_good_extension_is_used(require: Require) -> None:
    """What is required comes back as a module, and its call gives its answer."""
    result = require("good")

    assert result.verdict is Verdict.PASSED, result


@pytest.mark.parametrize("name", list(_FAULTS))
def test_the_decisive_line_names_the_fault(require: Require, name: str) -> None:
    """Missing, another ABI and another architecture are told apart, with what was found."""
    result = require(name)

    begins, holds = _FAULTS[name]
    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.EXIT_CODE), result
    assert result.decisive.startswith(f"extensions.ExtensionError: extension {begins}")
    assert holds in result.decisive


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ordinary", "ModuleNotFoundError: No module named 'nowhere'"),
        ("drifted", "ImportError: cannot import name 'loads_all' from 'json'"),
    ],
)
def test_an_ordinary_error_stays_what_it_is(require: Require, name: str, said: str) -> None:
    """A package that lacks another package, or a name of one, is no matter of extensions."""
    assert require(name).decisive.startswith(said)
