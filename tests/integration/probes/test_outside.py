"""Modules seen from outside, in a real container."""

from __future__ import annotations

from pytest_researchenv.probes.lookup import Module
from pytest_researchenv.probes.outside import Outside
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.protocol import ContainerSpec


SCRIPT = """\
set -e
mkdir -p /opt/see/a/b /opt/real/deep /store
echo > /store/far.py
ln -s ../../../store/far.py /opt/see/far.py
ln -s /opt/real/deep /opt/see/a/over
echo > /opt/real/up.py
ln -s ../up.py /opt/real/deep/up.py
ln -s loop /opt/see/loop
mkfifo /opt/see/fifo.py
python3 -c "import zipfile; zipfile.ZipFile('/opt/see/made.egg', 'w').writestr('zipped/__init__.py', '')"
ln -s made.egg /opt/see/linked.egg
truncate -s 64M /opt/see/huge.py
truncate -s 64M /opt/see/huge.egg
"""


def test_modules_are_seen_from_outside(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """Through links, over folders that are links, in archives; and nothing is seen that is no module."""
    seen = {
        "far": "/opt/see/far.py",
        "up": "/opt/see/a/over/up.py",
        "zipped": "/opt/see/linked.egg/zipped/__init__.py",
        "json": "/usr/lib/python3/../python3.11/json/__init__.py",
    }
    unseen = {
        "fifo": "/opt/see/fifo.py",
        "b": "/opt/see/a/b",
        "absent": "/opt/see/linked.egg/absent/__init__.py",
        "late": "/opt/see/huge.egg/late/__init__.py",
        "huge": "/opt/see/huge.py",
    }

    with docker_sandbox.opened(ContainerSpec(base_image)) as container:
        container.start()
        done = container.exec(["sh", "-c", SCRIPT], timeout_s=60)
        assert done.ok, done.output.text()
        container.stop()
        outside = Outside(container, "3.11.2")
        doubted = {
            name
            for name, path in (seen | unseen).items()
            if outside.doubt(name, Module(finder="F", origin=path, files=[path], real=[path], native=False, owner=""))
        }

    assert doubted == set(unseen)
