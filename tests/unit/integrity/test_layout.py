"""Where an interpreter finds its code is worked out as Python's own start-up does it. No Docker."""

from __future__ import annotations

import pytest

from pytest_researchenv.integrity.layout import Layout, Manager, NoLayout, layout_of
from pytest_researchenv.integrity.pth import NamespaceLine, namespace, paths_only, split
from pytest_researchenv.model import SelfReport
from pytest_researchenv.sandbox.fake import Folder, Link
from tests.unit.integrity.images import SITE, VENV, Nodes, opened_image, python_elf


def layout(nodes: Nodes, python: str = "/usr/bin/python3") -> Layout:
    """What an image's interpreter would use."""
    with opened_image(nodes, python=python) as (task, snapshot):
        found = layout_of(task, snapshot)
    assert isinstance(found, Layout), found
    return found


def no_layout(nodes: Nodes, python: str = "/opt/x/python") -> NoLayout:
    """Why an image has no interpreter."""
    with opened_image(nodes, python=python) as (task, snapshot):
        found = layout_of(task, snapshot)
    assert isinstance(found, NoLayout), found
    return found


LOCAL, SHARED = "/usr/local/lib/python3.11/dist-packages", "/usr/lib/python3/dist-packages"
STDLIB = ("/usr/lib/python311.zip", "/usr/lib/python3.11", "/usr/lib/python3.11/lib-dynload")
USER = "/root/.local/lib/python3.11/site-packages"


def test_debians_own() -> None:
    """It looks in dist-packages, and runs from where the last link leads."""
    found = layout({})

    assert (found.binary, found.version, found.manager) == ("/usr/bin/python3.11", "3.11", Manager.SYSTEM)
    assert (found.prefix, found.base_prefix, found.config) == ("/usr", "/usr", "")
    assert found.path == (*STDLIB, LOCAL, SHARED)
    assert [pth.path for pth in found.pths] == [f"{SHARED}/distutils-precedence.pth"]
    assert found.user
    assert found.overrides == found.problems == ()


def test_roots_own_site_folder_comes_first() -> None:
    """When it is there."""
    assert layout({USER: Folder()}).sites == (USER, LOCAL, SHARED)


def test_a_virtual_environment_is_apart() -> None:
    """It has the standard library of the interpreter that made it, and no other packages."""
    found = layout({**VENV, USER: Folder()}, "/opt/venv/bin/python")

    assert (found.binary, found.manager) == ("/usr/bin/python3.11", Manager.VENV)
    assert (found.prefix, found.base_prefix) == ("/opt/venv", "/usr")
    assert found.path == (*STDLIB, SITE)
    assert not found.user


@pytest.mark.parametrize("line", ["include-system-site-packages = true\n", "Include-System-Site-Packages=TRUE\n", ""])
def test_a_virtual_environment_that_is_not_apart(line: str) -> None:
    """It looks in its own folder, then in the user's, then in the system's; Python does so when nothing is said."""
    found = layout({**VENV, USER: Folder(), "/opt/venv/pyvenv.cfg": f"home = /usr/bin\n{line}"}, "/opt/venv/bin/python")

    assert found.sites == (SITE, USER, LOCAL, SHARED)
    assert found.user


def test_a_copied_interpreter_is_found_by_its_configuration() -> None:
    """`venv --copies`: the standard library is where `home` says, even when another lies nearer."""
    nodes = {**VENV, "/opt/venv/bin/python3": python_elf(), "/opt/lib/python3.11/os.py": ""}
    found = layout(nodes, "/opt/venv/bin/python")

    assert found.binary == "/opt/venv/bin/python3"
    assert found.base_prefix == "/usr"


@pytest.mark.parametrize("end", ["\f", "\r", "\x1e", "\x85", "\u2028"])
def test_a_line_that_only_some_readers_end_is_a_problem(end: str) -> None:
    """Python's search for its library and `site` end lines in other places, so that each may see a home of its own."""
    config = f"x = 1{end}home = /usr/bin\nhome = /opt/evil/bin\n"

    assert layout({**VENV, "/opt/venv/pyvenv.cfg": config}, "/opt/venv/bin/python").overrides
    config = "home = /usr/bin\r\nversion = 3.11.2\r\n"
    assert not layout({**VENV, "/opt/venv/pyvenv.cfg": config}, "/opt/venv/bin/python").problems


@pytest.mark.parametrize(
    "nodes",
    [
        {"/opt/venv/pyvenv.cfg": "home = /proc/self/root/opt/evil/bin\n"},
        {"/opt/venv/pyvenv.cfg": Link("/proc/1/root/opt/evil.cfg")},
        {f"{SITE}/x.pth": "/proc/self/root/opt/evil\n"},
        {f"{SITE}/x.pth": "/opt/far\n", "/opt/far": Link("/proc/self/cwd")},
        {f"{SITE}/x.pth": Link("/dev/fd/3")},
        {"/usr/lib/python311.zip": Link("/sys/x")},
    ],
)
def test_a_way_through_the_kernels_folders_is_a_problem(nodes: Nodes) -> None:
    """From outside it leads nowhere, and in a process anywhere."""
    assert layout({**VENV, **nodes}, "/opt/venv/bin/python").problems


def test_what_path_lines_cost_is_bounded() -> None:
    """Each is a question to the engine, and they lie in any number of files."""
    folders: Nodes = {f"/opt/many/{number}": Folder() for number in range(200)}
    lines = "\n".join(folders)

    few = {f"{SITE}/{number:02}.pth": lines for number in range(1)}
    assert layout({**VENV, **folders, **few}, "/opt/venv/bin/python").problems == ()
    many = {**few, f"{SITE}/10.pth": lines, f"{SITE}/11.pth": lines}
    assert layout({**VENV, **folders, **many}, "/opt/venv/bin/python").problems == (
        ".pth files have more than 300 path lines",
    )


def test_an_interpreter_that_only_a_process_finds_is_forged() -> None:
    """A probe could start it, and nobody has seen it. One that is nowhere cannot be started."""
    assert no_layout({}, "/proc/self/root/usr/bin/python3").forged
    assert no_layout({"/opt/x/python": Link("/dev/fd/3")}).forged
    assert not no_layout({"/opt/x/python": Link("/opt/gone")}).forged


def test_a_way_that_leads_nowhere_is_none() -> None:
    """Folders are removed, and path lines stay."""
    nodes: Nodes = {f"{SITE}/x.pth": "/opt/gone\n", f"{SITE}/y.pth": Link("/opt/gone.pth")}

    assert not layout({**VENV, **nodes}, "/opt/venv/bin/python").problems


CONDA: Nodes = {
    "/opt/conda/bin/python": Link("python3.12"),
    "/opt/conda/bin/python3.12": python_elf("3.12"),
    "/opt/conda/lib/python3.12/os.py": "",
    "/opt/conda/lib/python3.12/site.py": "",
    "/opt/conda/lib/python3.12/site-packages": Folder(),
    "/opt/conda/conda-meta/history": "",
}


def test_conda_and_others() -> None:
    """Theirs is the folder above the one that holds them."""
    found = layout(CONDA, "/opt/conda/bin/python")

    assert (found.manager, found.version, found.prefix) == (Manager.CONDA, "3.12", "/opt/conda")
    assert found.path == (
        "/opt/conda/lib/python312.zip",
        "/opt/conda/lib/python3.12",
        "/opt/conda/lib/python3.12/site-packages",
    )
    plain = {path: node for path, node in CONDA.items() if "conda-meta" not in path}
    assert layout(plain, "/opt/conda/bin/python").manager is Manager.OTHER


def test_the_version_is_the_programs_not_its_names() -> None:
    """What lies in a folder of another version's name is not looked at."""
    nodes: Nodes = {**CONDA, "/opt/conda/lib/python3.11/os.py": "", "/opt/conda/bin/python": Link("python3.11")}
    found = layout({**nodes, "/opt/conda/bin/python3.11": python_elf("3.12")}, "/opt/conda/bin/python")

    assert found.version == "3.12"
    assert found.stdlib == ("/opt/conda/lib/python3.12",)


def test_a_build_without_the_global_lock_has_folders_of_its_own() -> None:
    """They end in a t."""
    nodes: Nodes = {
        "/opt/t/bin/python": Link("python3.13t"),
        "/opt/t/bin/python3.13t": python_elf("3.13"),
        "/opt/t/lib/python3.13t/os.py": "",
    }
    found = layout(nodes, "/opt/t/bin/python")

    assert (found.version, found.archive) == ("3.13", "/opt/t/lib/python313t.zip")
    assert found.stdlib == ("/opt/t/lib/python3.13t",)


@pytest.mark.parametrize(
    ("nodes", "base"),
    [
        ({"/usr/bin/lib/python3.11/os.py": ""}, "/usr/bin"),
        ({"/usr/bin/lib/python311.zip": ""}, "/usr/bin"),
        ({"/usr/lib/python311.zip": "", "/usr/bin/lib/python3.11/os.py": ""}, "/usr"),
    ],
)
def test_a_standard_library_that_lies_nearer_is_taken(nodes: Nodes, base: str) -> None:
    """An archive before a folder, as Python has it."""
    assert layout(nodes).base_prefix == base


@pytest.mark.parametrize(
    "path",
    ["/usr/bin/python3._pth", "/usr/bin/python3.11._pth", "/usr/bin/pybuilddir.txt", "/usr/bin/Modules/Setup.local"],
)
def test_what_replaces_pythons_search_is_named(path: str) -> None:
    """No installation for Linux has one."""
    assert layout({path: ""}).overrides == (path,)
    assert layout({**VENV, "/opt/venv/bin/pyvenv.cfg": ""}, "/opt/venv/bin/python").overrides == (
        "/opt/venv/bin/pyvenv.cfg",
    )


@pytest.mark.parametrize(
    "config",
    [
        "x = 1\u2028home = /usr/bin\nhome = /opt/bin\n",
        "x = 1\rhome = /usr/bin\n",
        "x\0\nhome = /usr/bin\n",
        "home = /usr/bin\nhome = /opt/bin\n",
        "home=/usr/bin\n",
        "home = usr/bin\n",
        "home = ../usr/bin\n",
        b"#" * 9_000_000,
    ],
)
def test_a_configuration_that_may_be_read_in_two_ways_is_named(config: str | bytes) -> None:
    """Parts and versions of Python end lines differently, and take another `home` of two."""
    found = layout({**VENV, "/opt/venv/pyvenv.cfg": config}, "/opt/venv/bin/python")

    assert found.overrides == ("/opt/venv/pyvenv.cfg",)


@pytest.mark.parametrize(
    "config", ["", "home = /usr/bin", "home = /usr/bin\r\nprompt = é\r\n", "\nhome = /usr/bin\n\n"]
)
def test_a_configuration_that_all_read_alike(config: str) -> None:
    """Ends of lines of other systems, empty lines and letters of any language are no tricks."""
    assert layout({**VENV, "/opt/venv/pyvenv.cfg": config}, "/opt/venv/bin/python").overrides == ()


@pytest.mark.parametrize(
    ("nodes", "python", "found"),
    [
        (
            {"/usr/bin/lib/python3.11/lib-dynload": Link("/usr/lib/python3.11/lib-dynload")},
            "/usr/bin/python3",
            "/usr/bin/lib/python3.11/lib-dynload",
        ),
        (
            {**VENV, "/usr/bin/lib/python3.11/lib-dynload": Folder()},
            "/opt/venv/bin/python",
            "/usr/bin/lib/python3.11/lib-dynload",
        ),
        (
            {
                **VENV,
                "/opt/venv/pyvenv.cfg": "home = /opt/base/bin\n",
                "/opt/base/bin/python3": Link("/usr/bin/python3.11"),
                "/opt/base/lib/python3.11/lib-dynload": Folder(),
            },
            "/opt/venv/bin/python",
            "/opt/base/lib/python3.11/lib-dynload",
        ),
    ],
)
def test_compiled_modules_lie_beside_their_sources(nodes: Nodes, python: str, found: str) -> None:
    """Python searches for both apart, and takes what is above them for a prefix with site folders of its own."""
    assert found in layout(nodes, python).overrides


def test_a_home_that_is_too_deep_is_told() -> None:
    """Python looks in each folder above it."""
    nodes = {**VENV, "/opt/venv/pyvenv.cfg": f"home = /opt{'/a' * 50}/bin\n", "/opt/lib/python3.11/os.py": ""}

    assert layout(nodes, "/opt/venv/bin/python").problems


def test_a_home_need_not_be_text() -> None:
    """Python takes the bytes that are there."""
    nodes = {
        **VENV,
        "/opt/venv/pyvenv.cfg": b"home = /opt/\xff/bin\n",
        "/opt/\udcff/bin": Folder(),
        "/opt/\udcff/lib/python3.11/os.py": "",
    }

    assert layout(nodes, "/opt/venv/bin/python").base_prefix == "/opt/\udcff"


def test_path_files_are_read_in_order() -> None:
    """By name, in each site folder; what they add comes right after that."""
    nodes = {
        **VENV,
        f"{SITE}/b.pth": "../../../src\n/opt/missing\n# /opt/other\n\nimport os; os.x = 1\n",
        f"{SITE}/a.pth": "/opt/other\n/opt/other/../other\n",
        f"{SITE}/c.txt": "/opt/missing\n",
        f"{SITE}/package/d.pth": "/opt\n",
        "/opt/venv/src": Folder(),
        "/opt/other": Folder(),
    }
    found = layout(nodes, "/opt/venv/bin/python")

    assert [(pth.path, pth.folders, pth.imports) for pth in found.pths] == [
        (f"{SITE}/a.pth", ("/opt/other",), ()),
        (f"{SITE}/b.pth", ("/opt/venv/src",), ("import os; os.x = 1",)),
    ]
    assert found.path[-3:] == (SITE, "/opt/other", "/opt/venv/src")


def test_a_path_file_may_be_a_link() -> None:
    """It is read where it leads, and named where Python finds it. One that leads nowhere is none."""
    nodes = {
        **VENV,
        f"{SITE}/a.pth": Link("/opt/a"),
        f"{SITE}/b.pth": Link("/nowhere"),
        f"{SITE}/c.pth": Link("c.pth"),
        f"{SITE}/d.pth": Folder(),
        "/opt/a": "import a\n",
    }
    (found,) = layout(nodes, "/opt/venv/bin/python").pths

    assert (found.path, found.imports) == (f"{SITE}/a.pth", ("import a",))


def test_too_many_path_files_are_no_way_to_hide_one() -> None:
    """Then it is said that not all were read."""
    many = {f"{SITE}/{number:04}.pth": "" for number in range(600)}
    assert layout({**VENV, **many}, "/opt/venv/bin/python").problems
    assert layout({**VENV, f"{SITE}/a.pth": "/opt\n/x\n" * 200_000}, "/opt/venv/bin/python").problems == ()
    lines = "".join(f"/x{number}\n" for number in range(1000))
    assert layout({**VENV, f"{SITE}/a.pth": lines}, "/opt/venv/bin/python").problems


@pytest.mark.parametrize(
    ("nodes", "forged"),
    [
        ({}, False),
        ({"/opt/x/python": Folder()}, False),
        ({"/opt/x/python": Link("python")}, False),
        ({"/opt/x/python": Link("../x")}, False),
        ({"/opt/x/python": "#!/bin/sh\nexec /usr/bin/python3\n"}, True),
        ({"/opt/x/python": Link("wrapper"), "/opt/x/wrapper": "#!/usr/bin/env python3\n"}, True),
        ({"/opt/x/python": b"\x7fELF"}, True),
        ({"/opt/x/python": b"\x7fELF\x02\x01\x01" + b"\xff" * 4000}, True),
        ({"/opt/x/python": b""}, True),
        ({"/opt/x/python": python_elf("3.14")}, True),
        ({"/opt/x/bin/python": "", "/opt/x/python": python_elf(), "/opt/pyvenv.cfg": "home = /" + "a/" * 90_000}, None),
    ],
)
def test_what_is_no_interpreter(nodes: Nodes, forged: bool | None) -> None:  # noqa: FBT001 - a parameter of the test
    """Something that is none is told from nothing at all, for which nobody can be accused."""
    if forged is None:
        assert layout(nodes, "/opt/x/python").base_prefix == "/usr"
    else:
        assert no_layout(nodes).forged is forged


@pytest.mark.parametrize("python", [None, "", "python3", "relative/python"])
def test_no_reported_interpreter(python: str | None) -> None:
    """There is nothing to look at."""
    report = SelfReport(python_path=python)
    with opened_image({}, report=report) as (task, snapshot):
        found = layout_of(task, snapshot)

    assert isinstance(found, NoLayout)
    assert not found.forged


# --- lines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import os\n",
        "import\tos\n",
        "\ufeffimport os\n",
        "/opt\x0bimport os\n",
        "/opt\rimport os\r\n",
        "/opt\x85import os",
        "#\u2028import os",
    ],
)
def test_whatever_some_version_runs_counts_as_run(text: str) -> None:
    """And nothing of it is left, however it is read."""
    _, imports = split(text, "/site", lambda _: True)

    assert len(imports) == 1
    assert split(paths_only(text), "/site", lambda _: True)[1] == ()
    assert "import" not in paths_only(text)


def test_other_lines_stay() -> None:
    """Paths, and what only looks like code."""
    text = "/opt/a\n  import os\nimportant\n# import os\n./rel/../b\nimport os\n"

    assert split(text, "/site", lambda _: True) == (
        ("/opt/a", "/site/  import os", "/site/important", "/site/b"),
        ("import os",),
    )
    assert paths_only(text) == "/opt/a\n  import os\nimportant\n# import os\n./rel/../b\n"


NAMESPACES = [
    (
        "import sys, types, os;has_mfs = sys.version_info > (3, 5);"
        "p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('google',));"
        "importlib = has_mfs and __import__('importlib.util');"
        "has_mfs and __import__('importlib.machinery');"
        "m = has_mfs and sys.modules.setdefault('google', importlib.util.module_from_spec("
        "importlib.machinery.PathFinder.find_spec('google', [os.path.dirname(p)])));"
        "m = m or sys.modules.setdefault('google', types.ModuleType('google'));"
        "mp = (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p)"
    ),
    (
        "import sys, types, os;p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('google', 'cloud'));"
        "importlib = __import__('importlib.util');__import__('importlib.machinery');"
        "m = sys.modules.setdefault('google.cloud', importlib.util.module_from_spec("
        "importlib.machinery.PathFinder.find_spec('google.cloud', [os.path.dirname(p)])));"
        "m = m or sys.modules.setdefault('google.cloud', types.ModuleType('google.cloud'));"
        "mp = (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p);"
        "m and setattr(sys.modules['google'], 'cloud', m)"
    ),
]


def test_setuptools_namespace_packages_are_known() -> None:
    """In the forms that it has had since version 40."""
    assert [namespace(line) for line in NAMESPACES] == [
        NamespaceLine(("google",), ""),
        NamespaceLine(("google", "cloud"), ""),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("*('google',)", "*('torch',)"),
        ("setdefault('google', importlib", "setdefault('torch', importlib"),
        ("types.ModuleType('google')", "types.ModuleType('torch')"),
        ("mp.append(p)", "mp.append(p);import evil"),
        ("import sys, types, os;", "import sys, types, os;import evil;"),
        ("sys._getframe(1).f_locals['sitedir']", "'/a' + exec('evil')"),
    ],
)
def test_a_changed_namespace_line_is_code(before: str, after: str) -> None:
    """Every name in it is the same, and nothing is added."""
    assert before in NAMESPACES[0]
    assert namespace(NAMESPACES[0].replace(before, after, 1)) is None
