"""Code that runs before any program is found and blanked, unless somebody installed it. No Docker.

What path files run is tested in `test_pth.py`.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import replace

import pytest

from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import PathSource, Repository, Sign, Tier, TierSpec
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.hooked import found, signs
from tests.unit.integrity.images import DEBIAN, SITE, Nodes, distribution, python_elf


WORKDIR = "/workspace/project"
LOCAL = "/usr/local/lib/python3.11/dist-packages"
USER = "/root/.local/lib/python3.11/site-packages"

EDITABLE = "import __editable___x_finder; __editable___x_finder.install()\n"


@pytest.mark.parametrize(
    ("nodes", "python"),
    [
        ({}, "/opt/venv/bin/python"),
        ({}, "/usr/bin/python3"),
        ({f"{SITE}/paths.pth": "/opt\n# import os\n"}, "/opt/venv/bin/python"),
        (distribution(SITE, "coverage", {"a1_coverage.pth": "import sys; exec('x')\n"}), "/opt/venv/bin/python"),
        (
            distribution(SITE, "x", {"__editable__.x.pth": EDITABLE, "__editable___x_finder.py": ""}),
            "/opt/venv/bin/python",
        ),
        (distribution(SITE, "x", {"sitecustomize.py": "import x\n"}), "/opt/venv/bin/python"),
        (distribution(SITE, "x", {"sitecustomize/__init__.py": "import x\n"}), "/opt/venv/bin/python"),
        (distribution(LOCAL, "x", {"x.pth": "import x\n"}), "/usr/bin/python3"),
        ({"/etc/ld.so.preload": "\n  \n"}, "/usr/bin/python3"),
        ({"/etc/ld.so.preload": Link("/nowhere")}, "/usr/bin/python3"),
        ({f"{SITE}/usercustomize.py": "x", f"{LOCAL}/sitecustomize.py": "x"}, "/opt/venv/bin/python"),
        ({f"{WORKDIR}/sitecustomize.py": "x", "/opt/sitecustomize.py": "x"}, "/opt/venv/bin/python"),
        ({f"{SITE}/x.start": "x:main\n"}, "/opt/venv/bin/python"),
        ({f"{SITE}/easy-install.pth": "import sys; sys.__plen = len(sys.path)\n./x.egg\n"}, "/opt/venv/bin/python"),
    ],
)
def test_honest_start_up_code(nodes: Nodes, python: str) -> None:
    """What distributions list, what Python does not look at, and what has no effect."""
    assert signs(nodes, python) == Signs()


# --- the loader -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/opt/evil.so\n", "# nothing", b"\xff", "x" * 9_000_000])
def test_the_list_of_preloaded_libraries(text: str | bytes) -> None:
    """It is empty on every honest system, whatever is in it."""
    seen = signs({"/etc/ld.so.preload": text})

    assert found(seen) == ["/etc/ld.so.preload"]
    assert seen.blanked == {"/etc/ld.so.preload": ""}


def test_the_base_images_own_list_is_no_sign() -> None:
    """Its maker wanted that."""
    base = {**DEBIAN, "/etc/ld.so.preload": "/usr/lib/vendor.so\n"}

    assert signs({}, base=base) == Signs()
    assert found(signs({"/etc/ld.so.preload": "/opt/x.so\n"}, base=base)) == ["/etc/ld.so.preload"]


def test_what_is_blanked_is_named_without_links() -> None:
    """The engine puts a folder in the place of a link on the way."""
    moved: Nodes = {"/etc": Link("/real"), "/real/ld.so.preload": "/x.so"}
    nodes = {path: node for path, node in DEBIAN.items() if not path.startswith("/etc/")}
    assert signs(moved, base=nodes).blanked == {"/real/ld.so.preload": ""}


@pytest.mark.parametrize("path", ["/etc/ld.so.preload", f"{SITE}/sitecustomize.py", f"{SITE}/sitecustomize"])
def test_a_link_that_only_a_process_can_follow_is_a_hook(path: str) -> None:
    """What it leads to is nowhere to be seen. One that leads nowhere is nothing."""
    seen = signs({path: Link("/proc/self/root/opt/hook")})

    assert found(seen) == [path]
    assert seen.blanked == {path: ""}
    assert found(signs({path: Link("/opt/hook")})) == []


# --- modules that Python imports --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "sitecustomize.py",
        "sitecustomize.pyc",
        "sitecustomize.so",
        "sitecustomize.abi3.so",
        "sitecustomize.cpython-311-x86_64-linux-gnu.so",
    ],
)
@pytest.mark.parametrize("folder", [SITE, "/usr/lib/python3.11", "/usr/lib/python3.11/lib-dynload"])
def test_sitecustomize(name: str, folder: str) -> None:
    """In any form, wherever Python looks."""
    path = f"{folder}/{name}"
    seen = signs({path: "import evil\n"})

    assert found(seen) == [path]
    assert seen.blanked == {path: ""}


def test_sitecustomize_as_a_package() -> None:
    """A file stands in the place of its folder, so that no bytecode in it is found either. A link is one, too."""
    path = f"{SITE}/sitecustomize"
    folder: Nodes = {f"{path}/__init__.py": "x", f"{path}/__pycache__/__init__.cpython-311.pyc": b"x"}
    link: Nodes = {path: Link("/opt/hook"), "/opt/hook/__init__.py": "x"}
    for nodes in (folder, link):
        seen = signs(nodes)
        assert found(seen) == [path]
        assert seen.blanked == {path: ""}


def test_debians_own_sitecustomize_is_a_link_whose_target_is_looked_at() -> None:
    """The link in the standard library stays the same."""
    path = "/usr/lib/python3.11/sitecustomize.py"
    elsewhere: Nodes = {path: Link("/opt/x"), "/opt/x": "evil"}
    changed: list[Nodes] = [{"/etc/python3.11/sitecustomize.py": "evil"}, {path: "evil"}, elsewhere]
    for nodes in changed:
        seen = signs(nodes)
        assert found(seen) == [path]
        assert seen.blanked == {path: ""}


@pytest.mark.parametrize("folder", [SITE, LOCAL, USER])
def test_what_debians_sitecustomize_imports(folder: str) -> None:
    """It is a hook by another name."""
    path = f"{folder}/apport_python_hook.py"
    python = "/opt/venv/bin/python" if folder == SITE else "/usr/bin/python3"

    assert found(signs({path: "evil"}, python)) == [path]


def test_usercustomize_counts_where_python_imports_it() -> None:
    """Not in a virtual environment that is apart."""
    nodes = {f"{USER}/usercustomize.py": "evil"}

    assert found(signs(nodes, "/usr/bin/python3")) == [f"{USER}/usercustomize.py"]
    assert signs(nodes) == Signs()
    shared = {**nodes, "/opt/venv/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = true\n"}
    assert found(signs(shared)) == [f"{USER}/usercustomize.py"]


def test_bytecode_beside_a_start_up_module_is_blanked() -> None:
    """It could be anything's; Python itself leaves it there, so that it is no sign."""
    cached = "/usr/lib/python3.11/__pycache__/sitecustomize.cpython-311.pyc"
    path = f"{SITE}/sitecustomize.py"

    assert signs({cached: b"x"}) == Signs(blanked={cached: ""})
    seen = signs({path: "evil", f"{SITE}/__pycache__/sitecustomize.cpython-311.opt-1.pyc": b"x"})
    assert found(seen) == [path]
    assert len(seen.blanked) == 2


def test_bytecode_that_is_never_checked_is_a_sign() -> None:
    """Nobody has start-up code that no longer depends on its source."""
    unchecked = b"\xa7\x0d\r\n\1\0\0\0" + bytes(8)
    cached = "/usr/lib/python3.11/__pycache__/sitecustomize.cpython-311.pyc"
    seen = signs({cached: unchecked})

    assert found(seen) == [cached]
    assert seen.blanked == {cached: ""}


def test_a_listed_module_that_was_edited() -> None:
    """Its distribution lists another."""
    nodes = distribution(SITE, "x", {"sitecustomize.py": "import x\n"})
    path = f"{SITE}/sitecustomize.py"

    assert found(signs({**nodes, path: "import evil\n"})) == [path]


def test_folders_that_path_files_add_are_looked_into() -> None:
    """And archives: an egg on the path holds modules."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("sitecustomize.py", "evil")
    harmless = io.BytesIO()
    with zipfile.ZipFile(harmless, "w") as archive:
        archive.writestr("package/sitecustomize.py", "")
    nodes: Nodes = {
        f"{SITE}/x.pth": "/opt/src\n/opt/a.egg\n/opt/b.egg\n/opt/c.egg\n",
        "/opt/src/sitecustomize.py": "evil",
        "/opt/a.egg": packed.getvalue(),
        "/opt/b.egg": harmless.getvalue(),
        "/opt/c.egg": b"PK\x05\x06 broken",
    }
    seen = signs(nodes)

    assert found(seen) == ["/opt/src/sitecustomize.py", "/opt/a.egg"]
    assert seen.blanked == {"/opt/src/sitecustomize.py": "", "/opt/a.egg": ""}


@pytest.mark.parametrize("name", ["sitecustomize.py", "sitecustomize.so", "sitecustomize/__init__.py"])
def test_the_root_folder_may_be_on_the_path(name: str) -> None:
    """Its path ends with the slash that others have after theirs."""
    path = "/" + name.removesuffix("/__init__.py")
    seen = signs({f"{SITE}/x.pth": "/\n", f"/{name}": "evil"})

    assert (found(seen), seen.blanked) == ([path], {path: ""})


@pytest.mark.parametrize(("group", "found_"), [("torch.backends", ["/opt/a.egg"]), ("console_scripts", [])])
def test_an_archive_with_an_entry_point_of_a_framework(group: str, found_: list[str]) -> None:
    """Python reads metadata in archives on its path, too."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("EGG-INFO/entry_points.txt", f"[{group}]\nx = evil:run\n")

    assert found(signs({f"{SITE}/x.pth": "/opt/a.egg\n", "/opt/a.egg": packed.getvalue()})) == found_


def test_an_archive_too_large_to_be_searched_is_not_used() -> None:
    """No honest egg is."""
    assert found(signs({f"{SITE}/x.pth": "/opt/a.egg\n", "/opt/a.egg": bytes(17 * 1024**2)})) == ["/opt/a.egg"]


def test_the_repository_is_looked_into_where_it_is_on_the_path() -> None:
    """A tracked file is the repository's own."""
    path = f"{WORKDIR}/sitecustomize.py"
    plain = Repository("project", PathSource("unused"))
    rooted = replace(plain, root_on_path=True)
    tier = TierSpec(argv=("x",), timeout_s=1, environment={"PYTHONPATH": "{repo}/src:{repo}"})
    asked = replace(plain, tiers={Tier.C1: tier})

    assert found(signs({path: "evil"}, repository=rooted)) == [path]
    assert found(signs({path: "evil"}, repository=asked)) == [path]
    assert signs({path: "evil"}, repository=plain) == Signs()
    assert signs({}, repository=rooted, tracked={"sitecustomize.py": "theirs"}) == Signs()


def test_thousands_of_start_up_modules_are_no_way_to_hide_one() -> None:
    """Then nothing of the environment can be believed."""
    seen = signs({f"{SITE}/sitecustomize.cpython-{number}-x.so": "x" for number in range(2000)})

    assert Sign.UNREADABLE in {finding.kind for finding in seen.findings}
    assert len(seen.findings) < 60


# --- variables --------------------------------------------------------------------------------------------


def state(**variables: object) -> Nodes:
    """What `conda env config vars set` leaves."""
    return {"/opt/venv/conda-meta/state": json.dumps({"env_vars": variables})}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/opt/x.so"),
        ("LD_AUDIT", "/opt/x.so"),
        ("PYTHONSTARTUP", "/opt/x.py"),
        ("PYTHONHOME", "/opt"),
        ("BASH_ENV", "/opt/x.sh"),
        ("NODE_OPTIONS", "--max-old-space-size=9 --require /opt/x.js"),
        ("CUDA_INJECTION64_PATH", "/opt/x.so"),
        ("COVERAGE_PROCESS_START", "/opt/rc"),
    ],
)
def test_variables_that_run_code(name: str, value: str) -> None:
    """Probes do not set them, so that nothing has to be blanked."""
    seen = signs(state(**{name: value, "OMP_NUM_THREADS": "4"}))

    assert found(seen) == ["/opt/venv/conda-meta/state"]
    assert seen.findings[0].observed.startswith(f"{name}={value[:20]}")
    assert seen.blanked == {}


def test_variables_that_only_say_where_things_are() -> None:
    """Of conda they are asked for in good faith, and not given; what conda did not make has no such record."""
    asked = state(LD_LIBRARY_PATH="/opt/lib", PYTHONPATH="/opt", NODE_OPTIONS="--max-old-space-size=9", X="1")
    digest = hashlib.sha256(python_elf()).hexdigest()
    paths = {"paths_data": {"paths": [{"_path": "bin/python3", "sha256": digest}]}}
    record: Nodes = {
        "/opt/venv/bin/python3": python_elf(),
        "/opt/venv/conda-meta/python-3.11.2-0.json": json.dumps(paths),
    }
    seen = signs({**asked, **record})

    assert seen.findings == ()
    assert len(seen.remarks) == 3
    assert len(found(signs(asked))) == 3
    assert (
        len(found(signs({**asked, **record, "/opt/venv/bin/python3": python_elf(body=b"\0cpython-311\0 another")})))
        == 3
    )


def test_variables_in_another_encoding() -> None:
    """JSON may be UTF-16."""
    text = json.dumps({"env_vars": {"LD_PRELOAD": "/opt/x.so"}})

    assert found(signs({"/opt/venv/conda-meta/state": text.encode("utf-16")})) == ["/opt/venv/conda-meta/state"]


def test_many_variables_hide_none() -> None:
    """What is not looked at is told."""
    many = {f"X{number}": "1" for number in range(600)}

    assert Sign.UNREADABLE in {finding.kind for finding in signs(state(**many, LD_PRELOAD="/opt/x.so")).findings}


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"env_vars": []}', "[" * 100_000, '{"env_vars": {"LD_PRELOAD": {"x": 1}, "\\ud800": "x"}}']
)
def test_a_broken_record_of_variables(text: str) -> None:
    """It breaks nothing."""
    for finding in signs({"/opt/venv/conda-meta/state": text}).findings:
        finding.observed.encode()
