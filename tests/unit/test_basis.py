"""What a verdict rests on: it changes with what decides the verdict, and with nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from pytest_researchenv._code import code_of, own_code
from pytest_researchenv.basis import tier_basis
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Tier
from pytest_researchenv.suite import load_suite, shared_modules


REPOSITORY = """\
name = "one"
source.path = "tree"
[tiers.C1]
probe = "probes/c1.py"
evidence.files = [{ path = "{out}/x" }]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with a probe script that imports one of three shared modules, which imports another."""
    for name, text in {
        "suite.toml": 'name = "mine"\n',
        "one/repo.toml": REPOSITORY,
        "one/probes/c1.py": "def main():\n    from kit import tool\n",
        "_shared/kit.py": "import os, base\ndef tool():\n    return base.LIMIT\n",
        "_shared/base.py": "import kit\nLIMIT = 1\n",
        "_shared/other.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def basis(suite: Path) -> str:
    """The digest for C1 on the CPU."""
    (repository,) = load_suite(suite).repositories
    return tier_basis(repository, Tier.C1, accelerator=Accelerator.CPU, settings={})


def used(suite: Path) -> dict[str, bytes]:
    """What the probe uses: module → code."""
    (repository,) = load_suite(suite).repositories
    return code_of(suite / "one/probes/c1.py", {file.stem: file for file in shared_modules(repository)})


def test_modules_that_import_one_another_are_all_found(suite: Path) -> None:
    """Also inside a function, and in a circle."""
    assert set(used(suite)) == {"", "base", "kit"}


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("one/probes/c1.py", "def main", "def mian", True),
        ("_shared/kit.py", "base.LIMIT", "base.LIMIT + 1", True),
        ("_shared/kit.py", "def tool", "def unused(): pass\ndef tool", False),
        ("_shared/base.py", "LIMIT = 1", "LIMIT = 2", True),
        ("_shared/other.py", "", "LIMIT = 2", False),
    ],
)
def test_what_a_probe_does_not_use_makes_no_verdict_stale(
    suite: Path, name: str, old: str, new: str, *, changes: bool
) -> None:
    """A suite's modules grow with its probes."""
    before = basis(suite)
    (suite / name).write_text((suite / name).read_text().replace(old, new, 1))
    assert (basis(suite) != before) is changes


def test_of_a_script_that_cannot_be_read_all_modules_count(suite: Path) -> None:
    """It may import anything."""
    (suite / "one/probes/c1.py").write_text("import (")
    assert {"base", "kit", "other", "probekit"} <= set(used(suite))


def test_a_module_of_the_suite_wins_over_one_of_the_kit(suite: Path) -> None:
    """The kit comes with this package; who wants another `probekit` has it."""
    (suite / "one/probes/c1.py").write_text("import probekit\nprobekit.observe()\n")
    assert b"def observe" in used(suite)["probekit"]

    (suite / "_shared/probekit.py").write_text("def observe(): pass\ndef other(): pass\n")
    assert used(suite)["probekit"] == b"def observe(): pass"


MODULE = """\
from __future__ import annotations
import os, sys
from base import LIMIT, other as another

SIZE = WIDTH, HEIGHT = 1, 2
if os.environ:
    sys.path[:] = []


def decorated(function):
    return function


def helper():
    return SIZE


def tool(how=decorated):
    \"\"\"Explain.\"\"\"
    return helper() + LIMIT


def unused():
    return another()


class Kind:
    size = HEIGHT
"""


@pytest.mark.parametrize(
    ("script", "parts", "of_base"),
    [
        ("from kit import tool", ["helper", "tool", "decorated", "SIZE"], ["LIMIT"]),
        ("import kit\nkit.tool()", ["helper", "tool", "decorated", "SIZE"], ["LIMIT"]),
        ("import kit as k\nk.Kind", ["Kind", "SIZE"], []),
        ("from kit import Kind", ["Kind", "SIZE"], []),
        ("from kit import unused", ["unused"], ["def other"]),
        ("import kit\nuse(kit)", ["SIZE", "helper", "tool", "Kind", "unused", "decorated"], ["LIMIT", "def other"]),
        ("from kit import *", ["SIZE", "helper", "tool", "Kind", "unused", "decorated"], ["LIMIT", "def other"]),
        ("from kit import gone", ["SIZE", "helper", "tool", "Kind", "unused", "decorated"], ["LIMIT", "def other"]),
        ("import kit", [], []),
    ],
)
def test_only_what_a_probe_uses_of_a_module_counts(
    suite: Path, script: str, parts: list[str], of_base: list[str]
) -> None:
    """With what that uses in turn; statements that run at import always count."""
    (suite / "one/probes/c1.py").write_text(script)
    (suite / "_shared/kit.py").write_text(MODULE)
    (suite / "_shared/base.py").write_text("LIMIT = 3\n\n\ndef other(): return 1\n")

    found = {name: text.decode() for name, text in used(suite).items()}

    assert "sys.path[:] = []" in found["kit"]
    assert "import os, sys" in found["kit"]
    for name in ("def helper", "def tool", "class Kind", "def unused", "def decorated", "SIZE"):
        assert (name in found["kit"]) is (name.split()[-1] in parts), name
    assert "Explain" not in found["kit"]
    for name in ("LIMIT", "def other"):
        assert (name in found.get("base", "")) is (name in of_base), name


@pytest.mark.parametrize(
    "module",
    [
        "if 1:\n    def f(): return X\n",
        "for x in [X]: pass\ndef f(): return x\n",
        "with open(X) as x: pass\ndef f(): return x\n",
        "a = (b := X)\ndef f(): return b\n",
        "def g(x=(b := X)): pass\ndef f(): return b\n",
        "import os\nos.environ['a'] = X\ndef f(): return 1\n",
        "import base\nbase.a = X\ndef f(): return 1\n",
        "def g(): return X\nimport torch\ntorch.x = g\ndef f(): return 1\n",
        "many = []\n_ = many.append(X)\ndef f(): return many\n",
        "many = {}\ndef add(g): many[1] = g\n@add\ndef a(): return X\ndef f(): return many\n",
        "class A:\n    def __init_subclass__(cls): A.one = cls\nclass B(A):\n    v = X\ndef f(): return A.one\n",
        "class A: pass\nclass B(A):\n    v = X\ndef f(): return A.__subclasses__()\n",
        "import os\nclass A:\n    os.environ['a'] = X\ndef f(): return 1\n",
        "import os\ndef g(x=os.environ.update(a=X)): pass\ndef f(): return 1\n",
        "def g(): return X\ndef f(): return globals()['g']()\n",
        "import sys\ndef g(): return X\ndef f(): return sys.modules[__name__].g()\n",
        "class A:\n    v = X\nclass B:\n    a: 'A'\ndef f(): return get_type_hints(B)\n",
        "def f():\n    '''X'''\n    return f.__doc__\n",
        "def f(): return 'a\\\n# X'\n",
        "import packageX\ndef f(): return 1\n",
    ],
)
def test_whatever_a_module_does_when_it_is_imported_counts(suite: Path, module: str) -> None:
    """Also what is bound or changed by the way, and what is reached by other ways than its name."""
    (suite / "one/probes/c1.py").write_text("from kit import f\nf()\n")
    found = []
    for value in ("1", "2"):
        (suite / "_shared/kit.py").write_text(module.replace("X", value))
        found.append(basis(suite))
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("script", "module"),
    [
        ("import kit as k\nimport other as k\nk.f()\n", "def f(): return 1\n"),
        ("import importlib\nimportlib.import_module('kit').f()\n", "LIMIT = 1\n"),
        ("run(['python', '-c', 'import kit; kit.f()'])\n", "LIMIT = 1\n"),
        ("run(Path(__file__).with_name('kit.py'))\n", "LIMIT = 1\n"),
        ("from kit import tool\n", "from base import *\nfrom other import *\ndef tool(): return f()\n"),
        (
            "from kit import tool\n",
            "def tool():\n    from base import f\n    return f()\ndef g():\n    from other import f\n",
        ),
        ("from kit import *\n", "from other import *\nLIMIT = 1\n"),
    ],
)
def test_a_module_that_is_reached_in_another_way_counts(suite: Path, script: str, module: str) -> None:
    """By its name in a text, by a name that two modules share, by `import *`."""
    (suite / "one/probes/c1.py").write_text(script)
    (suite / "_shared/kit.py").write_text(module)
    (suite / "_shared/base.py").write_text("def f(): return 1\n")
    file = suite / "_shared" / ("base.py" if "base" in module else "kit.py")

    before = basis(suite)
    file.write_text(file.read_text().replace("= 1", "= 2").replace("return 1", "return 2"))

    assert basis(suite) != before


def test_neither_warnings_nor_encodings_nor_depth_decide_what_counts() -> None:
    """Invalid escapes are an error under `-W error`; positions are those in UTF-8."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_code(b'"""d"""\nx = "\\d"') == b'x = "\\d"'
    latin = "# coding: latin-1\ndef f():\n    'ééééééé'; return {}\n"
    assert own_code(latin.format(1).encode("latin-1")) != own_code(latin.format(2).encode("latin-1"))
    deep = b"x = " + b"-" * 100_000 + b"1"
    assert own_code(deep) == deep


@pytest.mark.parametrize(
    "text",
    [
        '"""Another word."""\ndef f():\n    return 1\n',
        '"""A word,\nand another."""\n\n\ndef f():\n    # A comment.\n    """What it does."""\n\n    return 1\n',
        '"""A word.\n\nAnother.\n"""  # and a third\n\ndef f():\n    return 1   \n',
    ],
)
def test_explaining_a_probe_better_makes_no_verdict_stale(text: str) -> None:
    """Docstrings, comments and blank lines decide nothing."""
    assert own_code(text.encode()) == b"def f():\n    return 1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 2"),
        ("if a:\n    b()\nc()", "if a:\n    b()\n    c()"),
        ('x = """\n# a\n"""', 'x = """\n# b\n"""'),
        ('x = f"""\n\n{a}"""', 'x = f"""\n{a}"""'),
        ('x = """a \n"""', 'x = """a\n"""'),
        ("def f(): 'a'", "def g(): 'a'"),
        ("def f():\n    'a'; b()", "def f():\n    'a'; c()"),
        ("def (# a", "def (# b"),
    ],
)
def test_what_a_probe_does_counts(one: str, other: str) -> None:
    """Also inside strings, on a docstring's line, and in what is no Python at all."""
    assert own_code(one.encode()) != own_code(other.encode())
