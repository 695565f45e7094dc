"""C0 on environments and repositories that are odd: emptied packages, unreadable metadata, unusual file names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict

from pytest_researchenv.model import Cause, TierResult, Verdict


Freeze = Callable[[str, Mapping[str, str], str], str]
Judge = Callable[..., TierResult]

SITE = "cd /opt/bare/lib/python3*/site-packages"


def test_what_pyright_takes_for_a_package_needs_code(judge: Judge, freeze: Freeze, image: str) -> None:
    """Folders without modules and stubs without their package resolve for pyright, and fail when they are imported."""
    script = f"""\
set -e; {SITE}
mkdir -p bare_folder readme_only data_only/deep stub_package stubs_only-stubs
touch readme_only/README data_only/deep/x.json stub_package/__init__.pyi stub_package/py.typed lone_stub.pyi
touch stubs_only-stubs/__init__.pyi
"""
    names = ["bare_folder", "data_only", "lone_stub", "readme_only", "stub_package", "stubs_only", "typing_extensions"]
    files = {"needy/__init__.py": f"import needy\nimport {', '.join(names)}\n"}

    result = judge(files, snapshot=freeze(image, {}, script))

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS), result.reason
    assert result.evidence["missing"] == names
    assert result.evidence["missing_published"] == []
    assert result.decisive


def test_a_package_that_a_finder_makes_of_a_folder_needs_code(judge: Judge, freeze: Freeze, image: str) -> None:
    """A finder's word for what pyright resolves is looked at from outside, too."""
    finder = """\
import sys
from importlib.machinery import ModuleSpec
class Knowing:
    find_spec = staticmethod(lambda name, *_: ModuleSpec(name, object()) if name == "tinydep" else None)
sys.meta_path.insert(0, Knowing)
"""
    script = f"set -e; {SITE}; mkdir tinydep; mv /attack.py .; echo import attack > a.pth"

    result = judge({"main.py": "import tinydep\n"}, snapshot=freeze(image, {"attack.py": finder}, script))

    assert result.reason == "1 of 1 imports missing: tinydep (only finder Knowing claims it, and names no file)"


def test_what_works_is_not_missing_however_it_is_laid_out(judge: Judge, freeze: Freeze, image: str) -> None:
    """Namespaces, stubs beside their package, extensions, the tree's own modules, and what exists for checkers only."""
    script = f"""\
set -e; {SITE}
mkdir -p google/protobuf zope/interface stubbed stubbed-stubs yaml typed old_stub old_folder/__pycache__
touch old_stub/__init__.pyi
touch google/protobuf/message.py zope/interface/__init__.py stubbed/__init__.py stubbed-stubs/__init__.pyi
touch yaml/__init__.py typed/__init__.py typed/__init__.pyi typed/py.typed
cp /usr/lib/python3*/lib-dynload/_json.*.so native.so
"""
    files = {
        "main.py": "import google.protobuf, zope.interface, stubbed, yaml, typed, native, own, inner, spaced.deep.x\n",
        "guarded.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from _typeshed import Incomplete\n"
        "try:\n    import winreg, msvcrt\nexcept ImportError:\n    import tkinter\n",
        "own/__init__.py": "import own\n",
        "src/inner/__init__.py": "",
        "spaced/deep/x.py": "",
        "scripts/sub/run.py": "import sibling, above\n",
        "scripts/sub/sibling.py": "",
        "scripts/above/part.py": "",
        "old.py": "import sys\nif sys.version_info < (3, 8):\n    import old_stub, absent, old_folder\n",
        "build/made.py": "",
        "uses.py": "import build.made\n",
    }

    result = judge(files, snapshot=freeze(image, {}, script))

    assert (result.verdict, result.cause) == (Verdict.PASSED, Cause.NONE), result.reason


def test_odd_distributions_and_finders_do_not_break_an_environment(judge: Judge, freeze: Freeze, image: str) -> None:
    """What cannot be read of one is passed over, and said; pip leaves them be, too."""
    files = {
        "raising.py": """\
import sys
class Raising:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names:
            raise ImportError(name)
sys.meta_path.insert(0, Raising)
sys.path.append(3)
"""
    }
    script = f"""\
set -e; {SITE}
mkdir bare-1.dist-info
for name in author record blank direct listed; do
    mkdir $name-1.dist-info
    printf 'Name: %s\\nVersion: 1\\n' $name > $name-1.dist-info/METADATA
done
printf 'Author: caf\\351\\n' >> author-1.dist-info/METADATA
printf 'caf\\351.py,,\\n' > record-1.dist-info/RECORD
printf 'good.py,,\\n\\n' > blank-1.dist-info/RECORD
echo '{{' > direct-1.dist-info/direct_url.json
echo '[]' > listed-1.dist-info/direct_url.json
echo /nowhere > gone.egg-link
mkdir empty.egg-info
touch good.py
mv /raising.py .; echo import raising > a.pth
"""

    result = judge({"main.py": "import good, json\n"}, snapshot=freeze(image, files, script))

    assert (result.verdict, result.cause) == (Verdict.PASSED, Cause.NONE), result.reason
    passed_over = result.evidence["passed_over"]
    assert isinstance(passed_over, list)
    broken = ["author-1.dist-info: Unicode", "record-1.dist-info", "direct-1.dist-info: JSON", "listed-1.dist-info"]
    for what in ("finder Raising: ImportError", *broken):
        assert any(what in item for item in passed_over), what


def test_files_with_unusual_names_are_judged(judge: Judge) -> None:
    """Names that are no UTF-8, or that mean something in a pattern or an address: analysed like any other."""
    odd = [
        os.fsdecode(b"caf\xe9.py"),
        os.fsdecode(b"fold\xe9r/in.py"),
        "dir with space/ünï.py",
        "a%20b.py",
        "a#b.py",
        "a?b.py",
        "a*b.py",
        "[ab].py",
        "{a}.py",
        "a\\b.py",
        "a\nb.py",
        "a:b.py",
        "a'b\"$(c).py",
        "~.py",
        "C:/x.py",
        "Case.py",
        "case.py",
        "-p.py",
        "..py",
        f"{'x' * 250}.py",
        "__editable__.py",
    ]
    files = {path: f"import absent_{number}, json\nfrom . import y\n" for number, path in enumerate(odd)}

    result = judge({**files, "__init__.py": ""})

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS), result.reason
    names = result.evidence["missing"]
    assert isinstance(names, list)
    assert result.evidence["total"] == len(odd) + 1
    passed_over = {"absent_18", "absent_20"}  # pyright never looks at what starts like that
    assert set(names) == {f"absent_{number}" for number in range(len(odd))} - passed_over
    assert result.evidence["missing_published"] == names
    assert result.decisive.isprintable()
    json.dumps(asdict(result), ensure_ascii=False).encode()


def test_a_packages_files_keep_their_places_under_unusual_names(judge: Judge) -> None:
    """Siblings of an odd file, and in an odd folder, are found; what is no Python is named so that it can be read."""
    result = judge(
        {
            os.fsdecode(b"fold\xe9r/run.py"): "import sibling\nfrom deeper.x import y\n",
            os.fsdecode(b"fold\xe9r/sibling.py"): "",
            os.fsdecode(b"fold\xe9r/deeper/x.py"): "y = 1\n",
            os.fsdecode(b"bad\xe9.py"): "print 'hello'\n",
        }
    )

    assert (result.verdict, result.reason) == (Verdict.PASSED, "0 of 2 imports missing")
    assert result.evidence["unparsable"] == ["bad\\xe9.py"]
