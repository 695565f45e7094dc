"""What a probe mentions of a tree, looked up in it by AST: found, missing, or cannot tell."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.model import PathSource, Repository, Sabotage, SabotageKind, Tier, TierSpec
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.references.check import check_references


TREE = {
    "pyproject.toml": """
        [project]
        name = "own"
        dependencies = ["datasets>=2", "torch"]
        [tool.setuptools.package-dir]
        "" = "lib"
        [tool.maturin]
        module-name = "own.compiled"
    """,
    "lib/own/__init__.py": "from own.models import *\nfrom .models import Net as Network\nimport torch\n",
    "lib/own/models.py": """
        import torch
        from dataclasses import dataclass

        @dataclass
        class Base:
            depth: int = 1

        @dataclass
        class Config(Base):
            width: int = 2

        class Net:
            def __init__(self, width, *, depth=1): ...
            @classmethod
            def load(cls, path): ...

        class Layer(torch.nn.Module):
            pass

        def open_ended(a, **rest): ...

        @torch.no_grad()
        def plain(a, b=1): ...

        @torch.compile
        def changed(a): ...

        if torch:
            LATE = 1
        try:
            import fast
        except ImportError as problem:
            fast = None
        def _set():
            global made
    """,
    "lib/own/lazy.py": "def __getattr__(name): ...\n",
    "lib/own/circle.py": "from own.ring import *\nX = 1\n",
    "lib/own/ring.py": "from own.circle import *\n",
    "lib/own/wide.py": "from elsewhere import *\n",
    "lib/own/broken.py": "def (:\n",
    "lib/own/cli.py": """
        import click
        from own.models import Config
        @click.command()
        @click.option("--loud/--no-loud")
        def main(batch_size): ...
    """,
    "datasets/prepare.py": "import argparse\n",
    "conf/model.yaml": "model:\n  hidden_size: 2\n",
    "tools/train.py": """
        import argparse
        from helper import add
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr")
        parser.add_argument("--with_underscore")
        add(parser)
        if __name__ == "__main__":
            result = 1
    """,
    "tools/helper.py": 'def add(parser):\n    parser.add_argument("--hidden")\n',
    "tools/library.py": "from transformers import HfArgumentParser, TrainingArguments\n",
    "tools/data.txt": "x\n",
}


def write(root: Path, files: Mapping[str, str | bytes]) -> Tree:
    """Write a tree; what is no text is written as it is."""
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
    listed = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return Tree(root=root, files=tuple(sorted(listed)), digest="")


def seen(tmp_path: Path, probe: str, tree: Tree | None = None) -> dict[str, str]:
    """Mention → what was found out."""
    folder = tmp_path / "suite" / "own"
    (folder / "probes").mkdir(parents=True, exist_ok=True)
    (folder / "probes" / "c1.py").write_text(textwrap.dedent(probe), encoding="utf-8")
    repository = Repository(
        name="own",
        source=PathSource("."),
        tiers={Tier.C1: TierSpec(probe="probes/c1.py"), Tier.C3: TierSpec(probe="probes/c1.py")},
        folder=str(folder),
    )
    found = check_references(repository, tree or write(tmp_path / "tree", TREE))
    return {reference.text: reference.seen.value for reference in found}


@pytest.mark.parametrize(
    ("line", "mention", "expected"),
    [
        ("import own.models", "module own.models", "found"),
        ("import own.gone", "module own.gone", "missing"),
        ("import own.compiled", "module own.compiled", "cannot tell"),
        ("from own.broken import x", "name own.broken.x", "cannot tell"),
        ("from own.models import Net", "name own.models.Net", "found"),
        ("from own.models import Gone", "name own.models.Gone", "missing"),
        ("from own import Config", "name own.Config", "found"),
        ("from own import Network", "name own.Network", "found"),
        ("from own import torch", "name own.torch", "found"),
        ("from own import models", "name own.models", "found"),
        ("from own.models import LATE", "name own.models.LATE", "found"),
        ("from own.models import fast", "name own.models.fast", "found"),
        ("from own.models import made", "name own.models.made", "found"),
        ("from own.lazy import anything", "name own.lazy.anything", "cannot tell"),
        ("from own.circle import X", "name own.circle.X", "found"),
        ("from own.ring import X", "name own.ring.X", "found"),
        ("from own.ring import Y", "name own.ring.Y", "missing"),
        ("from own.wide import anything", "name own.wide.anything", "cannot tell"),
        ("import own.models as m\nm.plain(1)", "name own.models.plain", "found"),
        ("import own.models as m\nm.gone(1)", "name own.models.gone", "missing"),
        ("from own.models import Net\nNet.load('x')", "name own.models.Net.load", "found"),
        ("from own.models import Net\nNet.gone('x')", "name own.models.Net.gone", "missing"),
        ("from own.models import Layer\nLayer.parameters", "name own.models.Layer.parameters", "cannot tell"),
        ("import importlib\nimportlib.import_module('own.gone')", "module own.gone", "missing"),
        ("import runpy\nrunpy.run_module('own.cli')", "module own.cli", "found"),
        ("import sys\nrun([sys.executable, '-m', 'own.gone'])", "module own.gone", "missing"),
        ("serve('own.cli:main')", "name own.cli.main", "found"),
        ("serve('own.cli:app')", "name own.cli.app", "missing"),
        ("hook('own.models.gone')", "string own.models.gone", "cannot tell"),
        ("try:\n    import own.gone\nexcept ImportError:\n    pass", "module own.gone", "cannot tell"),
    ],
)
def test_modules_and_names(tmp_path: Path, line: str, mention: str, expected: str) -> None:
    """A module's file has to be there, and what is taken from it bound at its top level."""
    assert seen(tmp_path, line)[mention] == expected


@pytest.mark.parametrize(
    ("line", "mention", "expected"),
    [
        ("Config(width=1, depth=2)", "keyword depth of own.models.Config", "found"),
        ("Config(height=1)", "keyword height of own.models.Config", "missing"),
        ("Net(depth=2)", "keyword depth of own.models.Net", "found"),
        ("Net(gone=2)", "keyword gone of own.models.Net", "missing"),
        ("Net.load(path=2)", "keyword path of own.models.Net.load", "found"),
        ("Net.load(file=2)", "keyword file of own.models.Net.load", "missing"),
        ("Layer(size=2)", "keyword size of own.models.Layer", "cannot tell"),
        ("open_ended(b=2)", "keyword b of own.models.open_ended", "cannot tell"),
        ("plain(b=2)", "keyword b of own.models.plain", "found"),
        ("plain(c=2)", "keyword c of own.models.plain", "missing"),
        ("changed(c=2)", "keyword c of own.models.changed", "cannot tell"),
    ],
)
def test_keyword_arguments(tmp_path: Path, line: str, mention: str, expected: str) -> None:
    """A keyword has to be a parameter, or a field, unless what is called takes any."""
    assert (
        seen(
            tmp_path,
            f"from own.models import *\nfrom own.models import {line.partition('(')[0].partition('.')[0]}\n{line}",
        )[mention]
        == expected
    )


@pytest.mark.parametrize(
    ("line", "mention", "expected"),
    [
        ("REPO / 'tools' / 'data.txt'", "file tools/data.txt", "found"),
        ("str(probekit.REPO / 'tools/gone.txt')", "file tools/gone.txt", "missing"),
        ("f\"{REPO / 'tools' / 'gone'}/x\"", "file tools/gone/x", "missing"),
        ("os.path.join(os.environ['RESEARCHENV_REPO'], 'conf')", "file conf", "found"),
        ("REPO / 'tools' / f'{name}.py'", "file tools/….py", "found"),
        ("REPO / 'gone' / f'{name}.py'", "file gone/….py", "missing"),
        ("REPO / 'tools' / f'{name}.rs'", "file tools/….rs", "cannot tell"),
        ("run_script('tools/train.py', '--lr', 1)", "option --lr of tools/train.py", "found"),
        ("run_script('tools/train.py', f'--hidden={x}')", "option --hidden of tools/train.py", "found"),
        ("run_script('tools/train.py', '--gone=1')", "option --gone of tools/train.py", "missing"),
        ("run_script('tools/train.py', '--with-underscore')", "option --with-underscore of tools/train.py", "missing"),
        ("run_script('tools/library.py', '--fp16')", "option --fp16 of tools/library.py", "cannot tell"),
        ("run_ranks('tools/gone.py')", "file tools/gone.py", "missing"),
        ("run_script('tools/train.py', 'model.hidden_size=3')", "setting model.hidden_size of tools/train.py", "found"),
        ("run_script('tools/train.py', 'model.gone=3')", "setting model.gone of tools/train.py", "missing"),
        ("run_script('tools/train.py', 'model.far.gone=3')", "setting model.far.gone of tools/train.py", "cannot tell"),
        ("run_script('tools/train.py', '+model.gone=3')", "setting +model.gone of tools/train.py", "cannot tell"),
        ("run_script('tools/train.py')['result']", "global result of tools/train.py", "found"),
        ("made = run_script('tools/train.py')\nmade['gone']", "global gone of tools/train.py", "missing"),
        ("main(['--loud', '--batch-size', '3'])", "option --batch-size of own.cli.main", "found"),
        ("main(['--no-loud'])", "option --no-loud of own.cli.main", "found"),
        ("main(['--quiet'])", "option --quiet of own.cli.main", "missing"),
        ("sys.argv = ['x', '--quiet']", "option --quiet of own.cli.main or own.models.Config", "missing"),
    ],
)
def test_files_and_options(tmp_path: Path, line: str, mention: str, expected: str) -> None:
    """A file has to be there; an option is declared in the script, or in what it imports."""
    head = (
        "import sys\nfrom own.cli import main\nfrom own.models import Config\nfrom probekit import REPO, run_script\n"
    )

    assert seen(tmp_path, head + line)[mention] == expected


def test_arguments_are_followed_through_names(tmp_path: Path) -> None:
    """Constants, loops, parameters and dictionaries lead to the options and scripts that are used in the end."""
    found = seen(
        tmp_path,
        """
        from probekit import REPO, run_script
        FOLDER = REPO / "tools"
        COMMON = ["--lr", "1"]

        def start(script, *more, **named):
            options = {"hidden": 1}
            options |= {"gone": 2}
            options["far"] = 3
            run_script(script, *COMMON, *more, *(f"--{name}={value}" for name, value in options.items()))

        def other():
            name = "elsewhere"

        for script in (FOLDER / "train.py", FOLDER / "lost.py"):
            start(script, "--fast")

        WORDS = "--lr 1 --slow"
        more = {"--deep": 1}
        run_script("tools/train.py", *WORDS.split(), *(part for pair in more.items() for part in pair))
        """,
    )

    assert found["option --slow of tools/train.py"] == found["option --deep of tools/train.py"] == "missing"

    owners = "of tools/train.py or tools/lost.py"
    assert found["file tools/lost.py"] == "missing"
    assert found[f"option --lr {owners}"] == "found"
    assert found[f"option --hidden {owners}"] == "found"
    assert {found[f"option {name} {owners}"] for name in ("--fast", "--gone", "--far")} == {"missing"}
    assert not any("elsewhere" in mention for mention in found)


def test_functions_of_shared_modules_are_looked_into(tmp_path: Path) -> None:
    """Each call has the arguments of its own."""
    shared = tmp_path / "suite" / "_shared"
    shared.mkdir(parents=True)
    (shared / "lines.py").write_text(
        'def options(**named):\n    return [f"--{name}={value}" for name, value in named.items()]\n'
    )

    found = seen(
        tmp_path,
        """
        from lines import options
        run_script("tools/train.py", *options(lr=1, gone=2))
        run_script("tools/library.py", *options(other=1))
        subprocess.run([sys.executable, "tools/train.py", "--quick", *options(slow=1)])
        subprocess.run([sys.executable, "written.py"])
        """,
    )

    assert {name: found.pop(f"option --{name} of tools/train.py") for name in ("lr", "gone", "quick", "slow")} == {
        "lr": "found",
        "gone": "missing",
        "quick": "missing",
        "slow": "missing",
    }
    assert found.pop("option --other of tools/library.py") == "cannot tell"
    assert found.pop("file written.py") == "cannot tell"
    assert set(found) == {"file tools/train.py", "file tools/library.py"}


def test_what_is_not_of_the_tree_is_passed_over(tmp_path: Path) -> None:
    """Neither the standard library nor other packages are looked up, though a folder of the tree is called so."""
    assert seen(tmp_path, "import json\nimport torch.nn\nfrom datasets import Dataset\nDataset.from_list([])\n") == {}


def test_definitions_that_go_round_in_circles_end(tmp_path: Path) -> None:
    """A value that is made of itself is not known."""
    found = seen(tmp_path, "x = y\ny = x + x\nx = [*x, *y]\ndef f(a):\n    return f(a)\nrun_script(f(x), *y, *f(y))\n")

    assert found == {}


def test_values_that_branch_without_end_end(tmp_path: Path) -> None:
    """How many there are doubles from line to line."""
    lines = [f"x{index + 1} = x{index} if x{index} else f'{{x{index}}}{{x{index}}}' + x{index}" for index in range(30)]

    assert seen(tmp_path, "\n".join(["x0 = 'a'", *lines, "import own", "run_script(x30, x30)"])) == {
        "module own": "found"
    }


@pytest.mark.parametrize("probe", ["def (:", "a = 1\0", "a = " + "-" * 100_000 + "1"])
def test_a_probe_that_is_no_python_is_a_problem(tmp_path: Path, probe: str) -> None:
    """It is named, whatever else."""
    assert [*seen(tmp_path, probe).values()] == ["missing"]


def test_a_tree_that_is_odd_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Links out of the tree, circles of links, huge files and other encodings lead nowhere else, and to no error."""
    (tmp_path / "outside.py").write_text("Secret = 1\n")
    root = tmp_path / "tree"
    write(
        root,
        {
            "own/__init__.py": b"",
            "own/latin.py": b"# -*- coding: latin-1 -*-\nGr\xf6sse = 1\n",
            "own/nul.py": b"a = 1\0",
            "own/unknown.py": b"# -*- coding: nonsense -*-\nA = 1\n",
            "own/huge.py": b"A = 1\n" + b"#" * 3_000_000,
            "own/deep.py": b"A = " + b"-" * 100_000 + b"1\n",
            "own/long.py": b"A = 1" + b" + 1" * 3000 + b"\n",
            "pyproject.toml": b"project = 1\ntool = []\nx = " + b"1" * 5000,
            "setup.cfg": b"\xff\xfe",
        },
    )
    (root / "own" / "out.py").symlink_to(tmp_path / "outside.py")
    (root / "own" / "inside.py").symlink_to("latin.py")
    (root / "own" / "round.py").symlink_to("round.py")
    (root / "package").symlink_to("own")
    tree = write(root, {})

    found = seen(
        tmp_path,
        """
        from own.latin import Grösse
        from own.inside import Grösse
        from package.latin import Grösse
        from own.out import Secret
        from own.round import A
        from own.nul import a
        from own.unknown import A
        from own.huge import A
        from own.deep import A
        REPO / "own" / "out.py"
        """,
        tree,
    )

    good = ("own.latin.Grösse", "own.inside.Grösse", "package.latin.Grösse")
    assert {found[f"name {name}"] for name in good} == {"found"}
    odd = ("own.out.Secret", "own.round.A", "own.nul.a", "own.unknown.A", "own.huge.A", "own.deep.A")
    assert {found[f"name {name}"] for name in odd} == {"cannot tell"}
    assert found["file own/out.py"] == "cannot tell"


def test_commands_and_sabotage_of_a_description(tmp_path: Path) -> None:
    """`argv` names a script with its options, `-m` a module, `[sabotage.entry]` a file."""
    tree = write(tmp_path / "tree", TREE)
    argv = (
        "{python}",
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        "{observer}",
        "tools/train.py",
        "--lr",
        "--gone={nproc}",
    )
    repository = Repository(
        name="own",
        source=PathSource("."),
        tiers={
            Tier.C1: TierSpec(argv=argv),
            Tier.C3: TierSpec(argv=("{python}", "-m", "own.gone"), environment={"PYTHONPATH": "{repo}/nowhere"}),
            Tier.C4: TierSpec(argv=("{python}", "lost.py"), workdir="{repo}/tools"),
        },
        sabotage={SabotageKind.ENTRY: Sabotage("lib/own/lost.py", (Tier.C1,))},
        folder=str(tmp_path),
    )

    found = {one.text: one.seen.value for one in check_references(repository, tree)}

    assert found == {
        "file tools/train.py": "found",
        "option --lr of tools/train.py": "found",
        "option --gone of tools/train.py": "missing",
        "module own.gone": "missing",
        "file nowhere": "missing",
        "file tools/lost.py": "missing",
        "file lib/own/lost.py": "missing",
    }


def test_the_command_names_what_is_missing_and_which_trees_could_not_be_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what is missing makes the suite invalid; the page lists each repository with its tree."""
    suite = tmp_path / "suite"
    tier = '[tiers.C1]\nargv = ["{python}", "SCRIPT"]\n[tiers.C1.evidence]\noutput = ["done"]\n'
    for name, script, path in (("good", "a.py", "tree"), ("bad", "b.py", "tree"), ("lost", "a.py", "nowhere")):
        (suite / name).mkdir(parents=True)
        source = f'[source]\npath = "{tmp_path / path}"\n'
        (suite / name / "repo.toml").write_text(f'name = "{name}"\n{source}{tier.replace("SCRIPT", script)}')
    (suite / "suite.toml").write_text('name = "suite"\n')
    write(tmp_path / "tree", {"a.py": "print('done')\n"})
    page = tmp_path / "page.md"
    command = ["validate", str(suite), "--probes", "--cache", str(tmp_path / "cache")]

    assert main([*command, "--output", str(page)]) == 1

    said = capsys.readouterr().out
    assert "bad: 1 references, 0 found, 1 missing, 0 cannot tell\n  repo.toml: file b.py: missing\n" in said
    assert "lost: not looked up: " in said
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")][2:]
    assert rows == [
        "| bad | 1 | 0 | 1 | 0 | copy † |",
        "| good | 1 | 1 | 0 | 0 | copy † |",
        "| lost | | | | | could not be had |",
    ]
    (suite / "bad" / "repo.toml").write_text((suite / "good" / "repo.toml").read_text().replace('"good"', '"bad"'))
    assert main(command) == 0
    assert main([*command, "--imports", "--output", os.devnull]) == 1
    (tmp_path / "tree").rename(tmp_path / "elsewhere")
    assert main(command) == 1


@pytest.mark.parametrize(
    ("line", "mention", "expected"),
    [
        ("REPO / '\\x1b[2J\\n'", "file \\x1b[2J\\n", "missing"),
        ("REPO / '\\ud800'", "file \\ud800", "missing"),
        ("REPO / f'" + "{x}e" * 40 + "'", "file " + "…e" * 40, "cannot tell"),
        ("REPO / f'{x}ools/d{x}ta.{x}xt'", "file …ools/d…ta.…xt", "found"),
        ("REPO / f'tools/data.txt{x}data.txt'", "file tools/data.txt…data.txt", "cannot tell"),
    ],
)
def test_what_cannot_be_printed_or_matches_in_many_ways_does_no_harm(
    tmp_path: Path, line: str, mention: str, expected: str
) -> None:
    """No control characters reach a terminal, and no number of unknown parts takes ages."""
    assert seen(tmp_path, line)[mention] == expected
