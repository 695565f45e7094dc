"""The published figure of C0: what of pyright's report on the whole tree the published harness would have counted.

What is expected here was compared with what pyright 1.1.414 reports when it is called as the harness called it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.probes.published import Published, published_figure
from pytest_researchenv.probes.pyright import MISSING, MISSING_SOURCE, Diagnostic


WORKDIR = "/workspace/project"
CONFIGURATION = "pyrightconfig.json"

#: Two files in each of these folders; each imports a module of its own folder's name that is not there.
FOLDERS = ("", "src", "src/pkg", "src/pkg/sub", "tests", "a", "a/x", "a/x/y", "b c")
FILES = {f"{folder}/{name}".lstrip("/"): "import absent\n" for folder in FOLDERS for name in ("m.py", "n.py")}


def figure(root: Path, files: Mapping[str, str]) -> Published:
    """The figure of a tree in which every import of a name that starts with `absent` is missing."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode())
    diagnostics = [
        Diagnostic(name, number, line.split()[1], MISSING, "")
        for name, content in files.items()
        if name.endswith(".py")
        for number, line in enumerate(content.split("\n"), 1)
        if line.strip().startswith(("import absent", "from absent"))
    ]
    return published_figure(Tree(root, tuple(sorted(files)), ""), diagnostics, workdir=WORKDIR)


def places(root: Path, files: Mapping[str, str]) -> str:
    """Which files of a tree are looked at, each by its folder's initials and its name's: `src/pkg/m.py` is `sp.m`."""
    numbered = {}
    for number, (name, content) in enumerate(files.items()):
        numbered[name] = content.replace("import absent\n", f"import absent_{number}\n")
    found = {int(name.removeprefix("absent_")) for name in figure(root, numbered).missing}
    paths = [Path(name) for number, name in enumerate(files) if number in found]
    return " ".join(sorted("".join(part[0] for part in path.parent.parts) + f".{path.stem}" for path in paths))


def configured(**settings: object) -> dict[str, str]:
    """The tree with a configuration."""
    return {**FILES, CONFIGURATION: json.dumps(settings)}


# --- the four rules ---------------------------------------------------------------------------------------


def test_a_configuration_file_comes_first(tmp_path: Path) -> None:
    """Whatever else there is; by default it is of everything."""
    files = {**configured(), "pyproject.toml": "[tool.pyright]\nreportMissingImports = false\n", "a/__init__.py": ""}

    found = figure(tmp_path, files)

    assert (found.missing, found.selection) == (("absent",), "pyrightconfig.json")
    assert places(tmp_path, files).count("m") == len(FOLDERS)


def test_a_table_of_pyproject_comes_second(tmp_path: Path) -> None:
    """It says what is analysed, and `src` says nothing then."""
    files = {**FILES, "pyproject.toml": '[tool.pyright]\ninclude = ["a/x"]\n'}

    assert figure(tmp_path, files).selection == "[tool.pyright] in pyproject.toml"
    assert places(tmp_path, files) == "ax.m ax.n axy.m axy.n"


@pytest.mark.parametrize(
    ("files", "selection", "seen"),
    [
        (FILES, "src and tests", "s.m s.n sp.m sp.n sps.m sps.n t.m t.n"),
        (
            {name: text for name, text in FILES.items() if not name.startswith("tests")},
            "src",
            "s.m s.n sp.m sp.n sps.m sps.n",
        ),
    ],
)
def test_the_folders_src_and_tests_come_third(
    tmp_path: Path, files: Mapping[str, str], selection: str, seen: str
) -> None:
    """Even where there are packages beside them."""
    files = {**files, "a/__init__.py": ""}

    assert figure(tmp_path, files).selection == selection
    assert places(tmp_path, files) == seen


def test_packages_come_last(tmp_path: Path) -> None:
    """Each folder with an `__init__.py` and all below it; scripts beside it, builds and environments are left out."""
    files = {name: text for name, text in FILES.items() if not name.startswith("src")}
    files |= dict.fromkeys(("a/x/__init__.py", "a/x/y/__init__.py", "build/lib/__init__.py"), "")
    files |= {"build/lib/m.py": "import absent\n", "venv/__init__.py": "import absent\n"}

    assert figure(tmp_path, files).selection == "folders with an __init__.py (2)"
    assert places(tmp_path, files) == "ax.m ax.n axy.m axy.n"


def test_a_package_at_the_root_is_everything(tmp_path: Path) -> None:
    """Its folder is the tree."""
    files = {"__init__.py": "", "m.py": "import absent\n", "docs/n.py": "import absent\n"}

    assert places(tmp_path, files) == ".m d.n"


def test_where_no_rule_applies_nothing_was_analysed(tmp_path: Path) -> None:
    """Scripts alone, and tests without `src`, are no target; the figure is 0 of the published total."""
    found = figure(tmp_path, {"m.py": "import absent\n", "tests/n.py": "import absent\n"})

    assert found == Published((), "nothing: there is no configuration, no src and no folder with an __init__.py")
    assert found.ratio(7) == "0/7"


def test_the_figure_is_of_distinct_top_level_names(tmp_path: Path) -> None:
    """Relative imports and stubs without their source are not counted; a submodule counts with its package."""
    (tmp_path / "__init__.py").touch()
    modules = [("absent.a", MISSING), ("absent.b", MISSING), ("torch.gone", MISSING), (".own", MISSING)]
    reported = [Diagnostic("__init__.py", 1, module, rule, "") for module, rule in [*modules, ("yaml", MISSING_SOURCE)]]

    found = published_figure(Tree(tmp_path, ("__init__.py",), ""), reported, workdir=WORKDIR)

    assert found.missing == ("absent", "torch")
    assert found.ratio(41) == "2/41"


def test_a_configuration_is_sought_whatever_is_analysed(tmp_path: Path) -> None:
    """Pyright reads `pyproject.toml` where the harness gives it folders, too; those replace what is included."""
    files = {**FILES, "pyproject.toml": '[tool]\npyright = {include = ["a"], exclude = ["src/pkg"]}\n'}

    assert figure(tmp_path, files).selection == "src and tests"
    assert places(tmp_path, files) == "s.m s.n t.m t.n"


# --- what a configuration selects -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({"include": ["src/pkg"]}, "sp.m sp.n sps.m sps.n"),
        ({"include": ["./src/pkg/sub/", "tests/m.py"]}, "sps.m sps.n t.m"),
        ({"include": ["a/*"]}, "a.m a.n ax.m ax.n axy.m axy.n"),
        ({"include": ["a/*/y"]}, ""),
        ({"include": ["m.py/*"]}, ".m"),
        ({"include": ["**/x"]}, "ax.m ax.n axy.m axy.n"),
        ({"include": ["a/**/y/*"]}, "axy.m axy.n"),
        ({"include": ["src/pk?", "b c"]}, "b.m b.n sp.m sp.n sps.m sps.n"),
        ({"include": ["src\\pkg"]}, "sp.m sp.n sps.m sps.n"),
        ({"include": ["../project/tests"]}, "t.m t.n"),
        ({"include": ["../other", "../../../../etc"]}, ""),
        ({"include": ["/workspace/project/tests"], "exclude": ["src", "a", "b c"]}, ".m .n t.m t.n"),
        ({"include": [], "exclude": ["src", "**/m.py", "a"]}, ".n b.n t.n"),
        ({"exclude": ["pkg", "sub", "[ab]", "(a)"], "include": ["src"]}, "s.m s.n sp.m sp.n sps.m sps.n"),
        ({"exclude": ["**"]}, ""),
        ({"ignore": ["src", "/workspace/project/a", "b c"]}, ".m .n t.m t.n"),
        ({"include": "src", "exclude": {"src": 1}, "ignore": 3}, None),
        ({"include": [3, None, "tests"], "exclude": [[], "tests/n.py"]}, "t.m"),
    ],
)
def test_patterns_mean_what_they_mean_to_pyright(
    tmp_path: Path, settings: Mapping[str, object], seen: str | None
) -> None:
    """Paths of folders or files from the configuration's folder; what is no pattern is passed over."""
    everything = places(tmp_path, configured())

    assert places(tmp_path, configured(**settings)) == (everything if seen is None else seen)


def test_virtual_environments_are_passed_over(tmp_path: Path) -> None:
    """By their marks, where they are come by, and not where one is inside."""
    marks = dict.fromkeys(("a/x/pyvenv.cfg", "src/pkg/bin/activate", "tests/conda-meta/x"), "")

    assert places(tmp_path, {**configured(), **marks}) == ".m .n a.m a.n b.m b.n s.m s.n"
    assert places(tmp_path, {**configured(include=["a/x/y"]), **marks}) == "axy.m axy.n"


# --- how severe it is -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "counted"),
    [
        ({"reportMissingImports": False}, False),
        ({"reportMissingImports": "none"}, False),
        ({"reportMissingImports": "warning"}, False),
        ({"reportMissingImports": "information"}, False),
        ({"reportMissingImports": True}, True),
        ({"typeCheckingMode": "off"}, False),
        ({"typeCheckingMode": "off", "reportMissingImports": "error"}, True),
        ({"typeCheckingMode": "basic"}, True),
        ({"typeCheckingMode": ["off"]}, True),
        ({"reportMissingImports": False, "strict": ["src"]}, True),
        ({"reportMissingImports": False, "strict": ["a"]}, False),
        ({"executionEnvironments": [{"root": "src", "reportMissingImports": "warning"}, {"root": "."}]}, False),
        ({"executionEnvironments": [{"root": "a", "reportMissingImports": False}]}, True),
        ({"reportMissingImports": False, "executionEnvironments": [{"root": "src/pkg"}, 3, {"root": 4}]}, False),
        ({"reportMissingImports": False, "executionEnvironments": [{"reportMissingImports": "error"}]}, True),
    ],
)
def test_only_errors_count(tmp_path: Path, settings: Mapping[str, object], *, counted: bool) -> None:
    """Of the rule as a mode, the configuration, an execution environment or strictness sets it."""
    files = {CONFIGURATION: json.dumps(settings), "src/pkg/m.py": "import absent\n"}

    assert figure(tmp_path, files).missing == (("absent",) if counted else ())


def test_an_extended_configuration_counts_where_it_is_not_overridden(tmp_path: Path) -> None:
    """Its paths are from its own folder; a mode begins anew; circles end."""
    base = {"exclude": ["../src"], "reportMissingImports": False, "extends": "../pyrightconfig.json"}
    files = {**FILES, "cfg/base.json": json.dumps(base)}

    assert places(tmp_path, {**files, CONFIGURATION: '{"extends": "cfg/base.json"}'}) == ""
    mode = '{"extends": "./cfg/base.json", "typeCheckingMode": "standard", "include": ["src", "tests"]}'
    assert places(tmp_path, {**files, CONFIGURATION: mode}) == "t.m t.n"
    own = '{"extends": "cfg/base.json", "reportMissingImports": true, "exclude": ["a", "b c", "tests", "*.py"]}'
    assert places(tmp_path, {**files, CONFIGURATION: own}) == "s.m s.n sp.m sp.n sps.m sps.n"


# --- configurations that are wrong ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{} x",
        "{'exclude': ['src']}",
        '{"exclude": [,]}',
        "\ufeff{}",
        '{"exclude": ["\t"]}',
        '{"extends": "x"}',
    ],
)
def test_pyright_goes_on_without_what_it_cannot_read(tmp_path: Path, text: str) -> None:
    """By its defaults: everything counts, and the selection says so."""
    found = figure(tmp_path, {CONFIGURATION: text, "m.py": "import absent\n"})

    assert found.missing == ("absent",)
    assert found.selection == f"pyrightconfig.json; pyright cannot read {'x' if 'extends' in text else CONFIGURATION}"


def test_comments_and_last_commas_are_read(tmp_path: Path) -> None:
    """As in the one pinned repository that has a configuration; in strings they are no comments."""
    text = '{"exclude": ["src", "a//x/*y*/", /* x */ "tests/", ], // y\n}'

    assert places(tmp_path, {**FILES, CONFIGURATION: text}) == ".m .n a.m a.n b.m b.n"


@pytest.mark.parametrize("text", ["null", "[]", '["src"]', "5", '"src"', "true"])
def test_a_configuration_that_is_no_object_says_nothing(tmp_path: Path, text: str) -> None:
    """Pyright takes it without a word."""
    assert figure(tmp_path, {CONFIGURATION: text, "m.py": "import absent\n"}) == Published(("absent",), CONFIGURATION)


@pytest.mark.parametrize("text", ["[tool.pyright]\nexclude = [\n", "x = [\n[tool.pyright]\n"])
def test_a_broken_pyproject_is_one_without_the_table(tmp_path: Path, text: str) -> None:
    """The harness took the line for the table, and pyright went by its defaults."""
    found = figure(tmp_path, {"pyproject.toml": text, "m.py": "import absent\n"})

    assert found.missing == ("absent",)
    assert found.selection == "[tool.pyright] in pyproject.toml; pyright cannot read pyproject.toml"


@pytest.mark.parametrize(
    "settings",
    [
        {"reportMissingImports": "true"},
        {"reportOptionalCall": "off"},
        {"strictListInference": "yes"},
        {"executionEnvironments": [{"root": ".", "reportUnusedImport": 3}]},
    ],
)
def test_a_rule_with_an_impossible_value_hides_the_whole_report(tmp_path: Path, settings: Mapping[str, object]) -> None:
    """Pyright complains of it on standard output, which was no JSON for the harness then: it counted nothing."""
    found = figure(tmp_path, {CONFIGURATION: json.dumps(settings), "m.py": "import absent\n"})

    assert found.missing == ()
    assert "; nothing, since pyright complains of " in found.selection


@pytest.mark.parametrize(
    "patterns",
    [
        ["**/" * 4000 + "zzz"],
        ["*a" * 8000 + "b"],
        ["a*" * 5000 + "/" + "?*" * 3000],
        ["../" * 9000 + "m.py"],
        ["*" * 20_000],
        [f"**/*{number}" for number in range(2500)],
    ],
    ids=["folders", "stars", "both", "up", "one", "many"],
)
def test_no_pattern_takes_long(tmp_path: Path, patterns: list[str]) -> None:
    """As regular expressions these take longer than anybody waits; here there is a limit of a second in all."""
    deep = "/".join("a" * 40 for _ in range(60))
    files = {CONFIGURATION: json.dumps({"exclude": patterns}), f"{deep}/{'a' * 200}.py": "import absent\n"}

    assert figure(tmp_path, files).missing == (("absent",) if patterns[0] != "*" * 20_000 else ())


def test_what_no_person_writes_is_not_weighed(tmp_path: Path) -> None:
    """The figure is unknown then, which is not 0."""
    files = {CONFIGURATION: json.dumps({"exclude": ["x"] * 20_000}), "m.py": "import absent\n"}

    found = figure(tmp_path, files)

    assert found.selection.startswith("unknown: pyrightconfig.json has 100")
    assert (found.missing, found.ratio(7)) == ((), "unknown")


def test_deeply_nested_configurations_are_unreadable(tmp_path: Path) -> None:
    """And take no stack with them."""
    text = '{"include": ' + "[" * 15_000 + "]" * 15_000 + "}"

    assert figure(tmp_path, {CONFIGURATION: text, "m.py": "import absent\n"}).missing == ("absent",)


def test_nothing_outside_the_tree_is_read(tmp_path: Path) -> None:
    """Neither through a link nor by what is extended; a link inside the tree is a file like any."""
    (tmp_path / "secret.json").write_text('{"reportMissingImports": false}')
    root = tmp_path / "project"
    files = {"m.py": "import absent\n", "__init__.py": "", "real.json": '{"exclude": ["m.py"]}'}
    figure(root, files)
    diagnostics = [Diagnostic("m.py", 1, "absent", MISSING, "")]
    tree = Tree(root, tuple(sorted({*files, CONFIGURATION})), "")

    (root / CONFIGURATION).symlink_to(tmp_path / "secret.json")
    outside = published_figure(tree, diagnostics, workdir=WORKDIR)
    (root / CONFIGURATION).unlink()
    (root / CONFIGURATION).symlink_to("real.json")
    inside = published_figure(tree, diagnostics, workdir=WORKDIR)

    assert (outside.missing, outside.selection) == (("absent",), "folders with an __init__.py (1)")
    assert (inside.missing, inside.selection) == ((), CONFIGURATION)
    for path in ("../secret.json", str(tmp_path / "secret.json"), "", "."):
        text = json.dumps({"extends": path})
        assert figure(root / "other", {CONFIGURATION: text, "m.py": "import absent\n"}).missing == ("absent",)


@pytest.mark.parametrize("text", ['"\\' * 16_000, '"' + "/* " * 10_000, "/* " * 10_000, '{"include": [], /* '])
def test_what_is_never_closed_is_no_configuration_and_takes_no_time(tmp_path: Path, text: str) -> None:
    """A quote or a comment without an end, tried again from each of its signs, took seconds on 32 KiB."""
    started = time.process_time()

    found = figure(tmp_path, {CONFIGURATION: text, "m.py": "import absent\n"})

    assert time.process_time() - started < 1
    assert found.missing == ("absent",)
    assert "pyright cannot read" in found.selection


# --- comments and stubs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "# type: ignore",
        "#type:ignore",
        "# noqa: F401  # type: ignore[import-untyped] # x",
        "# type: ignore [a:b]",
        "# type: ignore x",
        "# pyright: ignore",
        "# pyright: ignore[ reportMissingImports , other]",
        "# x #pyright:ignore",
    ],
)
def test_a_comment_silences_its_line(tmp_path: Path, comment: str) -> None:
    """As pyright reads them; our own run does not obey them, so they are looked up here."""
    files = {CONFIGURATION: "{}", "m.py": f"x = 1\nimport absent_a  {comment}\nimport absent_b\n"}

    assert figure(tmp_path, files).missing == ("absent_b",)


@pytest.mark.parametrize(
    "comment",
    [
        "# type :ignore",
        "# type: ignored",
        "# type: ignore, x",
        "# type: ignore [a!b]",
        "# type: ignore  [a!b]",
        "# noqa type: ignore",
        "# Type: Ignore",
        "# pyright: ignore[reportUnusedImport]",
        "# pyright: ignore []",
        "# pyright: ignore[a:b]",
        "'# type: ignore'",
    ],
)
def test_a_comment_that_only_looks_so_silences_nothing(tmp_path: Path, comment: str) -> None:
    """Brackets with other rules or other characters, other words, and strings."""
    assert figure(tmp_path, {CONFIGURATION: "{}", "m.py": f"x = 1\nimport absent  {comment}\n"}).missing == ("absent",)


@pytest.mark.parametrize(
    ("head", "counted"),
    [
        ("# type: ignore\n", False),
        ("#!/bin/sh\n\n# type: ignore[x]\n", False),
        ("\ufeff# type: ignore\n", False),
        ('"""Text."""\n# type: ignore\n', True),
        ("# pyright: reportMissingImports=false\n", False),
        ("x = 1  # pyright: reportMissingImports = warning\n", False),
        ("# pyright: reportMissingImports=false, basic\n", False),
        ("# pyright: reportMissingImports=false\n# pyright: strict\n", True),
        ("# pyright: reportMissingImports=nonsense\n", True),
        ("# pyright: off\n", True),
        ("# pyright: ignore\n", True),
    ],
)
def test_a_file_can_be_silenced_as_a_whole(tmp_path: Path, head: str, *, counted: bool) -> None:
    """Before all code by `type: ignore`, and anywhere by what sets the rule; a mode comes before single rules."""
    files = {CONFIGURATION: "{}", "m.py": f"{head}import absent\n"}

    assert figure(tmp_path, files).missing == (("absent",) if counted else ())


def test_a_file_can_ask_for_more_than_the_configuration(tmp_path: Path) -> None:
    """Modes and rules of a file come last."""
    files = {f"{name}.py": f"# pyright: {name}\nimport absent_{name}\n" for name in ("basic", "standard", "strict")}
    files |= {"one.py": "# pyright: reportMissingImports=true\nimport absent_one\n", "two.py": "import absent_two\n"}

    found = figure(tmp_path, {CONFIGURATION: '{"reportMissingImports": false}', **files})

    assert found.missing == ("absent_basic", "absent_one", "absent_standard", "absent_strict")


def test_a_configuration_can_have_type_ignore_comments_disobeyed(tmp_path: Path) -> None:
    """Those of pyright's own kind are obeyed all the same."""
    files = {
        "m.py": "import absent_a  # type: ignore\nimport absent_b  # pyright: ignore\n",
        "n.py": "# type: ignore\n",
    }

    found = figure(tmp_path, {CONFIGURATION: '{"enableTypeIgnoreComments": false}', **files})

    assert found.missing == ("absent_a",)


def test_what_is_no_python_counts_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    """Pyright reports imports of such files, too."""
    files = {
        "a.py": "import absent_a  # type: ignore\nprint 'x'\nimport absent_b\n",
        "b.py": "import absent_c  # type: ignore\nx = (\nimport absent_d\n",
        "c.py": "import absent_e  # type: ignore\r\nimport absent_f\r\n",
    }

    assert figure(tmp_path, {CONFIGURATION: "{}", **files}).missing == ("absent_b", "absent_d", "absent_f")


def test_stubs_in_the_tree_are_found(tmp_path: Path) -> None:
    """Beside or above the importer, in `src`, and in `typings`; our run gets no stubs, so they are looked up here."""
    imports = ["absent_a", "absent_b.c", "absent_d", "absent_e.f", "absent_g", "absent_h", "absent_e.x"]
    stubs = ["absent_a.pyi", "absent_b/c.pyi", "typings/absent_d.pyi", "typings/absent_e/__init__.pyi"]
    stubs += ["typings/absent_e/f.pyi", "src/absent_g.pyi", "other/absent_h.pyi"]
    files = {"deep/m.py": "".join(f"import {name}\n" for name in imports), **dict.fromkeys(stubs, "")}

    assert figure(tmp_path, {CONFIGURATION: "{}", **files}).missing == ("absent_e", "absent_h")
    found = figure(tmp_path, {CONFIGURATION: '{"stubPath": "other"}', **files})
    assert found.missing == ("absent_d", "absent_e")


def test_extra_paths_are_looked_in(tmp_path: Path) -> None:
    """Those of the file's execution environment, else those of the configuration, and the environment's root."""
    text = json.dumps(
        {
            "extraPaths": ["libs"],
            "executionEnvironments": [{"root": "x"}, {"root": "y", "extraPaths": []}],
        }
    )
    files = {
        "x/m.py": "import absent_a\nimport absent_q\n",
        "y/z/m.py": "import absent_a\nimport absent_b.c\n",
        "libs/absent_a.py": "",
        "y/absent_b/c.py": "",
    }

    assert figure(tmp_path, {CONFIGURATION: text, **files}).missing == ("absent_a", "absent_q")
    del files["y/z/m.py"]
    assert figure(tmp_path / "2", {CONFIGURATION: text, **files}).missing == ("absent_q",)
