"""The benchmark's own answers are found where an agent asked for them, printed or kept them, and nowhere else."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.gateway.inside.names import BY_NUMBER
from pytest_researchenv.gateway.inside.passage import OWN_NAME, OWN_TEXT
from pytest_researchenv.integrity.answers import answers
from pytest_researchenv.integrity.canaries import PACKAGE_CANARY
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Finding, PathSource, Repository, Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import SITE, VENV, WORKDIR, Nodes, distribution, opened_image


MINE = "mine canary 0f5d3c1e-7b1c-4a57-9a5e-5e0e1b2c3d4f"
RECIPE = f"# {MINE}\nuv pip install torch\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One of a suite with a canary."""
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "suite.toml").write_text(f'name = "mine"\ncanary = "{MINE}"\n')
    return Repository("project", PathSource("unused"), folder=str(suite / "project"))


def signs(
    nodes: Nodes,
    repository: Repository,
    *,
    records: Path | None = None,
    refused: tuple[str, ...] = (),
    tracked: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> Signs:
    """What the check says of an image."""
    with opened_image(nodes, repository=repository, tracked=tracked) as (task, snapshot):
        environment = replace(task.environment, refused=refused)
        tree = replace(task.tree, root=root or task.tree.root)
        seen = answers(replace(task, environment=environment, records=records, tree=tree), snapshot)
        assert snapshot.problems == ()
        return seen


def places(seen: Signs) -> list[str]:
    """Where something was found."""
    assert all(finding.kind is Sign.ANSWER for finding in seen.findings)
    assert not Sign.ANSWER.voids
    return [finding.field for finding in seen.findings]


def zipped(content: str) -> bytes:
    """A wheel or whatever it is called."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("suites/x/oracle.sh", content * 3)
    return stream.getvalue()


# --- what was kept ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/root/oracle.sh",
        "/tmp/x",  # noqa: S108 - a path in an image
        "/etc/answers.txt",
        "/answers/a/b/c.md",
        f"{WORKDIR}/notes/oracle.sh",
        f"{SITE}/torch/oracle.sh",
        "/usr/lib/python3/dist-packages/x/y.py",
        "/usr/share/doc/zlib1g/README",
        "/researchenv/report.json",
        "/root/.cache/http-v2/1/2/body",
    ],
)
@pytest.mark.parametrize("packed", [str, zipped, lambda text: gzip.compress(text.encode())])
def test_an_answer_is_found_wherever_it_was_left(
    repository: Repository, path: str, packed: Callable[[str], str | bytes]
) -> None:
    """As it is, and packed."""
    seen = signs({**VENV, path: packed(RECIPE)}, repository)

    assert places(seen) == [path]
    assert seen.findings[0].observed == "it holds the canary of the suite mine"


def test_the_packages_own_is_told_from_the_suites(repository: Repository) -> None:
    """One finding for each, which names some of the files."""
    nodes = {f"/root/a/{number}.py": f"# {PACKAGE_CANARY}\n" for number in range(20)}

    seen = signs({**nodes, "/root/oracle.sh": RECIPE}, repository)

    assert len(seen.findings) == 2
    packages = next(finding for finding in seen.findings if "this package" in finding.observed)
    assert packages.field.startswith("/root/a/")
    assert "and 14 more" in packages.observed


def test_files_of_the_base_image_and_removed_ones_are_nobodys(repository: Repository) -> None:
    """Only what the agent's layer holds counts."""
    with opened_image(
        {"/root/b": None},
        base={"/root/a": RECIPE, "/root/b": RECIPE, "/usr/bin": Folder()},
        repository=repository,
    ) as (task, snapshot):
        assert answers(task, snapshot) == Signs()


def test_what_the_repository_itself_holds_was_given(repository: Repository, tmp_path: Path) -> None:
    """A pinned tree may hold anything, also a canary; elsewhere in the image it still tells."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a.sh").write_text(RECIPE)
    tracked = {"tests/a.sh": RECIPE, "gone.txt": ""}

    seen = signs({f"{WORKDIR}/build/a.sh": RECIPE}, repository, tracked=tracked, root=tmp_path)
    elsewhere = signs({"/root/a.sh": RECIPE}, repository, tracked=tracked, root=tmp_path)

    assert places(seen) == []
    assert places(elsewhere) == ["/root/a.sh"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"{SITE}/pytest_researchenv-0.1.0.dist-info/METADATA", f"{SITE}/pytest_researchenv-0.1.0.dist-info"),
        (f"{SITE}/Pytest.ResearchEnv-0.1.0.egg-info", f"{SITE}/Pytest.ResearchEnv-0.1.0.egg-info"),
        ("/root/x/pytest_researchenv.egg-info/PKG-INFO", "/root/x/pytest_researchenv.egg-info"),
        (f"{SITE}/pytest-researchenv.egg-link", f"{SITE}/pytest-researchenv.egg-link"),
        (f"{SITE}/__editable__.pytest_researchenv-0.1.0.pth", f"{SITE}/__editable__.pytest_researchenv-0.1.0.pth"),
        (f"{SITE}/_pytest_researchenv.pth", f"{SITE}/_pytest_researchenv.pth"),
        (f"{SITE}/pytest_researchenv-0.1.0-py3.11.egg/EGG-INFO/x", f"{SITE}/pytest_researchenv-0.1.0-py3.11.egg"),
        (
            "/opt/conda/conda-meta/pytest-researchenv-0.1.0-py_0.json",
            "/opt/conda/conda-meta/pytest-researchenv-0.1.0-py_0.json",
        ),
    ],
)
def test_a_distribution_of_ours_is_found_by_its_record(repository: Repository, path: str, place: str) -> None:
    """However it was installed, and whatever its files hold."""
    seen = signs({**VENV, path: "", f"{SITE}/other.py": ""}, repository)

    assert places(seen) == [place]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/root/x/.git/config", '[remote "origin"]\n\turl = https://me:pw@github.com/lab/pytest-researchenv.git\n'),
        ("/root/pool/x.git/config", '[remote "origin"]\n\turl = git@github.com:lab/ResearchEnvBench\n'),
        (
            "/root/.cache/uv/git-v0/db/1/FETCH_HEAD",
            "1234\t\tbranch 'main' of https://github.com/lab/pytest-researchenv\n",
        ),
        ("/root/a/.git/modules/x/config", "url = https://mirror.example/lab/pytest_researchenv\n"),
    ],
)
def test_a_clone_of_ours_is_found_by_its_origin(repository: Repository, path: str, text: str) -> None:
    """Of a bare one, nothing else can be seen. Passwords are not repeated."""
    seen = signs({path: text}, repository)

    assert places(seen) == [path]
    assert "pw@" not in seen.findings[0].observed


def test_empty_lines_of_a_clone_cost_nothing(repository: Repository) -> None:
    """However many there are: a pattern that tries each end of them would take hours."""
    assert signs({"/root/x/.git/config": "\n" * 2_000_000}, repository) == Signs()


def test_a_clean_environment_raises_nothing(repository: Repository) -> None:
    """Words that merely name the benchmark are nobody's fault, in whatever file."""
    nodes: dict[str, bytes | str | Link | Folder | None] = {
        **VENV,
        **distribution(SITE, "torch", {"torch/__init__.py": "# pytest-researchenv"}),
        "/root/notes.txt": "pytest-researchenv, researchenvbench: canary",
        "/root/pytest_researchenv.json": "{}",
        "/root/pytest-researchenv/readme": "",
        "/root/x/.git/config": '[remote "origin"]\n\turl = https://github.com/a/b\n# pytest-researchenv\n',
        "/root/link": Link("/nowhere"),
        "/root/half": MINE[:-1],
        f"{WORKDIR}/build.log": "collected by pytest-researchenv",
    }

    assert signs(nodes, repository) == Signs()


def test_a_million_files_and_deep_folders_are_survived(repository: Repository) -> None:
    """What is hostile is read like anything else; what is not read is said."""
    deep = "/root/" + "d/" * 400 + "oracle.sh"
    many = {f"/etc/x{number}.txt": "" for number in range(500)}

    seen = signs({**many, deep: RECIPE, "/root/\x1b[31m\n.sh": RECIPE}, repository)

    assert len(seen.findings) == 1
    assert "\x1b" not in repr(seen.findings) + seen.findings[0].observed
    assert len(seen.findings[0].field) <= 300
    assert seen.remarks == ("381 files of the agent's were not searched for the benchmark's answers",)


# --- what was shown ---------------------------------------------------------------------------------------


@contextmanager
def attempt(folder: Path, **files: str | bytes) -> Iterator[Path]:
    """An attempt's folder."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    yield folder


@pytest.mark.parametrize("name", ["transcript__log", "trajectory__json", "report__json"])
def test_a_canary_that_an_agent_shows_is_found(repository: Repository, tmp_path: Path, name: str) -> None:
    """In what it printed, step by step, and in its report; over the border of pieces, too."""
    text = "x" * (2**20 - 20) + RECIPE + "y"
    with attempt(tmp_path / "attempt", **{name: text}) as records:
        seen = signs({}, repository, records=records)

    assert places(seen) == [name.replace("__", ".")]


def test_what_an_agent_was_told_it_may_repeat(repository: Repository, tmp_path: Path) -> None:
    """A prompt of the user's may hold anything; another canary is still found."""
    both = f"{RECIPE}{PACKAGE_CANARY}"
    with attempt(tmp_path / "attempt", prompt__md=RECIPE, transcript__log=both) as records:
        (finding,) = signs({}, repository, records=records).findings

    assert finding.observed == "it holds the canary of this package"


def test_words_are_no_canary(repository: Repository, tmp_path: Path) -> None:
    """An honest agent may have heard of the benchmark."""
    text = f"I know pytest-researchenv and researchenvbench; suites/researchenvbench/vim/oracle.sh; {MINE[:-1]}"
    with attempt(tmp_path / "attempt", transcript__log=text, trajectory__json=json.dumps({"a": text})) as records:
        assert signs({}, repository, records=records) == Signs()


# --- what was asked for -----------------------------------------------------------------------------------


def egress(path: str, *, host: str = "pypi.org", allowed: bool = False, reason: str = "", **more: object) -> str:
    """A line of requests.jsonl."""
    said = {"at": 1.0, "method": "GET", "host": host, "path": path, "allowed": allowed, "status": None, **more}
    return json.dumps({"kind": "egress", **said, "reason": reason}) + "\n"


def asked(
    repository: Repository, folder: Path, lines: str | bytes, refused: tuple[str, ...] = ()
) -> tuple[Finding, ...]:
    """What is found in requests."""
    with attempt(folder / "attempt", requests__jsonl=lines) as records:
        return signs({}, repository, records=records, refused=refused).findings


@pytest.mark.parametrize(
    ("line", "observed"),
    [
        (
            egress("/simple/pytest-researchenv/", reason=f"{OWN_NAME} (pytest-researchenv)"),
            "it was refused: it belongs to",
        ),
        (egress("/simple/Pytest_Research%65nv/", allowed=True, status=200), "it was answered with status 200"),
        (
            egress("/search", host="hub.example", reason=f"{OWN_NAME} (researchenvbench)"),
            "it was refused: it belongs to",
        ),
        (egress("/x/y.sh", host="mirror.example", reason=f"{OWN_TEXT} (mine)"), "it was refused: its answer holds"),
        (egress("", host="pytest-researchenv.example", method="CONNECT", reason=OWN_NAME), "it was refused"),
        (
            egress("/lab/pytest-researchenv", host="github.com", reason="the host is not on this attempt's list"),
            "it was",
        ),
    ],
)
def test_a_request_for_the_benchmark_is_found(repository: Repository, tmp_path: Path, line: str, observed: str) -> None:
    """Refused or not, by its address or by what the proxy found in its answer."""
    (finding,) = asked(repository, tmp_path, egress("/simple/torch/", allowed=True) + line)

    assert finding.kind is Sign.ANSWER
    assert finding.observed.startswith(observed)


def test_other_requests_are_nobodys_fault(repository: Repository, tmp_path: Path) -> None:
    """Refused for another reason, by a number, for what a header says; lines that are damaged or no requests."""
    lines = [
        egress("/simple/pytest/", allowed=True, status=200),
        egress("/repositories/1", host="api.github.com", reason=f"{OWN_NAME} ({BY_NUMBER})"),
        egress("/x", host="example.org", reason="the host is not on this attempt's list"),
        json.dumps({"kind": "call", "path": "/v1/messages", "message": "pytest-researchenv"}) + "\n",
        '{"kind": "egress", "path": "/simple/pytest-researchenv',
        "\n[... 12 bytes left out ...]\n",
        "[" * 100_000 + "\n",
        '{"kind": "egress"}\n[]\n1\n',
    ]

    assert asked(repository, tmp_path, "".join(lines).encode() + b"\xff\xfe\n") == ()


def test_what_is_listed_with_the_environment_counts_alone(repository: Repository, tmp_path: Path) -> None:
    """Where the requests themselves are gone; and each address once."""
    refused = ("GET pypi.org/simple/pytest-researchenv/", "CONNECT example.org", "and 3 more")

    assert [finding.field for finding in signs({}, repository, refused=refused).findings] == [refused[0]]
    line = egress("/simple/pytest-researchenv/", reason=f"{OWN_NAME} (pytest-researchenv)")
    assert len(asked(repository, tmp_path, line * 3, refused)) == 1


def test_many_requests_are_few_findings(repository: Repository, tmp_path: Path) -> None:
    """The rest is counted."""
    lines = "".join(egress(f"/simple/pytest-researchenv/{number}") for number in range(50))

    found = asked(repository, tmp_path, lines)

    assert len(found) == 6
    assert found[-1].observed == "45 more requests"


def test_without_records_nothing_is_missed_in_silence(repository: Repository, tmp_path: Path) -> None:
    """A file that is not there says nothing, and one that cannot be read is remarked."""
    folder = tmp_path / "attempt"
    folder.mkdir()
    assert signs({}, repository, records=folder) == Signs()

    (folder / "transcript.log").mkdir()
    assert "transcript.log cannot be read" in signs({}, repository, records=folder).remarks[0]
