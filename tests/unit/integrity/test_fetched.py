"""Where nothing was fetched from, nothing came: what the proxy wrote down. No Docker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_researchenv.integrity import outside
from pytest_researchenv.model import Sign
from pytest_researchenv.packagecache.protocol import HOST as PACKAGES
from tests.unit.integrity.dep import ABOUT, FILES, USES, hashes
from tests.unit.integrity.images import SITE, Nodes, distribution
from tests.unit.integrity.sites import Index, audited, kinds, torch


def got(host: str, path: str) -> list[dict[str, object]]:
    """A request that an agent got an answer to, as the proxy writes it down."""
    return [{"kind": "egress", "method": "GET", "host": host, "path": path, "allowed": True}]


GIT = json.dumps({"url": "https://git.example/dep", "vcs_info": {"vcs": "git"}})
CHECKOUT = json.dumps({"url": "file:///opt/dep", "dir_info": {}})


@pytest.mark.parametrize(
    ("network", "requests", "git", "checkout"),
    [
        ("open", [], False, False),
        ("none", [], True, True),
        ("allowlist", None, False, False),
        ("allowlist", [], True, True),
        ("allowlist", got("pypi.org", "/simple/dep/"), True, True),
        ("allowlist", got("files.pythonhosted.org", "/packages/dep-1.0.tar.gz"), True, True),
        ("allowlist", got(PACKAGES, "/index/dep/dep-1.0-py3-none-any.whl"), True, True),
        ("allowlist", [{**got("git.example", "/dep/info/refs")[0], "allowed": False}], True, True),
        ("allowlist", got("git.example", "/dep/info/refs?service=git-upload-pack"), False, False),
        ("allowlist", got("git.example", "/page"), False, True),
        ("allowlist", got("mirror.example", "/dep/archive/main.zip"), False, False),
        ("allowlist", got("tunnel.example", ""), False, False),
        ("allowlist", got("hub.example", "/api/models/x"), True, True),
        ("allowlist", [{"kind": "egress"}, {"kind": "model"}], True, True),
    ],
)
@pytest.mark.parametrize("names", [(), ("dep",)], ids=["nobodys", "published"])
def test_where_nothing_was_fetched_from_nothing_came(
    tmp_path: Path,
    network: str,
    requests: list[dict[str, object]] | None,
    names: tuple[str, ...],
    *,
    git: bool,
    checkout: bool,
) -> None:
    """A note of a Git host or of a checkout is anybody's to write; what the proxy wrote down is not."""
    records = tmp_path / "records"
    records.mkdir()
    if requests is not None:
        (records / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in requests))
    project: Nodes = {"/opt/dep/.gitignore": "", "/opt/dep/setup.py": "", "/opt/dep/.git/HEAD": "ref: x"}
    index = Index(names=names)

    for note, told, more in ((GIT, git, {}), (CHECKOUT, checkout, project)):
        nodes: Nodes = {
            **distribution(SITE, "dep", FILES, "9.9"),
            f"{SITE}/dep-9.9.dist-info/direct_url.json": note,
            **more,
        }
        signs = audited(tmp_path / "tree", nodes, tracked=USES, published=index, network=network, records=records)
        assert (Sign.STUB in kinds(signs), list(signs.modules)) == (told, ["dep"] if told else [])


@pytest.mark.parametrize(
    ("hosts", "told"), [(["pypi.org"], True), (["pypi.org", "git.example"], False), (["pypi.org"] * 30, False)]
)
def test_many_requests_hide_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[str], *, told: bool
) -> None:
    """After so many, the proxy tells of each host once: from one that is no index may have come anything."""
    monkeypatch.setattr(outside, "_FULL", 5)
    monkeypatch.setattr(outside, "_MOST", 20)
    records = tmp_path / "records"
    records.mkdir()
    every = [*got("pypi.org", "/simple/x/") * 5, *(one for host in hosts for one in got(host, "/page"))]
    (records / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in every))
    nodes: Nodes = {**distribution(SITE, "dep", FILES, "9.9"), f"{SITE}/dep-9.9.dist-info/direct_url.json": GIT}

    signs = audited(tmp_path / "tree", nodes, tracked=USES, published=Index(), network="allowlist", records=records)

    assert (Sign.STUB in kinds(signs)) is told


def test_what_is_the_repositorys_or_published_needs_not_be_fetched(tmp_path: Path) -> None:
    """Nor does what the base image has."""
    project: Nodes = {"/opt/dep/.git/HEAD": "ref: x", "/opt/dep/setup.py": ""}
    noted = {f"{ABOUT}/direct_url.json": CHECKOUT}
    own = {f"packages/{path}": content for path, content in FILES.items()}
    every: Nodes = {**distribution(SITE, "dep", FILES), **noted}

    def told(**options: object) -> set[Sign]:
        return kinds(audited(tmp_path, network="none", **{"tracked": USES, "nodes": {**every, **project}, **options}))  # type: ignore[arg-type]

    assert told(published=Index()) == {Sign.STUB}
    assert told(published=Index(), nodes=every, base=project) == set()
    assert told(published=Index(), tracked={**USES, **own}) == set()
    assert told(published=Index(sources={"dep": hashes(FILES)})) == set()
    assert told(published=Index(complete=False)) == set()


@pytest.mark.parametrize(("network", "told"), [("open", False), ("none", True)])
def test_what_is_large_and_of_no_index_was_fetched(tmp_path: Path, network: str, *, told: bool) -> None:
    """Vendors and whoever builds torch have versions that no index has; without a clone or an archive nobody has."""
    files = distribution(SITE, "torch", torch(), "1.0a0+gitdeadbee")
    index = Index(names=("torch",))

    signs = audited(tmp_path, files, tracked={"run.py": "import torch\n"}, published=index, network=network)

    assert (kinds(signs), list(signs.modules)) == (({Sign.STUB}, ["torch"]) if told else (set(), []))


@pytest.mark.parametrize(("network", "told"), [("open", False), ("none", True)])
def test_what_distutils_installed_was_published_or_fetched(tmp_path: Path, network: str, *, told: bool) -> None:
    """It leaves no note of where it came from. A version that is published needs none."""
    about = f"{SITE}/dep-9.9.egg-info"
    nodes: Nodes = {
        f"{SITE}/dep.py": "A = 1\n",
        f"{about}/PKG-INFO": "Name: dep\nVersion: 9.9\n",
        f"{about}/top_level.txt": "dep\n",
    }

    def seen(*versions: str) -> set[Sign]:
        index = Index(names=("dep",), versions=versions)
        return kinds(audited(tmp_path, nodes, tracked=USES, published=index, network=network))

    assert (Sign.STUB in seen("1.0")) is told
    assert Sign.STUB not in seen("1.0", "9.9")


def test_a_path_leads_to_a_project_that_was_fetched(tmp_path: Path) -> None:
    """Or to one of the agent's own, which is a stand-in whatever lies beside it."""
    nodes: Nodes = {f"{SITE}/dep.pth": "/opt/dep\n", "/opt/dep/dep.py": "A = 1\n", "/opt/dep/setup.py": ""}
    nodes = {**nodes, "/opt/dep/.git/HEAD": "ref: x"}

    assert kinds(audited(tmp_path, nodes, tracked=USES, network="open")) == set()
    assert kinds(audited(tmp_path, nodes, tracked=USES, network="none")) == {Sign.STUB}
