"""Real interpreters, honest and not: what the audit makes of them, and that no hook runs in a probe's world."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from pytest_researchenv.integrity.hooks import hooks
from pytest_researchenv.integrity.interpreter import interpreter
from pytest_researchenv.integrity.layout import Layout, layout_of
from pytest_researchenv.integrity.protocol import Signs, Snapshot, merged
from pytest_researchenv.integrity.snapshot import opened_snapshot
from pytest_researchenv.integrity.system import system
from pytest_researchenv.model import (
    Audit,
    Environment,
    EnvironmentKey,
    Examination,
    PathSource,
    Repository,
    SelfReport,
    Sign,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.launch import restored
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount, Network
from tests.choosing import mostly_slow


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


_log = logging.getLogger(__name__)
_BUILD_S = 600


@dataclass(frozen=True)
class _Trick:
    """Something that is done, and what is found of it.

    Attributes:
        script: what is done.
        sign: what kind of sign is seen.
        path: at which path.
        python: the interpreter that is reported.
    """

    script: str
    sign: Sign
    path: str
    python: str = "/usr/bin/python3"


#: Interpreters that tools make, each with what makes it.
HONEST = {
    "/usr/bin/python3": "true",
    "/opt/venv/bin/python": "python3 -m venv /opt/venv",
    "/opt/copies/bin/python": "python3 -m venv --copies --without-pip /opt/copies",
    "/opt/shared/bin/python": "python3 -m venv --system-site-packages --without-pip /opt/shared",
    "/opt/virtualenv/bin/python": """
        /opt/venv/bin/pip -q install virtualenv
        /opt/venv/bin/virtualenv -q /opt/virtualenv
        /opt/virtualenv/bin/pip -q install coverage setuptools
    """,
    "/opt/copied/bin/python": "/opt/venv/bin/virtualenv -q --copies /opt/copied",
    "/opt/env/bin/python": "uv venv -q /opt/env && uv pip install -q --python /opt/env/bin/python six",
    "/opt/whole/bin/python3.11": """
        mkdir -p /opt/whole/bin /opt/whole/lib
        cp /usr/bin/python3.11 /opt/whole/bin
        cp -a /usr/lib/python3.11 /opt/whole/lib
    """,
    "/opt/link/python": "mkdir /opt/link && ln -s ../venv/bin/python3 /opt/link/python",
}

#: What is done against one environment, each in a folder of its own.
TRICKS = {
    "script": _Trick(
        """
        mkdir /opt/script
        printf '#!/bin/sh\\nexec /usr/bin/python3 "$@"\\n' >/opt/script/python
        """,
        Sign.INTERPRETER,
        "/opt/script/python",
        python="/opt/script/python",
    ),
    "wrapper": _Trick(
        "mkdir /opt/wrapper && gcc -o /opt/wrapper/python /tmp/wrapper.c",
        Sign.INTERPRETER,
        "/opt/wrapper/python",
        python="/opt/wrapper/python",
    ),
    "embedding": _Trick(
        """
        mkdir /opt/embedding
        gcc -o /opt/embedding/python /tmp/embedding.c $(python3-config --includes --ldflags --embed)
        """,
        Sign.INTERPRETER,
        "/opt/embedding/python",
        python="/opt/embedding/python",
    ),
    "own build": _Trick(
        "mkdir /opt/own && gcc -o /opt/own/python /tmp/main.c $(python3-config --includes --ldflags --embed)",
        Sign.INTERPRETER,
        "/opt/own/python",
        python="/opt/own/python",
    ),
    "appended": _Trick(
        """
        python3 -m venv --copies --without-pip /opt/appended
        printf x >>/opt/appended/bin/python3.11
        ln -sf python3.11 /opt/appended/bin/python
        """,
        Sign.INTERPRETER,
        "/opt/appended/bin/python3.11",
        python="/opt/appended/bin/python",
    ),
    "configuration": _Trick(
        """
        python3 -m venv --without-pip /opt/home
        mkdir -p /opt/other/lib /opt/other/bin
        cp -r /usr/lib/python3.11 /opt/other/lib/
        echo x=1 >>/opt/other/lib/python3.11/json/__init__.py
        sed -i 's|^home = .*|home = /opt/other/bin|' /opt/home/pyvenv.cfg
        """,
        Sign.INTERPRETER,
        "/opt/other/lib/python3.11/json/__init__.py",
        python="/opt/home/bin/python",
    ),
    "path file": _Trick(
        """
        python3 -m venv --without-pip /opt/pth
        echo 'import sys; sys.x = 1' >/opt/pth/lib/python3.11/site-packages/x.pth
        """,
        Sign.HOOK,
        "/opt/pth/lib/python3.11/site-packages/x.pth",
        python="/opt/pth/bin/python",
    ),
}

_STDLIB, _LIBRARIES = "/usr/lib/python3.11", "/usr/lib/x86_64-linux-gnu"

#: What is done to the system.
SYSTEM_TRICKS = (
    _Trick(f"echo x=1 >>{_STDLIB}/json/__init__.py", Sign.INTERPRETER, f"{_STDLIB}/json/__init__.py"),
    _Trick(f"echo x=1 >>{_STDLIB}/site.py", Sign.INTERPRETER, f"{_STDLIB}/site.py"),
    _Trick(f"echo x=1 >>{_STDLIB}/encodings/utf_8.py", Sign.INTERPRETER, f"{_STDLIB}/encodings/utf_8.py"),
    _Trick(f"echo x=1 >{_STDLIB}/flash_attn.py", Sign.INTERPRETER, f"{_STDLIB}/flash_attn.py"),
    _Trick(
        "cd /tmp && echo >x.py && python3 -m zipfile -c /usr/lib/python311.zip x.py",
        Sign.INTERPRETER,
        "/usr/lib/python311.zip",
    ),
    _Trick(
        """
        cp /usr/bin/git /usr/bin/git.real
        printf '#!/bin/sh\\nexec git.real "$@"\\n' >/usr/bin/git
        """,
        Sign.SYSTEM,
        "/usr/bin/git",
    ),
    _Trick(
        f"""
        cp {_LIBRARIES}/libm.so.6 /tmp/libm
        printf x >>/tmp/libm
        mv /tmp/libm {_LIBRARIES}/libm.so.6
        """,
        Sign.SYSTEM,
        f"{_LIBRARIES}/libm.so.6",
    ),
    _Trick(
        f"""
        mkdir /opt/lib
        cp -L {_LIBRARIES}/libexpat.so.1 /opt/lib/
        printf x >>/opt/lib/libexpat.so.1
        echo /opt/lib >/etc/ld.so.conf.d/000.conf
        ldconfig
        """,
        Sign.SYSTEM,
        "/opt/lib/libexpat.so.1",
    ),
    _Trick(
        "cp /bin/bash /bin/sh.new && printf x >>/bin/sh.new && mv /bin/sh.new /bin/sh",
        Sign.SYSTEM,
        "/usr/bin/sh",
    ),
)

SOURCES = r"""
cat >/tmp/wrapper.c <<'END'
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **argv) { setenv("PYTHONPATH", "/opt", 1); return execv("/usr/bin/python3", argv); }
END
cat >/tmp/embedding.c <<'END'
#include <Python.h>
int main(int count, char **argv) { setenv("PYTHONPATH", "/opt", 1); return Py_BytesMain(count, argv); }
END
cat >/tmp/main.c <<'END'
#include <Python.h>
int main(int count, char **argv) { return Py_BytesMain(count, argv); }
END
cat >/tmp/preload.c <<'END'
#include <unistd.h>
__attribute__((constructor)) static void run(void) { write(2, "hook: preload\n", 14); }
END
"""

#: Hooks that say so when they run, in a virtual environment and in the system. Bytecode is among them that Python takes
#: without a look at its source, and such that has its genuine source's time and size.
HOOKS = r"""
python3 -m venv --without-pip --system-site-packages /opt/venv
site=/opt/venv/lib/python3.11/site-packages
say() { echo "import sys; print('hook: $1', file=sys.stderr)"; }
say path >$site/path.pth
say sitecustomize >>/etc/python3.11/sitecustomize.py
mkdir $site/apport_python_hook
{ say apport; echo 'def install(): pass'; } >$site/apport_python_hook/__init__.py
mkdir -p /root/.local/lib/python3.11/site-packages
say usercustomize >/root/.local/lib/python3.11/site-packages/usercustomize.py
say bytecode >/tmp/evil.py
python3 - <<'END'
import os, pathlib, py_compile, struct
def cached(source):
    return pathlib.Path(source).parent / "__pycache__" / (pathlib.Path(source).stem + ".cpython-311.pyc")
unchecked = cached("/root/.local/lib/python3.11/site-packages/usercustomize.py")
py_compile.compile("/tmp/evil.py", str(unchecked), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
source = "/usr/lib/python3.11/heapq.py"
code = pathlib.Path(py_compile.compile("/tmp/evil.py")).read_bytes()
known = os.stat(source)
cached(source).write_bytes(code[:8] + struct.pack("<II", int(known.st_mtime), known.st_size) + code[16:])
END
gcc -shared -fPIC -o /opt/preload.so /tmp/preload.c
echo /opt/preload.so >/etc/ld.so.preload
"""


@dataclass(frozen=True)
class _Built:
    """A frozen image, opened."""

    task: ProbeTask
    snapshot: Snapshot
    printed: str

    def reporting(self, python: str) -> ProbeTask:
        """The task of an agent that reported this interpreter."""
        environment = replace(self.task.environment, report=SelfReport(python_path=python))
        return replace(self.task, environment=environment)

    def audited(self, python: str) -> Signs:
        """What all checks of this test see."""
        return merged(check(self.reporting(python), self.snapshot) for check in (interpreter, system, hooks))

    def layout(self, python: str) -> Layout:
        """What it would use."""
        found = layout_of(self.reporting(python), self.snapshot)
        assert isinstance(found, Layout), found
        return found


@contextmanager
def _built(
    sandbox: DockerSandbox,
    base: str,
    script: str,
    mount: Mount | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[_Built]:
    """Let a script work in a container of the base image, freeze what it left, and open that."""
    network = Network.OPEN if mount or environment else Network.NONE
    with sandbox.opened(ContainerSpec(base, network=network, mounts=(mount,) if mount else ())) as container:
        container.start()
        done = container.exec(("/bin/sh", "-euc", script), timeout_s=_BUILD_S, environment=environment)
        assert done.ok, done.output.text()
        container.stop()
        with container.changes() as changes:
            changed = list(changes)
        image = container.freeze(f"researchenv-test-interpreters:{uuid4().hex}", labels={})
    task = ProbeTask(
        environment=Environment(
            key=EnvironmentKey("run", "agent", "project", 1),
            image=image,
            base_image=base,
            workdir="/workspace/project",
            report=None,
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        ),
        repository=Repository("project", PathSource("unused")),
        tree=Tree(Path("unused"), (), "digest"),
        sandbox=sandbox,
        tools=Mount("unused", "/unused"),
        log=lambda text: _log.debug("%s", text),
        settings={},
    )
    try:
        with opened_snapshot(task, lambda: changed) as snapshot:
            yield _Built(task, snapshot, done.output.text())
    finally:
        sandbox.remove_image(image)


@pytest.fixture(scope="module")
def honest(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, owner: Owner, base_image: str
) -> Iterator[_Built]:
    """Every honest interpreter in one image; each has said where it looks for modules."""
    from pytest_researchenv.sandbox.hostsettings import host_settings  # noqa: PLC0415 - docker only when it is built.

    settings = host_settings(docker_client, owner=owner, image=base_image, say=_log.info)
    asking = [f"{python} -c 'import json, ssl, sys; print(\"path:\", json.dumps(sys.path[1:]))'" for python in HONEST]
    # Where it is installed with pip alone, Debian's own folders come into play.
    extra = "pip -q install --break-system-packages --user idna; pip -q install --break-system-packages six"
    script = "\n".join((*HONEST.values(), extra, *asking))
    environment = dict(settings.environment)
    with _built(docker_sandbox, base_image, script, settings.mount, environment) as built:
        yield built


@pytest.fixture(scope="module")
def tricked(docker_sandbox: DockerSandbox, base_image: str) -> Iterator[_Built]:
    """Every trick against one environment in one image."""
    with _built(
        docker_sandbox, base_image, "\n".join((SOURCES, *(trick.script for trick in TRICKS.values())))
    ) as built:
        yield built


@pytest.mark.parametrize("python", mostly_slow(HONEST, but=HONEST.keys() - {"/opt/whole/bin/python3.11"}))
def test_an_honest_interpreter_raises_no_sign(python: str, honest: _Built) -> None:
    """And where it looks for modules is what it says itself."""
    paths = [json.loads(line.removeprefix("path:")) for line in honest.printed.splitlines() if line.startswith("path:")]

    signs = honest.audited(python)

    # Of a copy that nobody owns, bytecode cannot be told from forged one, and no probe runs it.
    assert all(path.endswith("/__pycache__") or "/__pycache__/" in path for path in signs.blanked)
    assert replace(signs, blanked={}) == Signs()
    assert list(honest.layout(python).path) == paths[list(HONEST).index(python)]


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_against_an_environment_is_found(name: str, tricked: _Built) -> None:
    """Each alone: the others lie elsewhere in the same image."""
    trick = TRICKS[name]
    signs = tricked.audited(trick.python)

    assert [(finding.kind, finding.field) for finding in signs.findings] == [(trick.sign, trick.path)]
    assert bool(signs.interpreter) is (trick.sign is Sign.INTERPRETER)


def test_tricks_against_the_system_are_found(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """All of them, and nothing else; the system's own interpreter is not believed."""
    script = "\n".join(trick.script for trick in SYSTEM_TRICKS)
    with _built(docker_sandbox, base_image, script) as built:
        signs = built.audited("/usr/bin/python3")

    assert {(finding.kind, finding.field) for finding in signs.findings} == {
        (trick.sign, trick.path) for trick in SYSTEM_TRICKS
    }
    assert signs.interpreter


def test_no_hook_runs_in_the_probes_world(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """Each ran before; what Python still finds in their place is empty."""
    names = {"path", "sitecustomize", "apport", "bytecode", "preload"}
    python = "/opt/venv/bin/python"
    argv = (python, "-c", "import heapq, json, ssl; heapq.heappush; print('done')")
    with _built(docker_sandbox, base_image, SOURCES + HOOKS) as built:
        task, signs = built.reporting(python), built.audited(python)
        spec = ContainerSpec(task.environment.image, argv)
        with docker_sandbox.opened(spec) as container:
            before = container.run(timeout_s=60).output.text()
        result = TierResult(Examination.INTEGRITY, Verdict.FAILED, snapshot=task.environment.image)
        with restored(replace(task, audit=Audit(result, blanked=dict(signs.blanked))), spec) as container:
            after = container.run(timeout_s=60).output.text()

    assert {line.removeprefix("hook: ") for line in before.splitlines() if line.startswith("hook:")} == names
    assert after == "done\n"
    assert {finding.kind for finding in signs.findings} == {Sign.HOOK}
    assert len(signs.findings) == 6
    assert "/usr/lib/python3.11/__pycache__/heapq.cpython-311.pyc" in signs.blanked


@pytest.mark.slow
def test_packages_that_come_later_raise_no_sign(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, owner: Owner, base_image: str
) -> None:
    """What apt installs and upgrades, with everything that its scripts do."""
    from pytest_researchenv.sandbox.hostsettings import host_settings  # noqa: PLC0415 - docker only when it is built.

    settings = host_settings(docker_client, owner=owner, image=base_image, say=_log.info)
    script = (
        "export DEBIAN_FRONTEND=noninteractive; apt-get update -q; apt-get upgrade -qy; "
        "apt-get install -qy --no-install-recommends clang ffmpeg gfortran libopenblas-dev libopenmpi-dev libsndfile1 "
        "openjdk-17-jre-headless nodejs python3-numpy python3-setuptools python3-venv default-libmysqlclient-dev; "
        "update-alternatives --set cc /usr/bin/clang; apt-get remove -qy cmake; python3 -m venv /opt/venv; "
        "python3 -c 'import numpy'"
    )
    with _built(docker_sandbox, base_image, script, settings.mount, dict(settings.environment)) as built:
        for python in ("/usr/bin/python3", "/opt/venv/bin/python"):
            assert built.audited(python).findings == ()
