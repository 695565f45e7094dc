"""What the interpreter is asked about modules, and how its answer is read. No Docker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.probes.lookup import Lookup, LookupFailedError, Module, Question, parse_lookup, printable


def found(**changes: object) -> dict[str, object]:
    """What the interpreter says of one module."""
    module = {"finder": "PathFinder", "origin": "/x/a.py", "files": ["/x/a.py"], "real": ["/x/a.py"], "native": False}
    return {**module, "owner": "", **changes}


def question(*names: str, repository: str = "/w/p") -> Question:
    """A question with a known nonce."""
    return Question(names, repository, nonce="n0")


def line(nonce: str = "n0", **modules: object) -> str:
    """The interpreter's answer."""
    return f"{nonce} " + json.dumps({"version": "3.11.2", "editable": [], "modules": modules})


def test_the_interpreters_answer_is_found_among_what_it_prints() -> None:
    """Interpreters may print at start-up."""
    lookup = parse_lookup(f"hello\n{line(a=found())}\nbye", question("a", "b"))

    assert str(lookup.modules["a"]) == "PathFinder /x/a.py"
    assert "b" not in lookup.modules


@pytest.mark.parametrize(
    ("output", "match"),
    [
        ("", "0 answers"),
        (line("other", a=found()), "0 answers"),
        (f"{line()}\n{line()}", "2 answers"),
        ("n0 []", "malformed"),
        ("n0 {", "malformed"),
        (line(a=found(native="no")), "malformed"),
        (line(a=found(surplus=1)), "malformed"),
        (line(a=found(real=[])), "malformed: .*1 files have 0 real paths"),
        (line(a=found(files=[])), "malformed"),
        ("n0 " + "[" * 100_000, "malformed"),
        (line().replace("{}", json.dumps({"a\n\x1b": found()})), r"not asked for: a\\n\\x1b$"),
        (line(c=found()), "not asked for: c"),
        (line(a=found()).replace("/x/a.py", "\\ud800", 1), "malformed"),
    ],
)
def test_an_answer_is_read_strictly(output: str, match: str) -> None:
    """Another nonce, two answers, another form, more than was asked, and no text."""
    with pytest.raises(LookupFailedError, match=match):
        parse_lookup(output, question("a"))


@pytest.mark.parametrize("names", [(), ("torch", "yaml", "flash_attn"), tuple(f"name{number}" for number in range(80))])
def test_made_up_names_cannot_be_told_from_the_others(names: tuple[str, ...]) -> None:
    """They are several, new each time, unlike one another, stand at random places, and none is marked."""
    asked, again = question(*names), question(*names)
    sent = json.loads(asked.text())

    assert sorted(sent["names"]) == sorted([*names, *asked.controls])
    assert len(asked.controls) >= max(4, len(names) // 4)
    assert all(name.isidentifier() and 4 <= len(name) <= 14 for name in asked.controls)
    assert not {*asked.controls, *again.controls} & {*names, *sys.stdlib_module_names}
    assert asked.controls != again.controls
    assert set(sent) == {"nonce", "names", "repository", "roots"}
    orders = {tuple(json.loads(asked.text())["names"]) for _ in range(20)}
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("changes", "stand_in"),
    [
        ({"files": ["/w/p/a.py"], "real": ["/w/p/a.py"]}, "a.py"),
        ({"files": ["/w/p/a.py"], "real": ["/elsewhere/x.py"]}, "a.py"),
        ({"files": ["/opt/a.py"], "real": ["/w/p/hidden/a.py"]}, "hidden/a.py"),
        ({"files": ["/w/p/kept.py"], "real": ["/w/p/kept.py"]}, ""),
        ({"files": ["/w/p/a/x.py", "/w/p/a/kept.py"], "real": ["/w/p/a/x.py", "/w/p/a/kept.py"]}, ""),
        ({"files": ["/w/p/a.so"], "real": ["/w/p/a.so"], "native": True}, ""),
        ({"files": ["/w/p/a.py"], "real": ["/w/p/a.py"], "owner": "a"}, ""),
        ({"files": ["/w/p/.venv/lib/python3.11/site-packages/a.py"], "real": ["/w/x"]}, ""),
        ({"files": ["/w/p/third_party/a/a.py"], "real": ["/w/p/third_party/a/a.py"]}, ""),
        ({"files": ["/w/project/a.py"], "real": ["/w/project/a.py"]}, ""),
        ({"files": [], "real": []}, ""),
    ],
)
def test_stand_ins_are_told_from_good_work(changes: dict[str, object], stand_in: str) -> None:
    """A stand-in is untracked, pure Python, in the repository (by path or through a link), and nobody installed it."""
    module = Module.model_validate(found(**changes))

    place = module.untracked_in("/w/p", {"kept.py", "a/kept.py"}, ["/w/p", "/w/p/third_party/a"])

    assert place == stand_in


def asked_lookup(tmp_path: Path, names: list[str], repository: Path, *, path: str = "") -> Lookup:
    """Run the script as containers do, on this interpreter."""
    script = Path(str(resources.files("pytest_researchenv.probes").joinpath("inside", "find_modules.py")))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "find_modules.py").write_bytes(script.read_bytes())
    asked = Question(tuple(names), str(repository))
    (folder / "request.json").write_text(asked.text())
    command = [sys.executable, str(folder / "find_modules.py"), str(folder / "request.json")]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": path} if path else None
    )
    return parse_lookup(done.stdout, asked)


def ask(tmp_path: Path, names: list[str], repository: Path, *, path: str = "") -> dict[str, Any]:
    """What it says of each module."""
    modules = asked_lookup(tmp_path, names, repository, path=path).modules
    return {name: module.model_dump() for name, module in modules.items()}


def test_modules_are_found_without_being_imported(tmp_path: Path) -> None:
    """A package that fails on import is found; folders without modules and the script itself are not."""
    repository = tmp_path / "repository"
    for path, text in {
        "fails/__init__.py": "raise SystemExit(9)\n",
        "fails/inner/fast.py": "",
        "src/spaced/deep/module.py": "",
        "data/train.json": "{}",
    }.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)

    names = ["sys", "json", "pytest", "fails", "spaced", "data", "absent", "find_modules", "pytest_researchenv"]
    modules = ask(tmp_path, names, repository)

    assert sorted(modules) == ["fails", "json", "pytest", "pytest_researchenv", "spaced", "sys"]
    assert modules["sys"]["finder"] == "BuiltinImporter"
    assert modules["pytest"]["owner"] == "pytest"
    assert modules["fails"]["files"] == [f"{repository}/fails/__init__.py"] * 2 + [f"{repository}/fails/inner/fast.py"]
    assert modules["spaced"]["files"] == [f"{repository}/src/spaced/deep/module.py"]


def test_a_namespace_that_only_hooks_look_into_is_told_by_its_modules(tmp_path: Path) -> None:
    """In a zipped egg no folder can be walked."""
    egg = tmp_path / "made.egg"
    with zipfile.ZipFile(egg, "w") as opened:
        opened.mkdir("spaced")  # Before 3.13, Python sees no folder without an entry of its own.
        opened.writestr("spaced/inner/__init__.py", "")
        opened.writestr("whole/__init__.py", "")

    modules = ask(tmp_path, ["spaced", "whole"], tmp_path / "repository", path=str(egg))

    assert modules["spaced"]["files"] == [f"{egg}/spaced/inner/__init__.py"]
    assert modules["whole"]["origin"] == f"{egg}/whole/__init__.py"


#: What may stand anywhere in an answer.
JUNK: list[Any] = [
    None,
    True,
    -1,
    1e400,
    10**400,
    "",
    "a",
    "/",
    "\0",
    "\ud800",
    "\u2028",
    "/x/../..",
    [],
    [[]],
    {},
    {"": 1},
]


def mutated(value: object, chance: random.Random) -> object:
    """A value with some of what is in it taken away, doubled or replaced."""
    if chance.random() < 0.02:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        items = [(key, mutated(item, chance)) for key, item in value.items() if chance.random() < 0.97]
        return dict(items + ([(str(chance.choice(JUNK)), chance.choice(JUNK))] if chance.random() < 0.03 else []))
    if isinstance(value, list):
        return [mutated(item, chance) for item in value for _ in range(chance.choice([0, 1, 1, 1, 1, 2]))]
    return value


def test_no_answer_makes_anything_but_a_lookup_or_a_failure() -> None:
    """5000 answers that were tampered with; what is read of them can be judged and printed."""
    chance = random.Random(3)  # noqa: S311 - no secret
    module = found(origin="/w/p/a.py", files=["/w/p/a.py", "/w/p/b.py"], real=["/w/p/a.py", "/x"])
    answer = {"version": "3.11.2", "editable": ["/w/p"], "modules": {"a": module, "b": module}, "passed_over": ["x"]}
    outcomes = {"read": 0, "refused": 0}
    asked = question("a", "b")
    for _ in range(5000):
        tampered = json.dumps(mutated(answer, chance))
        output = f"n0 {tampered[: chance.randrange(len(tampered))] if chance.random() < 0.1 else tampered}"
        try:
            lookup = parse_lookup(output, asked)
        except LookupFailedError as error:
            str(error).encode()
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        for name in lookup.modules:
            lookup.modules[name].untracked_in("/w/p", {"b.py"}, lookup.editable).encode()

    assert min(outcomes.values()) > 100, outcomes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 界", "plain é 界"),
        ("caf\udce9.py", "caf\\xe9.py"),
        ("\ud800", "\\ud800"),
        ("a\nb\x1b[0m\u202e", "a\\nb\\x1b[0m\\u202e"),
        ("x" * 300, "x" * 200),
        ("\x1b" * 200, "\\x1b" * 50),
    ],
)
def test_what_is_said_is_one_line_that_can_be_encoded(text: str, shown: str) -> None:
    """Bytes of paths, halves of characters and what moves a cursor become escapes; the length is bounded."""
    assert printable(text) == shown


def distribution(site: Path, name: str, **files: bytes) -> None:
    """Install nothing but a distribution's metadata; a file's name may leave its dot out."""
    folder = site / f"{name}-1.dist-info"
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file.replace("_json", ".json").replace("_txt", ".txt")).write_bytes(content)


def test_a_distribution_that_cannot_be_read_costs_no_other_one(tmp_path: Path) -> None:
    """Each is read by itself; of one with several files, only the broken one is lost."""
    site = tmp_path / "site"
    named = b"Metadata-Version: 2.1\nName: %b\nVersion: 1\n"
    distribution(site, "author", METADATA=named % b"author" + b"Author: caf\xe9\n", RECORD=b"mine.py,,\n")
    distribution(site, "record", METADATA=named % b"record", RECORD=b"caf\xe9.py,,\n")
    distribution(site, "blank", METADATA=named % b"blank", RECORD=b"blank.py,,\n\n")
    distribution(site, "direct", METADATA=named % b"direct", direct_url_json=b"{")
    distribution(site, "listed", METADATA=named % b"listed", direct_url_json=b"[1]")
    distribution(site, "urlless", METADATA=named % b"urlless", direct_url_json=b'{"dir_info": {"editable": true}}')
    distribution(site, "bare")
    distribution(
        site,
        "zgood",
        METADATA=named % b"zgood",
        RECORD=b"good.py,,\n",
        direct_url_json=b'{"url": "file:///e", "dir_info": {"editable": true}}',
    )
    (site / "gone.egg-link").write_text("/nowhere\n")
    (site / "folder.egg-info").mkdir()
    (site / os.fsdecode(b"odd\xe9-1.dist-info")).mkdir()
    for name in ("mine", "good"):
        (site / f"{name}.py").touch()

    lookup = asked_lookup(tmp_path, ["good", "mine", "json"], tmp_path / "repository", path=str(site))

    assert {name: module.owner for name, module in lookup.modules.items()} == {
        "good": "zgood",
        "json": "",
        "mine": f"distribution {site}/author-1.dist-info",
    }
    assert lookup.editable[0] == "/e"
    for name, raised in {
        "author": "UnicodeDecodeError",
        "record": "UnicodeDecodeError",
        "direct": "JSONDecodeError",
        "listed": "AttributeError",
        "urlless": "KeyError",
    }.items():
        assert f"distribution {site}/{name}-1.dist-info: {raised}" in lookup.passed_over


#: What other people's finders may do, put on `sys.meta_path` by `sitecustomize`.
FINDERS = """\
import sys
from importlib.machinery import ModuleSpec
class Raising:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names:
            raise {raised}
    @staticmethod
    def find_distributions(context=None):
        raise {raised}
class Odd:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return 3 if name == "junk" else None
    @staticmethod
    def find_distributions(context=None):
        return None
sys.meta_path[:0] = [Raising, Odd]
sys.path += [3, None, b"bytes"]
"""


@pytest.mark.parametrize("raised", ["ImportError(name)", "SystemExit(3)", "RecursionError", "OSError(5, 'x')"])
def test_a_finder_that_raises_costs_no_other_one(tmp_path: Path, raised: str) -> None:
    """Whatever it raises, and whatever another one returns; entries of the path that are no strings are none."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(FINDERS.format(raised=raised).replace("context=None", "context"))
    (tmp_path / "site/good.py").touch()

    lookup = asked_lookup(tmp_path, ["good", "json", "junk"], tmp_path / "repository", path=str(tmp_path / "site"))

    assert sorted(lookup.modules) == ["good", "json"]
    assert {item.partition(": ")[0] for item in lookup.passed_over} == {
        "distributions of Odd",
        "distributions of Raising",
        "finder Raising",
        "module junk",
    }


def test_files_that_no_import_reaches_are_no_modules(tmp_path: Path) -> None:
    """Names that are no UTF-8 among them: they would be no JSON either."""
    for path in (
        b"repository/pkg/__init__.py",
        b"repository/pkg/caf\xe9.py",
        b"site/spaced/\xe9.py",
        b"site/named/x.py",
    ):
        file = tmp_path / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    modules = ask(tmp_path, ["pkg", "spaced", "named"], tmp_path / "repository", path=str(tmp_path / "site"))

    assert sorted(modules) == ["named", "pkg"]
    assert set(modules["pkg"]["files"]) == {f"{tmp_path}/repository/pkg/__init__.py"}
