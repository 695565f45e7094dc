"""Environments of the fake engine in which packages are installed, and what the audit says of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_researchenv.integrity.distributions import distributions
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.witness import Published
from pytest_researchenv.model import PathSource, Repository, Sign
from pytest_researchenv.probes.protocol import Tree
from tests.unit.integrity.images import DEBIAN, VENV, Nodes, opened_image


__all__ = ["PYTHON", "Index", "audited", "kinds", "native", "torch"]

PYTHON = "/opt/venv/bin/python"

#: A core of a framework, which must be large.
_CORE = b"\x7fELF" + bytes(8 * 1024 * 1024)


def native(text: str = "") -> bytes:
    """A compiled module, as far as its first bytes go."""
    return b"\x7fELF" + text.encode()


def torch() -> dict[str, bytes | str]:
    """The files of a torch: path in the site folder → content."""
    return {
        "torch/__init__.py": "import numpy\n",
        "torch/cuda/__init__.py": "def is_available(): ...\n",
        "torch/lib/libtorch_cpu.so": _CORE,
    }


@dataclass(frozen=True)
class Index:
    """A package index.

    Attributes:
        wheels: name → path → SHA-256 of its only wheel's files.
        sources: name → path → SHA-256 of its only source distribution's files.
        really: path → SHA-256 of what a wheel really holds.
        names: further names that somebody publishes something under.
        versions: those of what it has. Of what has a local part there is no wheel that can be read.
        complete: whether it knows what it does not have.
    """

    wheels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    really: Mapping[str, str] = field(default_factory=dict)
    names: Collection[str] = ()
    versions: Collection[str] = ("1.0",)
    complete: bool = True

    def of(self, name: str, version: str, tags: Collection[str]) -> Mapping[str, str] | Unknown:
        """The files of its wheel."""
        del tags
        # Of another version than the one it has, its answer is as if there were none.
        return (
            Unknown(f"no wheel of {name}") if "+" in version else self.wheels.get(name, Unknown(f"no wheel of {name}"))
        )

    def held(self, name: str, version: str, tags: Collection[str], path: str) -> str | Unknown:
        """What its wheel holds."""
        del version, tags
        return self.really.get(path, self.wheels[name][path])

    def sources_of(self, name: str, version: str) -> Mapping[str, str] | Unknown:
        """The files of its source distribution."""
        del version
        return self.sources.get(name, Unknown(f"no sources of {name}"))

    def offered(self, name: str, version: str = "") -> bool | Unknown:
        """Whether it has anything of a name, or of a version of it."""
        if version and version not in self.versions and self.complete:
            return False
        known = name in self.wheels or name in self.sources or name in self.names
        return known if known or self.complete else Unknown("nobody knows")


def audited(
    folder: Path,
    nodes: Nodes,
    *,
    tracked: Mapping[str, str] | None = None,
    base: Nodes | None = None,
    python: str = PYTHON,
    frameworks: tuple[str, ...] = (),
    repository: Repository | None = None,
    published: Published | None = None,
    also: Collection[str] = (),
    network: str = "open",
    records: Path | None = None,
) -> Signs:
    """Audit what is installed.

    Args:
        folder: where the pinned tree is put.
        nodes: what the agent left, beside a virtual environment.
        tracked: tracked files, by path.
        base: the base image; None: `DEBIAN`.
        python: the reported interpreter.
        frameworks: what the repository declares.
        repository: what is judged; None: one that declares nothing else.
        published: the package index; None: it is not asked.
        also: further tracked files, which are in the folder already.
        network: what the agent could reach.
        records: the attempt's folder, in which it is on record what it reached.
    """
    files = tracked or {}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    repository = repository or Repository("project", PathSource("unused"), frameworks=frameworks)
    with opened_image(
        {**VENV, **nodes}, base={**DEBIAN, **(base or {})}, python=python, tracked=files, repository=repository
    ) as (opened, snapshot):
        environment = replace(opened.environment, inputs={"network": network})
        tree = Tree(folder, tuple(sorted({*files, *also})), "digest")
        task = replace(opened, tree=tree, environment=environment, records=records)
        if published is None:
            return distributions(task, snapshot)
        return distributions(task, snapshot, published)


def kinds(signs: Signs) -> set[Sign]:
    """The kinds of what was found."""
    return {finding.kind for finding in signs.findings if isinstance(finding.kind, Sign)}
