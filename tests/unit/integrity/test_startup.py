"""Start-up code that distributions bring is believed where somebody published it, and not their RECORD. No Docker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.integrity import editable, startup
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import PathSource, Repository, Sign
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.hooked import NAMESPACE
from tests.unit.integrity.images import DEBIAN, SITE, WORKDIR, Nodes, distribution, md5, python_elf
from tests.unit.integrity.sites import Index, audited, kinds


USER = "/root/.local/lib/python3.11/site-packages"
LINE = "import os; exec('import tidy')\n"
FILES: dict[str, bytes | str] = {"tidy.pth": LINE, "tidy/__init__.py": "A = 1\n", "tidy/more.py": "B = 2\n"}
PTH = f"{SITE}/tidy.pth"


def hashes(files: Mapping[str, bytes | str]) -> dict[str, str]:
    """Path → SHA-256."""
    raw = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
    return {path: hashlib.sha256(content).hexdigest() for path, content in raw.items()}


def wheels(**distributions: Mapping[str, bytes | str]) -> Index:
    """An index of the wheels of some distributions, by their names and files."""
    found = {}
    for name, files in distributions.items():
        about = f"{name}-1.0.dist-info/WHEEL"
        found[name] = hashes({**files, about: distribution("", name, {})[f"/{about}"]})
    return Index(wheels=found)


def hooks(signs: Signs) -> list[str]:
    """What start-up hooks are about."""
    return [finding.field for finding in signs.findings if finding.kind is Sign.HOOK]


def direct(url: str, name: str = "tidy", **info: object) -> Nodes:
    """The note that pip leaves of what came from elsewhere than an index."""
    return {f"{SITE}/{name}-1.0.dist-info/direct_url.json": json.dumps({"url": url, **info})}


# --- files that run ---------------------------------------------------------------------------------------


def test_a_listed_line_that_takes_the_name_of_another_module(tmp_path: Path) -> None:
    """A RECORD that has it says no more than for any other line that runs; for a name of nobody else's it need not."""
    taking, own = (
        distribution(SITE, "tidy", {**FILES, "tidy.pth": NAMESPACE.replace("google", name), f"{name}/part.py": ""})
        for name in ("urllib", "google")
    )

    assert hooks(audited(tmp_path, taking, published=wheels(tidy=FILES))) == [PTH]
    assert hooks(audited(tmp_path, own, published=wheels(tidy=FILES))) == []


def test_what_was_published_runs(tmp_path: Path) -> None:
    """Its file, and the package that it imports."""
    signs = audited(tmp_path, distribution(SITE, "tidy", FILES), published=wheels(tidy=FILES))

    assert (signs.findings, signs.blanked, signs.remarks) == ((), {}, ())


@pytest.mark.parametrize("text", ["/opt\n", "# import os\n", "import sys; sys.__plen = len(sys.path)\n"])
def test_what_is_harmless_needs_nobody(tmp_path: Path, text: str) -> None:
    """Paths, comments, and what easy_install wrote."""
    signs = audited(tmp_path, distribution(SITE, "tidy", {"tidy.pth": text}), published=Index())

    assert (hooks(signs), signs.blanked) == ([], {})


@pytest.mark.parametrize(
    "index",
    [
        Index(),
        wheels(tidy={**FILES, "tidy.pth": "import os\n"}),
        wheels(tidy={"tidy/__init__.py": "A = 1\n", "tidy/more.py": "B = 2\n"}),
    ],
)
def test_what_an_index_does_not_have_is_a_hook(tmp_path: Path, index: Index) -> None:
    """Neither the project, nor the file, nor this one of it. Paths in it stay."""
    files = {**FILES, "tidy.pth": f"/opt\n{LINE}"}
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=index)

    assert hooks(signs) == [PTH]
    assert signs.blanked == {PTH: "/opt\n"}


def test_what_only_one_reader_takes_for_listed_is_a_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One asks RECORDs for start-up code that nobody lists, and one distributions for what they list."""
    files = {"tidy.pth": LINE, "sitecustomize.py": LINE}
    digest = hashlib.sha256(LINE.encode()).hexdigest()
    monkeypatch.setattr(startup, "recorded", lambda _, site, paths: {path: {digest} for path in paths if site == SITE})

    signs = audited(tmp_path, {f"{SITE}/{name}": text for name, text in files.items()}, published=Index())

    assert hooks(signs) == [f"{SITE}/{name}" for name in files]
    assert signs.blanked == {f"{SITE}/{name}": "" for name in files}


def test_many_other_files_hide_none(tmp_path: Path) -> None:
    """As many as Python's own may be, and one more that is listed."""
    many = {f"{SITE}/a{number:03}.pth": "/opt\n" for number in range(450)}

    signs = audited(tmp_path, {**many, **distribution(SITE, "tidy", FILES)}, published=Index())

    assert hooks(signs) == [PTH]


@pytest.mark.parametrize("call", ["metadata.entry_points()", "pkg_resources.iter_entry_points('tidy')"])
def test_what_runs_the_plugins_of_others_is_taken_out_and_held_against_nobody(tmp_path: Path, call: str) -> None:
    """It was published, and what it runs may be anybody's."""
    files = {**FILES, "tidy/more.py": f"for point in {call}: point.load()\n"}
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=wheels(tidy=files))

    assert (signs.findings, signs.blanked) == ((), {PTH: ""})
    assert "entry points" in signs.remarks[0]


@pytest.mark.parametrize(
    "line", ["os.environ[name] = value", "os.environ.update(told)", "environ.setdefault('A', 'b')", "os.putenv(a, b)"]
)
def test_what_sets_variables_is_taken_out_and_held_against_nobody(tmp_path: Path, line: str) -> None:
    """It was published, and what it is told to set may be anybody's: others load what variables name."""
    files = {**FILES, "tidy/more.py": f"import os\n{line}\n"}
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=wheels(tidy=files))

    assert (signs.findings, signs.blanked) == ((), {PTH: ""})
    assert "sets variables" in signs.remarks[0]


@pytest.mark.parametrize("line", ["os.environ.get('A') == 'b'", "os.environ['A'] == 'b'", "environ['A']"])
def test_what_reads_variables_is_run(tmp_path: Path, line: str) -> None:
    """Most start-up code does: so it is told to do nothing."""
    files = {**FILES, "tidy/more.py": f"import os\n{line}\n"}
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=wheels(tidy=files))

    assert (signs.findings, signs.blanked) == ((), {})


def test_a_long_line_of_beginnings_is_read_once(tmp_path: Path) -> None:
    """To look for each one's end would take minutes."""
    files = {**FILES, "tidy/more.py": f"x = '{'environ[' * 60_000}'\n"}
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=wheels(tidy=files))

    assert (signs.findings, signs.blanked) == ((), {})
    files = {**FILES, "tidy/more.py": f"{'environ[' * 60_000}'a'] = 1\n"}
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=wheels(tidy=files))
    assert signs.blanked == {PTH: ""}


def test_a_version_that_no_index_has_is_a_hook(tmp_path: Path) -> None:
    """Its name alone is no witness."""
    signs = audited(tmp_path, distribution(SITE, "tidy", FILES, "2.0"), published=Index(names=("tidy",)))

    assert hooks(signs) == [PTH]


def test_a_wheel_for_another_machine_is_taken_out_and_held_against_nobody(tmp_path: Path) -> None:
    """The version is there, and nothing to compare with: it was built here."""
    signs = audited(tmp_path, distribution(SITE, "tidy", FILES), published=Index(names=("tidy",)))

    assert (signs.findings, signs.blanked) == ((), {PTH: ""})
    assert len(signs.remarks) == 1


def test_where_no_index_answers_the_record_is_believed(tmp_path: Path) -> None:
    """And it is said so."""
    signs = audited(tmp_path, distribution(SITE, "tidy", FILES), published=Index(complete=False))

    assert (signs.findings, signs.blanked) == ((), {})
    assert PTH in signs.remarks[0]


@pytest.mark.parametrize(
    "note",
    [
        direct("https://example.org/tidy", vcs_info={"vcs": "git"}),
        direct("https://example.org/tidy.whl", archive_info={}),
    ],
)
def test_what_came_from_elsewhere_is_taken_out_and_held_against_nobody(tmp_path: Path, note: Nodes) -> None:
    """No index has it."""
    signs = audited(tmp_path, {**distribution(SITE, "tidy", FILES), **note}, published=Index())

    assert (hooks(signs), signs.blanked) == ([], {PTH: ""})


def test_a_record_of_condas_is_one_where_conda_made_the_interpreter(tmp_path: Path) -> None:
    """Anybody can write it elsewhere."""
    files = distribution(SITE, "tidy", FILES)
    paths = [
        {"_path": path.removeprefix("/opt/venv/"), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]
    about = {"name": "tidy", "version": "1.0", "paths_data": {"paths": paths}}
    nodes: Nodes = {
        **files,
        "/opt/venv/conda-meta/history": "",
        "/opt/venv/conda-meta/tidy-1.0-0.json": json.dumps(about),
    }

    assert hooks(audited(tmp_path, nodes, published=Index())) == [PTH]


def test_modules_that_python_imports_at_start(tmp_path: Path) -> None:
    """A distribution of nobody's may list one as well."""
    path = f"{SITE}/sitecustomize.py"
    files = {"sitecustomize.py": "import os\n"}

    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=Index())
    assert (hooks(signs), signs.blanked) == ([path], {path: ""})
    signs = audited(tmp_path, distribution(SITE, "tidy", files), published=wheels(tidy=files))
    assert (hooks(signs), signs.blanked) == ([], {})


def test_start_files(tmp_path: Path) -> None:
    """Python 3.15 runs what they name."""
    site = "/opt/new/lib/python3.15/site-packages"
    base: Nodes = {"/opt/new/bin/python": python_elf("3.15"), "/opt/new/lib/python3.15/os.py": "", site: Folder()}
    nodes: Nodes = {**base, **distribution(site, "tidy", {"tidy.start": "tidy:main\n"})}

    signs = audited(tmp_path, nodes, python="/opt/new/bin/python", published=Index())
    assert (hooks(signs), signs.blanked) == ([f"{site}/tidy.start"], {f"{site}/tidy.start": ""})


# --- what they import -------------------------------------------------------------------------------------


def test_an_edited_package_that_start_up_code_imports_is_not_run(tmp_path: Path) -> None:
    """Its RECORD fits, and the index knows better."""
    edited = {**FILES, "tidy/more.py": "evil\n"}
    signs = audited(tmp_path, distribution(SITE, "tidy", edited), published=wheels(tidy=FILES))

    assert hooks(signs) == [PTH]
    assert kinds(signs) == {Sign.HOOK, Sign.DISTRIBUTION}
    assert signs.blanked == {PTH: ""}


def test_an_edited_package_is_known_by_its_record_too(tmp_path: Path) -> None:
    """No index is needed where RECORD was forgotten."""
    nodes: Nodes = {**distribution(SITE, "tidy", FILES), f"{SITE}/tidy/__init__.py": "evil\n"}
    signs = audited(tmp_path, nodes, published=Index(complete=False))

    assert hooks(signs) == [PTH]


def test_what_a_package_imports_in_its_turn_counts(tmp_path: Path) -> None:
    """At its own import: not what its functions do later."""
    first = {**FILES, "tidy/__init__.py": "try:\n    import other\nexcept ImportError:\n    pass\n"}
    later = {**FILES, "tidy/__init__.py": "def run():\n    import other\n"}
    other = distribution(SITE, "other", {"other.py": "evil\n"})
    for files, found in ((first, [PTH]), (later, [])):
        index = wheels(tidy=files, other={"other.py": "A = 1\n"})
        assert hooks(audited(tmp_path, {**distribution(SITE, "tidy", files), **other}, published=index)) == found


def test_a_module_of_nobodys_that_start_up_code_imports(tmp_path: Path) -> None:
    """A genuine line tries to import what need not be there."""
    files = {"tidy.pth": LINE}
    nodes: Nodes = {**distribution(SITE, "tidy", files), f"{SITE}/tidy.py": "evil\n"}

    assert hooks(audited(tmp_path, nodes, published=wheels(tidy=files))) == [PTH]


def test_a_module_elsewhere_that_start_up_code_imports(tmp_path: Path) -> None:
    """What looks like a project is one as far as imports go, and nobody published what runs at start there."""
    files = {"tidy.pth": LINE}
    nodes: Nodes = {
        **distribution(SITE, "tidy", files),
        f"{SITE}/paths.pth": "/opt/project\n",
        "/opt/project/pyproject.toml": "",
        "/opt/project/tidy.py": "evil\n",
    }

    assert hooks(audited(tmp_path, nodes, published=wheels(tidy=files))) == [PTH]


@pytest.mark.parametrize("name", ["tidy.py", "tidy/__init__.py", "tidy.abi3.so", "tidy/__init__.so", "tidy.pyc"])
def test_an_untracked_module_that_goes_before_an_installed_one(tmp_path: Path, name: str) -> None:
    """Probes put the repository's folder on PYTHONPATH, where it wants that."""
    nodes: Nodes = {**distribution(SITE, "tidy", FILES), f"{WORKDIR}/{name}": "evil\n"}
    repository = Repository("project", PathSource("unused"), root_on_path=True)

    signs = audited(tmp_path, nodes, published=wheels(tidy=FILES), repository=repository)
    assert hooks(signs) == [PTH]
    elsewhere: Nodes = {**distribution(SITE, "tidy", FILES), f"{WORKDIR}/more/{name}": "evil\n"}
    assert hooks(audited(tmp_path, elsewhere, published=wheels(tidy=FILES), repository=repository)) == []


def test_a_tracked_module_that_goes_before_an_installed_one(tmp_path: Path) -> None:
    """It is the repository's own."""
    repository = Repository("project", PathSource("unused"), root_on_path=True)

    signs = audited(
        tmp_path,
        distribution(SITE, "tidy", FILES),
        published=wheels(tidy=FILES),
        repository=repository,
        tracked={"tidy.py": "A = 1\n"},
    )
    assert hooks(signs) == []


def test_a_package_of_the_systems_that_its_own_path_file_imports(tmp_path: Path) -> None:
    """The base image's file is as it was, and what it imports is not."""
    site = "/usr/lib/python3/dist-packages"
    line, package = b"import os; __import__('hack').add()\n", b"def add(): ...\n"
    own = {f"{site}/hack.pth": line, f"{site}/hack/__init__.py": package}
    base: Nodes = {**DEBIAN, **own, "/var/lib/dpkg/info/python3-setuptools.md5sums": md5(*own.items())}
    python = "/usr/bin/python3"

    assert audited(tmp_path, {}, base=base, python=python).findings == ()
    signs = audited(tmp_path, {f"{site}/hack/__init__.py": "evil\n"}, base=base, python=python)
    assert hooks(signs) == [f"{site}/hack.pth"]
    assert signs.blanked == {f"{site}/hack.pth": ""}


@pytest.mark.parametrize(
    "name", ["_virtualenv/__init__.py", "_virtualenv.so", "_virtualenv.cpython-311-x86_64-linux-gnu.so", "_virtualenv"]
)
def test_what_python_prefers_to_virtualenvs_own_module(tmp_path: Path, name: str) -> None:
    """Packages and what is compiled; also in a folder that goes before."""
    pth, text = f"{SITE}/_virtualenv.pth", "import _virtualenv"
    honest: Nodes = {pth: text, f"{SITE}/_virtualenv.py": "A = 1\n", f"{SITE}/_virtualenv.pyc": b"x"}
    other: Nodes = {f"{SITE}/{name}": Link("/opt/x") if name == "_virtualenv" else b"evil", "/opt/x/__init__.py": ""}
    first: Nodes = {"/usr/lib/python3.11/_virtualenv.py": "evil"}

    assert (audited(tmp_path, honest).findings, audited(tmp_path, honest).blanked) == ((), {})
    for more in (other, first):
        signs = audited(tmp_path, {**honest, **more})
        assert (hooks(signs), signs.blanked) == ([pth], {pth: ""})


# --- editable installs ------------------------------------------------------------------------------------

FINDER = (
    "import sys\nMAPPING = {'project': '/opt/project/project'}\n\ndef install():\n    sys.meta_path.append(MAPPING)\n"
)
EDITABLE: dict[str, bytes | str] = {
    "__editable__.tidy-1.0.pth": "import __editable___tidy_1_0_finder; __editable___tidy_1_0_finder.install()",
    "__editable___tidy_1_0_finder.py": FINDER,
}
EDITABLE_PTH = f"{SITE}/__editable__.tidy-1.0.pth"
FOLDER = direct("file:///opt/project", dir_info={"editable": True})
PROJECT: Nodes = {
    "/opt/project/pyproject.toml": "",
    "/opt/project/.gitignore": "",
    "/opt/project/project/__init__.py": "",
}


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the finder of this file be a known one."""
    bare = FINDER.replace("{'project': '/opt/project/project'}", "")
    monkeypatch.setattr(editable, "_FINDERS", frozenset({editable._digest(bare)}))


@pytest.mark.usefixtures("_known")
def test_editable_installs_run_what_their_builder_wrote(tmp_path: Path) -> None:
    """It is in no wheel that anybody publishes, and known by its text."""
    nodes = {**distribution(SITE, "tidy", EDITABLE), **FOLDER, **PROJECT}
    signs = audited(tmp_path, nodes, published=Index())

    assert (signs.findings, signs.blanked, signs.remarks) == ((), {}, ())


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize("more", ["import posix\n", "import posix; posix.execv('', [])\n"])
def test_an_edited_finder_is_not_run(tmp_path: Path, more: str) -> None:
    """Whatever its RECORD says."""
    edited = {**EDITABLE, "__editable___tidy_1_0_finder.py": FINDER + more}
    signs = audited(tmp_path, {**distribution(SITE, "tidy", edited), **FOLDER, **PROJECT}, published=Index())

    assert hooks(signs) == [EDITABLE_PTH]
    assert kinds(signs) == {Sign.HOOK, Sign.DISTRIBUTION}
    assert signs.blanked == {EDITABLE_PTH: ""}


def test_a_finder_of_a_later_version_runs(tmp_path: Path) -> None:
    """It does nothing that the known ones do not, and a remark says so."""
    nodes = {**distribution(SITE, "tidy", EDITABLE), **FOLDER, **PROJECT}
    signs = audited(tmp_path, nodes, published=Index())

    assert (signs.findings, signs.blanked) == ((), {})
    assert "no known version" in signs.remarks[0]


def test_a_redirect_of_no_known_version_is_taken_out_and_held_against_nobody(tmp_path: Path) -> None:
    """Those run build tools, so that they could do anything; and every other version has another text."""
    files = {"_tidy_editable.pth": "import _tidy_editable\n", "_tidy_editable.py": "import subprocess\n"}
    nodes = {**distribution(SITE, "tidy", files), **FOLDER, **PROJECT}
    signs = audited(tmp_path, nodes, published=Index())

    assert (signs.findings, signs.blanked) == ((), {f"{SITE}/_tidy_editable.pth": ""})
    assert "not run in probes" in signs.remarks[0]


# --- entry points -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["torch.backends", "jax_plugins", "pytest11", "numba_extensions"])
def test_plugins_of_nobodys_are_not_loaded(tmp_path: Path, group: str) -> None:
    """Whatever imports a framework, or starts pytest, would run them; a maker's name is no witness."""
    files = {"torch_npu.py": "evil\n"}
    path = f"{SITE}/torch_npu-1.0.dist-info/entry_points.txt"
    nodes: Nodes = {**distribution(SITE, "torch_npu", files), path: f"[{group}]\nx = torch_npu:load\n"}

    signs = audited(tmp_path, nodes, published=Index())
    assert hooks(signs) == [path]
    assert signs.blanked == {path: ""}
    index = Index(wheels={"torch-npu": wheels(torch_npu=files).wheels["torch_npu"]})
    assert hooks(audited(tmp_path, nodes, published=index)) == []


def test_entry_points_of_a_published_distribution_lead_to_what_was_published(tmp_path: Path) -> None:
    """To a module that nobody has they were edited to lead; also those of the base image."""
    files = {"plug.py": "P = 1\n"}
    installed, index = distribution(SITE, "plug", files), wheels(plug=files)
    path = f"{SITE}/plug-1.0.dist-info/entry_points.txt"
    evil: Nodes = {path: "[pytest11]\nx = evil:load\n", f"{SITE}/evil.py": "evil\n"}

    assert hooks(audited(tmp_path, {**installed, path: "[pytest11]\nx = plug:load\n"}, published=index)) == []
    assert hooks(audited(tmp_path, {**installed, **evil}, published=index)) == [path]
    assert hooks(audited(tmp_path, evil, base=installed, published=index)) == [path]


def test_a_backend_of_which_nothing_is_known_is_not_loaded(tmp_path: Path) -> None:
    """It has the name and version of a maker's, and was made for another machine than the maker's are."""
    path = f"{SITE}/torch_npu-1.0.dist-info/entry_points.txt"
    nodes: Nodes = {
        **distribution(SITE, "torch_npu", {"torch_npu.py": "evil\n"}),
        path: "[torch.backends]\nx = torch_npu:x\n",
    }

    signs = audited(tmp_path, nodes, published=Index(names=("torch-npu",)))
    assert (hooks(signs), signs.blanked) == ([], {path: ""})
