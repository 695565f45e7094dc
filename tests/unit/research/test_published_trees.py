"""Trees of published tasks: what agents get holds nothing of what is withheld, or it is not given at all."""

from __future__ import annotations

import compileall
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import Cut, PrunedSource, Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.source import fetch, identity
from pytest_researchenv.suite import find_suite
from tests.unit.gitting import git


#: A module with the withheld method in it, as the published tree of retrieval has it.
MODULE = b'''\
"""A model."""
import math


class Net:
    size = 3

    @property
    def \xc3\xa4(self):
        return self.size

    @staticmethod
    def forward_secret(x,
                       y):
        """Sums the secret losses up, and one more."""
        loss_a = x + y
        loss_b = math.sqrt(x * y)
        return loss_a, loss_b, "a text that is long enough to be told"
    # a remark

    def forward(self, x):
        return x  # the rest
'''
DEFINITION = MODULE[MODULE.index(b"@static") : MODULE.index(b"    # a remark")]
CUT = MODULE[: MODULE.index(b"    @staticmethod")] + MODULE[MODULE.index(b"    # a remark") :]


def commit(folder: Path, files: Mapping[str, bytes | None]) -> str:
    """Commit files of a repository, None being one that goes; return the commit."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet")
    for name, content in files.items():
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x")
    return git(folder, "rev-parse", "HEAD")


FILES = {
    "README.md": b"All tasks; the method is Sesame.\n",
    "task/README.md": b"Find a better method.\n",
    "task/models/net.py": MODULE,
    "task/models/secret.py": b"def open_it(model):\n    return model.forward_secret(1, 2)  # Sesame is withheld\n",
    "task/grading/grade.py": b"print('right')\n",
    "task/hint.txt": b"Say the word, and the rock will open; then take what you find in there.\n",
}
CUTS = (
    Cut("models/secret.py", secret=True),
    Cut("models/net.py", ("Net.forward_secret",), secret=True),
    Cut("grading"),
    Cut("hint.txt"),
)


@pytest.fixture
def pruned(tmp_path: Path) -> Callable[..., Tree]:
    """Fetch the folder `task` of a repository with these files besides, pruned."""

    def make(
        files: Mapping[str, bytes | None] | None = None,
        *,
        cuts: tuple[Cut, ...] = CUTS,
        folder: str = "task",
        prepare: Callable[[Path], object] = lambda _: None,
    ) -> Tree:
        origin = tmp_path / "origin"
        commit(origin, FILES | dict(files or {}))
        prepare(origin)
        source = PrunedSource(
            str(origin),
            commit(origin, {"task/last": b"1"}),
            folder=folder,
            cuts=cuts,
            words=("Sesame",),
            phrases=("Open, Sesame: on Caves", "2501.00001"),
        )
        return fetch(Repository(name="toy", source=source), cache=tmp_path / "cache")

    return make


PUBLISHED = (
    "continual-learning",
    "cross-modal-retrieval",
    "improving-replay-buffers",
    "materials-tokenization",
    "time-series-explanation",
)


@pytest.fixture(params=PUBLISHED)
def task(request: pytest.FixtureRequest) -> Task:
    """Each published task."""
    tasks = load_research_suite(find_suite("researchgym")).tasks
    return next(one for one in tasks if one.name == request.param)


def shaped(task: Task) -> dict[str, bytes]:
    """Files of the paths that a task's description names, and some that stay, as the published commit has them."""
    files = {"task_description.md": b"What is to be found.\n", "main.py": b"import utils\n", "utils.py": b"A = 1\n"}
    for one in task.removed:
        if one.parts:
            owner = one.parts[0].partition(".")[0]
            names = [part.partition(".")[2] for part in one.parts]
            bodies = "\n".join(f"    def {name}(self):\n        return 'loss of {task.name}'\n" for name in names)
            files[one.path] = f"class {owner}:\n    def encode(self):\n        return 1\n\n{bodies}".encode()
        elif one.path == "grading":
            files |= {"grading/grade.py": b"print(1)\n", "grading/grade.sh": b"python grading/grade.py\n"}
        else:
            files[one.path] = f"{task.withheld.method}: {task.withheld.paper} {task.withheld.address}\n".encode()
    return files


def inside(task: Task, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files as they lie in the commit."""
    return {f"{task.source.folder}/{name}": content for name, content in files.items()}


def test_trees_of_published_tasks_hold_nothing_that_is_withheld(task: Task, tmp_path: Path) -> None:
    """Of each of the five: what its description removes is gone, by its own paths, and the rest is as it was."""
    origin, files = tmp_path / "origin", shaped(task)
    made = commit(
        origin, {f"{task.source.folder}/{name}": content for name, content in files.items()} | {"LICENSE": b"x"}
    )
    place = workplace_of(replace(task, source=replace(task.source, git=str(origin), commit=made)))

    tree = fetch(place, cache=tmp_path / "cache")

    whole = {one.path for one in task.removed if not one.parts}
    expected = {name for name in files if name not in whole and not name.startswith("grading/")}
    assert set(tree.files) == expected
    content = b"".join((tree.root / name).read_bytes() for name in tree.files)
    assert task.withheld.method.encode() not in content
    assert not [part for one in task.removed for part in one.parts if part.rpartition(".")[2].encode() in content]
    assert (tree.root / "main.py").read_bytes() == files["main.py"]
    assert git(tree.root, "rev-list", "--all", "--count") == "1"


def test_what_stays_in_a_published_tree_is_looked_at(task: Task, tmp_path: Path) -> None:
    """Of each of the five: a file that names the withheld paper stops the run, wherever it is."""
    origin, files = tmp_path / "origin", shaped(task)
    title = task.withheld.paper.rpartition(", ")[0].upper().replace(" ", "\n  ")
    made = commit(origin, inside(task, {**files, "docs/new.md": f"See {title}.\n".encode()}))
    place = workplace_of(replace(task, source=replace(task.source, git=str(origin), commit=made)))

    with pytest.raises(SourceError, match=r"docs/new\.md:1 names"):
        fetch(place, cache=tmp_path / "cache")


def test_the_record_of_a_tree_tells_no_secret(task: Task) -> None:
    """What is written into records and messages as the source names neither the method nor what was taken out."""
    shown = identity(workplace_of(task), tree=lambda place: pytest.fail(f"{place.name} was fetched"))
    assert task.withheld.method not in shown
    assert "grading" not in shown
    assert task.source.commit in shown


def test_definitions_are_cut_and_the_rest_is_kept_byte_for_byte(pruned: Callable[..., Tree]) -> None:
    """A method goes with its decorators; remarks, other scripts than Latin, and times of files stay."""
    tree = pruned()
    assert tree.files == ("README.md", "last", "models/net.py")
    assert (tree.root / "models/net.py").read_bytes() == CUT
    times = {(tree.root / name).stat().st_mtime for name in tree.files}
    assert len(times) == 1


@pytest.mark.parametrize(
    ("source", "part", "left"),
    [
        (b"def f():\n    pass\n", "f", b"pass\n"),
        (b"class A:\n    def f(self): return 1\nB = 2\n", "A.f", b"class A:\n    pass\nB = 2\n"),
        (b"if 1:\n def f(): pass\nelse:\n def f(): return 1\nx = 1\n", "f", b"if 1:\n pass\nelse:\n pass\nx = 1\n"),
        (b"X = (1,\n  2)\r\nY = 2\r\n", "X", b"Y = 2\r\n"),
        (b"# coding: latin-1\nA = '\xe4'\nB = 1\n", "B", b"# coding: latin-1\nA = '\xe4'\n"),
        (b"\xef\xbb\xbfA: int = 1\nB = 1\n", "B", b"\xef\xbb\xbfA: int = 1\n"),
        (b"async def f():\n    pass\nasync def g(): pass", "g", b"async def f():\n    pass\n"),
        (b"@one\n@two(\n 1)\nclass Last:\n    x = 1\n\n\ny = 1\n", "Last", b"\n\ny = 1\n"),
    ],
    ids=["alone", "only-method", "branches", "line-ends", "latin", "mark", "last-line", "decorators"],
)  # fmt: skip
def test_every_form_of_a_definition_is_cut(pruned: Callable[..., Tree], source: bytes, part: str, left: bytes) -> None:
    """What is left of the file is Python, and is what it was."""
    cuts = (*CUTS, Cut("more.py", (part,)))
    tree = pruned({"task/more.py": source}, cuts=cuts)
    assert (tree.root / "more.py").read_bytes() == left


@pytest.mark.parametrize(
    ("source", "part", "said"),
    [
        (b"def f(): pass\n", "g", "does not define 'g'"),
        (b"def f():\n    loss = 1\n    return loss\n", "loss", "does not define 'loss'"),
        (b"class A:\n    def f(self): pass\n", "f", "does not define 'f'.*known: A, A.f"),
        (b"x = 1; y = 2\n", "y", "shares its lines"),
        (b"class A: x = 1\n", "A.x", "shares its lines"),
        (b"def f(:\n", "f", "cannot be read as Python"),
        (b"print 'x'\ndef f(): pass\n", "f", "cannot be read as Python"),
        (b"def gone(): pass\nX = [gone()]\n", "gone", "more.py:1 names gone"),
    ],
    ids=["absent", "local", "method", "one-line", "header", "broken", "python-2", "still-used"],
)  # fmt: skip
def test_what_cannot_be_cut_stops(pruned: Callable[..., Tree], source: bytes, part: str, said: str) -> None:
    """A name that is not there, shared lines, and a name that is still used are errors, and never a half-cut file."""
    with pytest.raises(SourceError, match=said):
        pruned({"task/more.py": source}, cuts=(*CUTS, Cut("more.py", (part,))))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("Hint.txt", "'Hint.txt' is not there; did you mean 'hint.txt'"),
        ("models/nothing.py", "'nothing.py' is not there"),
        ("nothing/at/all", "'nothing' is not there"),
        ("README.md/x", "lies behind 'README.md'"),
    ],
    ids=["case", "file", "folder", "behind-a-file"],
)
def test_a_removal_that_matches_nothing_stops(pruned: Callable[..., Tree], path: str, said: str) -> None:
    """A slip in a path would leave there what it should take away."""
    with pytest.raises(SourceError, match=said):
        pruned(cuts=(Cut(path), *CUTS))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("task/notes.md", b"Try\nSesame.\n", "notes.md:2 names 'Sesame'"),
        ("task/Sesame/a.txt", b"1", "in its name"),
        ("task/notes.md", b"open,\n  sesame: on CAVES\n", "names 'Open, Sesame: on Caves'"),
        ("task/exps/a.yaml", b"see: arxiv.org/abs/2501.00001v2\n", "names '2501.00001'"),
        ("task/model.bin", b"\0\1Sesame\0", "model.bin names 'Sesame'"),
        ("task/HINT.txt", b"something else\n", "differs from 'hint.txt' in case alone"),
        ("task/old/tip", FILES["task/hint.txt"], "old/tip is a copy of hint.txt"),
        ("task/models/net_old.py", MODULE.replace(b"    ", b"\t").replace(b"forward_secret", b"f"), ""),
        ("task/net2.py", b"if 1:\n  " + DEFINITION, "has a copy of Net.forward"),
        ("task/run.py", b"from models.secret import open_it\n", "run.py:1 imports models.secret"),
        ("task/models/run.py", b"from . import secret\n", "run.py:1 imports models.secret"),
        ("task/models/run.py", b"def f():\n    import secret\n", "run.py:2 imports secret"),
        ("task/run.py", b"def go(m):\n    return m.forward_secret(1, 2)\n", "run.py:2 names Net.forward_secret"),
        ("task/run.sh", b"python Models/Secret.py\n", "run.sh names models/secret.py"),
        ("task/backup.bundle", b"# v2 git bundle\n...", "a part of a Git repository"),
        ("task/a.pack", b"PACK\0\0\0\2", "a part of a Git repository"),
        ("task/old.git/HEAD", b"ref: refs/heads/main\n", ""),
    ],
    ids=[
        "word", "word-in-name", "title", "number", "binary", "case", "copy", "rewritten", "copied-definition", "import",
        "relative-import", "bare-import", "call", "path", "bundle", "pack", "no-repository",
    ],
)  # fmt: skip
def test_what_still_tells_the_secret_stops(pruned: Callable[..., Tree], name: str, content: bytes, said: str) -> None:
    """Names, titles, copies, imports, histories: each is found where it is, and told with its place."""
    if said:
        with pytest.raises(SourceError, match=said):
            pruned({name: content})
    else:
        assert pruned({name: content}).files


def test_ordinary_words_tell_no_secret(pruned: Callable[..., Tree]) -> None:
    """A method may be named like a word: only the word itself is it, in its own case; a shared name is anybody's."""
    more = {
        "task/food.md": b"sesame seeds, SESAME, OpenSesames\n",
        "task/other.py": b"def forward_secret(x):\n    return x\n",
    }
    assert "food.md" in pruned(more).files


def test_bytecode_goes_with_its_module(pruned: Callable[..., Tree], tmp_path: Path) -> None:
    """A module that was taken out cannot be imported from what Python compiled of it."""

    def compiled(origin: Path) -> None:
        compileall.compile_dir(origin / "task/models", quiet=2, legacy=True)
        compileall.compile_dir(origin / "task/models", quiet=2)

    tree = pruned(prepare=compiled)

    assert (tmp_path / "origin/task/models/secret.pyc").exists()
    assert not [name for name in tree.files if ".pyc" in name or "__pycache__" in name]
    done = subprocess.run(
        [sys.executable, "-c", "import models.secret"], cwd=tree.root, capture_output=True, check=False
    )
    assert b"ModuleNotFoundError" in done.stderr


def test_no_object_of_git_holds_what_was_taken_out(pruned: Callable[..., Tree]) -> None:
    """Neither an earlier commit nor a loose object is in the agent's repository, and there is nowhere to fetch from."""
    tree = pruned()
    objects = git(
        tree.root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"
    ).splitlines()
    contents = [git(tree.root, "cat-file", "-p", one.split()[0]) for one in objects if one.endswith("blob")]
    assert contents
    assert not [one for one in contents if "Sesame" in one or "forward_secret" in one or "rock" in one]
    assert not git(tree.root, "remote")
    assert not (tree.root / ".git/objects/info/alternates").exists()


@pytest.mark.parametrize(
    ("name", "goal", "said"),
    [
        ("task/out", "../README.md", "out is a link to '../README.md'"),
        ("task/out", "/etc/passwd", "is a link to '/etc/passwd'"),
        ("task/models/out", "../hint.txt", "models/out is a link to '../hint.txt', outside .* was taken out"),
        ("task/out", "models/../../README.md", "is a link"),
        ("task/loop", "loop", "is a link"),
        ("task/within", "models/net.py", ""),
    ],
    ids=["up", "absolute", "taken-out", "roundabout", "loop", "within"],
)
def test_links_lead_nowhere_else(pruned: Callable[..., Tree], name: str, goal: str, said: str) -> None:
    """What a link outside leads to in an agent's container is not known here."""

    def link(origin: Path) -> None:
        (origin / name).symlink_to(goal)

    if said:
        with pytest.raises(SourceError, match=said):
            pruned(prepare=link)
    else:
        assert "within" in pruned(prepare=link).files


def test_links_are_taken_out_and_not_followed(pruned: Callable[..., Tree]) -> None:
    """A name that only leads to the file would leave the file there, and a folder behind a link is another's."""

    def move(origin: Path) -> None:
        (origin / "task/hint.txt").rename(origin / "task/docs.txt")
        (origin / "task/hint.txt").symlink_to("docs.txt")

    with pytest.raises(SourceError, match=r"'hint.txt' is a link to 'docs.txt', which stays"):
        pruned(prepare=move)


def test_folders_behind_links_are_none(pruned: Callable[..., Tree]) -> None:
    """Neither the task's folder nor one of a removal may be reached through a link."""
    with pytest.raises(SourceError, match=r"'alias' is a file or a link"):
        pruned(folder="alias", prepare=lambda origin: (origin / "alias").symlink_to("task"))
    cuts = (*CUTS[1:], Cut("m/secret.py", secret=True))
    with pytest.raises(SourceError, match=r"lies behind 'm'"):
        pruned(cuts=cuts, prepare=lambda origin: (origin / "task/m").symlink_to("models"))


def test_a_folder_must_be_there_and_hold_something(pruned: Callable[..., Tree], tmp_path: Path) -> None:
    """A task's folder that was renamed, is a file, or is a submodule's is told, and no empty tree is given."""
    with pytest.raises(SourceError, match=r"no folder 'tusk': 'tusk' is not there; did you mean 'task'"):
        pruned(folder="tusk")
    with pytest.raises(SourceError, match=r"'README.md' is a file or a link"):
        pruned(folder="README.md")
    other = tmp_path / "other"
    commit(other, {"a.py": b"1"})
    with pytest.raises(SourceError, match=r"is empty, as that of a submodule is"):
        pruned(folder="sub", prepare=lambda origin: git(origin, "submodule", "--quiet", "add", str(other), "sub"))


def test_a_tree_is_made_again_where_anything_that_shaped_it_differs(tmp_path: Path) -> None:
    """The cache keeps a tree by its commit, folder, cuts, words and rules, and gives back none of another's."""
    origin = tmp_path / "origin"
    made = commit(origin, FILES)
    source = PrunedSource(str(origin), made, folder="task", cuts=CUTS, words=("Sesame",))
    first = fetch(Repository(name="toy", source=source), cache=tmp_path / "cache")
    assert fetch(Repository(name="toy", source=source), cache=tmp_path / "cache") == first

    others = [
        replace(source, cuts=(*CUTS, Cut("README.md"))),
        replace(source, rules=source.rules + 1),
        replace(source, words=("Sesame", "Ali")),
    ]
    roots = {first.root, *(fetch(Repository(name="toy", source=one), cache=tmp_path / "cache").root for one in others)}

    assert len(roots) == 4
    assert len({str(one) for one in (source, *others)}) == 4


def test_a_tree_that_was_tampered_with_is_made_again(pruned: Callable[..., Tree]) -> None:
    """What somebody put into the cache is not given to an agent."""
    tree = pruned()
    (tree.root / "hint.txt").write_text("the hint is back\n")
    assert "hint.txt" not in pruned({"task/last": b"2"}).files


def test_several_processes_make_a_tree_once(tmp_path: Path) -> None:
    """Of processes that want a tree at once, one works and the others wait for it."""
    origin = tmp_path / "origin"
    source = PrunedSource(str(origin), commit(origin, FILES), folder="task", cuts=CUTS, words=("Sesame",))
    code = (
        "import sys; from pathlib import Path; from pytest_researchenv.model import Cut, PrunedSource, Repository;"
        "from pytest_researchenv.source import fetch;"
        f"print(fetch(Repository(name='toy', source={source!r}), cache=Path({str(tmp_path / 'cache')!r})).digest)"
    )

    def run(_: int) -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        digests = set(pool.map(run, range(3)))

    assert len(digests) == 1
    assert [one.name for one in (tmp_path / "cache/trees").iterdir() if one.is_dir()] == [
        one.name.removesuffix(".lock") for one in (tmp_path / "cache/trees").glob("*.lock")
    ]
