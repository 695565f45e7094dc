"""What a package that came later vouches for alone is asked of archives where it is imported or loaded. No Docker."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from pytest_researchenv.integrity.archives import Archive, Archives, Package, Unpublished
from pytest_researchenv.integrity.configuration import configuration
from pytest_researchenv.integrity.distributions import distributions
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.model import Sign
from tests.unit.integrity.images import DEBIAN, SITE, STATUS, VENV, Nodes, distribution, elf, md5, opened_image


CNF = "/etc/ssl/openssl.cnf"
PROVIDER = "/opt/kept/provider.so"
LEADING = f"openssl_conf = all\n[all]\nproviders = them\n[them]\nit = its\n[its]\nmodule = {PROVIDER}\nactivate = 1\n"
OTHERS = "deb https://more.example/ one main\n"


@dataclass(frozen=True)
class Known:
    """Archives that say one thing of every package."""

    said: Mapping[str, str] | Unpublished | Unknown

    def of(self, archive: Archive, package: Package) -> Mapping[str, str] | Unpublished | Unknown:
        """What they say."""
        assert archive.sources == () or archive.keys == ()
        assert (package.name, package.version) == ("kept", "1.0")
        return self.said


def packaged(files: dict[str, bytes]) -> Nodes:
    """A package as dpkg installs it, whoever made it."""
    about = f"{STATUS}Package: kept\nStatus: install ok installed\nVersion: 1.0\n\n"
    return {**files, "/var/lib/dpkg/status": about, "/var/lib/dpkg/info/kept.md5sums": md5(*files.items())}


def found(nodes: Nodes, archives: Archives | None, network: str = "open") -> set[tuple[str, str]]:
    """What is seen of an image with a virtual environment."""
    with opened_image({**VENV, **nodes}, base={**DEBIAN, CNF: ""}, python="/opt/venv/bin/python") as (opened, snapshot):
        task = replace(opened, environment=replace(opened.environment, inputs={"network": network}))
        signs = (distributions(task, snapshot, archives=archives), configuration(task, snapshot, archives))
        return {(finding.kind, finding.field) for one in signs for finding in one.findings}


def has(files: Mapping[str, bytes]) -> Known:
    """Archives that have a package with some files."""
    return Known({path: hashlib.sha256(content).hexdigest() for path, content in files.items()})


NUMPY = {"/opt/kept/numpy/__init__.py": b"A = 1\n"}
NOBODYS = Known(Unpublished("they have nothing of that name"))
GONE = Known(Unpublished("they have 1.1", known=True, later=True))


@pytest.mark.parametrize(
    ("archives", "more", "network", "told"),
    [
        (NOBODYS, {}, "open", True),
        (NOBODYS, {"/etc/apt/sources.list.d/more.list": OTHERS}, "open", False),
        (NOBODYS, {"/etc/apt/sources.list.d/more.list": OTHERS}, "none", True),
        (GONE, {}, "open", False),
        (Known(Unknown("no answer")), {}, "open", False),
        (Known(Unknown("no answer")), {}, "none", True),
        (has({**NUMPY, PROVIDER: elf()}), {}, "open", False),
        (has(dict.fromkeys((*NUMPY, PROVIDER), b"other")), {}, "open", True),
        (has({}), {}, "open", True),
        (None, {}, "open", False),
    ],
)
def test_a_package_of_nobodys_vouches_for_nothing(
    archives: Archives | None, more: Nodes, network: str, *, told: bool
) -> None:
    """Neither for what is imported by a path line nor for a library that OpenSSL is told to load."""
    files = {**NUMPY, PROVIDER: elf()}
    importing = distribution(SITE, "dep", {"dep.py": "import numpy\n"})
    nodes: Nodes = {**packaged(files), **importing, f"{SITE}/x.pth": "/opt/kept\n", CNF: LEADING, **more}

    assert found(nodes, archives, network) == ({(Sign.DISTRIBUTION, "numpy"), (Sign.HOOK, CNF)} if told else set())
