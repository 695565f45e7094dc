"""Modules that builders of editable installs write are known by their text, whatever project they are of."""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity import editable
from pytest_researchenv.integrity.editable import generated_doubt, is_generated


#: As setuptools 64 to 65.1 write it, the shortest of all.
FINDER = """\
import sys
from importlib.machinery import ModuleSpec
from importlib.machinery import all_suffixes as module_suffixes
from importlib.util import spec_from_file_location
from itertools import chain
from pathlib import Path

MAPPING = {'project': '/opt/project/project'}
NAMESPACES = {}
PATH_PLACEHOLDER = '__editable__.project-1.finder' + ".__path_hook__"


class _EditableFinder:  # MetaPathFinder
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return spec_from_file_location(fullname, Path(MAPPING[fullname]))


def install():
    sys.meta_path.append(_EditableFinder)
"""
#: As setuptools 80 writes it.
LATER = (
    FINDER.partition("\n\n\nclass")[0].replace("ModuleSpec\n", "ModuleSpec, PathFinder\n")
    + """


class _EditableFinder:  # MetaPathFinder
    @classmethod
    def find_spec(cls, fullname: str, path=None, target=None) -> ModuleSpec | None:  # type: ignore
        if fullname in MAPPING:
            pkg_path = MAPPING[fullname]
            return cls._find_spec(fullname, Path(pkg_path))
        parent, _, child = fullname.rpartition(".")
        if parent and parent in MAPPING:
            return PathFinder.find_spec(fullname, path=[MAPPING[parent]])
        return None

    @classmethod
    def _find_spec(cls, fullname: str, candidate_path: Path) -> ModuleSpec | None:
        init = candidate_path / "__init__.py"
        candidates = (candidate_path.with_suffix(x) for x in module_suffixes())
        for candidate in chain([init], candidates):
            if candidate.exists():
                return spec_from_file_location(fullname, candidate)
        return None


class _EditableNamespaceFinder:  # PathEntryFinder
    @classmethod
    def _path_hook(cls, path) -> type[_EditableNamespaceFinder]:
        if path == PATH_PLACEHOLDER:
            return cls
        raise ImportError

    @classmethod
    def _paths(cls, fullname: str) -> list[str]:
        paths = NAMESPACES[fullname]
        if not paths and fullname in MAPPING:
            paths = [MAPPING[fullname]]
        return [*paths, PATH_PLACEHOLDER]

    @classmethod
    def find_spec(cls, fullname: str, target=None) -> ModuleSpec | None:  # type: ignore
        if fullname in NAMESPACES:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = cls._paths(fullname)
            return spec
        return None

    @classmethod
    def find_module(cls, _fullname) -> None:
        return None


def install():
    if not any(finder == _EditableFinder for finder in sys.meta_path):
        sys.meta_path.append(_EditableFinder)
    if not NAMESPACES:
        return
    if not any(hook == _EditableNamespaceFinder._path_hook for hook in sys.path_hooks):
        sys.path_hooks.append(_EditableNamespaceFinder._path_hook)
    if PATH_PLACEHOLDER not in sys.path:
        sys.path.append(PATH_PLACEHOLDER)  # Used just to trigger the path hook
"""
)
REDIRECT = """\
import subprocess
import sys


def install(modules, build):
    sys.meta_path.insert(0, modules)
"""
INSERT = "    sys.meta_path.insert(0, finder)\n    sys.path_hooks.insert(0, finder._path_hook)"
EDITABLES = """\
from editables.redirector import RedirectingFinder as F
F.install()
F.map_module('project', '/opt/project/src/project/__init__.py')
"""


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the texts of this file be known ones."""
    bare = FINDER.replace("{'project': '/opt/project/project'}", "").replace("= {}", "= ")
    bare = bare.replace("'__editable__.project-1.finder'", "")
    monkeypatch.setattr(editable, "_FINDERS", frozenset({editable._digest(bare)}))
    monkeypatch.setattr(editable, "_REDIRECTS", frozenset({editable._digest(REDIRECT)}))


@pytest.mark.parametrize(
    "source",
    [
        FINDER,
        FINDER.replace("NAMESPACES = {}", "NAMESPACES = {'space': ['/opt/a', '/opt/b']}"),
        FINDER.replace("'project': ", "'json': ").replace("project-1", "other-2"),
        f"{REDIRECT}\ninstall({{'project': '/opt/project/project.py'}}, ['-v'])\n",
        f"{REDIRECT}\ninstall(\n    {{'project', 'other'}},\n    ['/usr/bin/ninja'],\n)",
        f"{REDIRECT}\ndef init():\n    finder = MesonpyMetaFinder(\n        'x',\n        {{'x'}},\n    )\n{INSERT}\n",
        f"{REDIRECT}\ndef entrypoint() -> None:\n    install({{}}, None)\n",
        EDITABLES,
    ],
)
def test_what_builders_write(source: str) -> None:
    """Literals of any kind, and nothing else that differs."""
    assert generated_doubt(source.encode()) == ""


@pytest.mark.parametrize(
    "source",
    [
        FINDER + "import posix\n",
        FINDER.replace("NAMESPACES = {}", "NAMESPACES = {}; import posix"),
        FINDER.replace("NAMESPACES = {}", "NAMESPACES = {}\rimport posix"),
        FINDER.replace("NAMESPACES = {}", "NAMESPACES = __import__('posix')"),
        FINDER.replace("'project': ", "__import__('posix'): "),
        f"{REDIRECT}\ninstall(__import__('posix'))\n",
        f"{REDIRECT}\ninstall('') or __import__('posix').execv('', '')\n",
        f"{REDIRECT}\ninstall('');__import__('posix')\n",
        f"{REDIRECT}\ndef init():\n    finder = MesonpyMetaFinder('x')\n{INSERT}\n    import posix\n",
        EDITABLES + "import posix\n",
        EDITABLES.replace("'project'", "__import__('posix')"),
        "from importlib.machinery import FileFinder\nspec.loader.exec_module(1)\n",
        "import sys\nsys.meta_path.insert(0, 1)\n",
        "no Python",
        FINDER.replace("'__editable__", "'/opt/__editable__"),
    ],
)
def test_what_was_edited(source: str) -> None:
    """No place in the text takes code."""
    assert generated_doubt(source.encode())


@pytest.mark.parametrize("name", ["apport_python_hook", "sitecustomize", "usercustomize"])
def test_names_that_are_tried_at_start(name: str) -> None:
    """A finder that has one of those has code run at every start, whatever its own text is."""
    for source in (
        FINDER.replace("'project'", f"'{name}'"),
        FINDER.replace("'project'", f"'{name}'").replace("Path(", "str("),
        f"{REDIRECT}\ninstall({{'{name}': '/opt/x.py'}})\n",
        EDITABLES.replace("'project'", f"'{name}'"),
    ):
        assert generated_doubt(source.encode())


def test_a_finder_that_is_asked_first_has_no_names_of_others() -> None:
    """One that is asked last cannot come before the standard library."""
    redirect = f"{REDIRECT}\ninstall({{'json': '/opt/x.py'}})\n"

    assert generated_doubt(redirect.encode(), lambda name: name == "json") == "it leads to a json of its own"
    assert generated_doubt(FINDER.replace("'project'", "'json'").encode(), lambda name: name == "json") == ""


def test_a_later_version_is_neither_known_nor_strange() -> None:
    """It uses what the known ones do."""
    assert generated_doubt(FINDER.replace("MetaPathFinder", "a finder").encode()) is None
    more = FINDER.replace("import sys\n", "from __future__ import annotations\nimport sys\n")
    assert generated_doubt(more.encode()) is None
    assert generated_doubt(b"\xff") == "it is no text"
    assert generated_doubt(b"#" * 2_000_000) == "it has 2000000 letters"


@pytest.mark.parametrize(
    "line",
    [
        "import os; os.system('x')",
        "import sys as _; _.modules",
        "from pathlib import os",
        "sys.modules['posix'].system('x')",
        "sys.path.append('/opt')",
        "sys.path[:0] = ['/opt']",
        "sys.path += ['/opt']",
        "sys.settrace(install)",
        "Path('/a').replace('/b')",
        "Path('/a').write_text('x')",
        "__builtins__['len'] = install",
        "getattr(sys, 'modules')",
        "install.__globals__",
        "x = lambda: 1",
        "MAPPING = {}",
        "MAPPING = dict(x=1)",
        "def more(MAPPING='/opt/x'): ...",
    ],
)
def test_a_later_version_has_no_other_words(line: str) -> None:
    """Whatever runs something, moves something or is found first would be one."""
    later = FINDER.replace("MetaPathFinder", "a finder")

    assert str(generated_doubt(f"{later}{line}\n".encode())).startswith("it uses ")


@pytest.mark.parametrize("line", ["\ninstall(", "\ndef init():\n    finder = MesonpyMetaFinder("])
def test_beginnings_of_calls_are_looked_at_once(line: str) -> None:
    """To look for each one's end would take minutes."""
    assert generated_doubt((line * (900_000 // len(line))).encode()) == "it is no Python source"


def test_what_setuptools_writes_is_made_of_the_known_words() -> None:
    """The longest of its texts, which is none of those that are known here."""
    assert generated_doubt(LATER.encode()) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("__editable___project_1_finder", True),
        ("_editable_impl_project", True),
        ("_editable_skbc_project", True),
        ("_project_editable", True),
        ("_project_editable_loader", True),
        ("_project", False),
        ("project", False),
    ],
)
def test_names_of_builders(name: str, *, known: bool) -> None:
    """Those that hardly anybody else gives."""
    assert is_generated(name) is known
