"""Suites: what is right is read, what is wrong is named by file, key, value and fix."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from pytest_researchenv.errors import ConfigurationError, SuiteError
from pytest_researchenv.model import GitSource, PathSource, PypiSource, SabotageKind, Tier
from pytest_researchenv.suite import find_suite, load_suite, resolve_probe, suite_names, validate


PYPI = f'[source]\npypi = "kvpress"\nversion = "0.5.5"\nsha256 = "{"a" * 64}"\n'
GIT = f'[source]\ngit = "https://host.example/owner/name"\ncommit = "{"b" * 40}"\n'
PATH = '[source]\npath = "../tree"\n'
C0 = "[tiers.C0]\n"
C1 = '[tiers.C1]\nargv = ["{python}", "run.py", "--out", "{out}"]\nevidence.files = [{ path = "{out}/x" }]\n'


def write(folder: Path, repositories: dict[str, str], *, header: str = 'name = "mine"\n') -> Path:
    """Write a suite: folder name → text of its repo.toml."""
    (folder / "suite.toml").write_text(header)
    for name, text in repositories.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "repo.toml").write_text(text)
    return folder


def problems(folder: Path, text: str) -> str:
    """Return what is wrong with a suite of one repository, in words."""
    with pytest.raises(SuiteError) as caught:
        load_suite(write(folder, {"one": text}))
    return str(caught.value)


def test_a_suite_is_read_with_its_repositories_sorted_by_name(tmp_path: Path) -> None:
    """Order does not depend on the names of folders."""
    text = 'name = "mine"\ndescription = "Some."\n'
    write(
        tmp_path,
        {"a": f'name = "z/last"\n{GIT}{C0}', "b": f'name = "first"\n{PYPI}{C0}', "c": f'name = "m"\n{PATH}{C0}'},
        header=text,
    )

    suite = load_suite(tmp_path)

    assert (suite.name, suite.description, suite.folder) == ("mine", "Some.", tmp_path)
    assert [repository.name for repository in suite.repositories] == ["first", "m", "z/last"]
    kinds = [type(repository.source) for repository in suite.repositories]
    assert kinds == [PypiSource, PathSource, GitSource]
    assert suite.repositories[2].folder == str(tmp_path / "a")


def test_every_key_of_the_format_is_read(tmp_path: Path) -> None:
    """What the reference shows arrives in the model."""
    reference = Path(__file__).parents[2] / "docs" / "suite-format.md"
    blocks = reference.read_text(encoding="utf-8").split("```toml\n")[1:]
    header, repository, deviations = (block.split("```")[0] for block in blocks)
    folder = write(tmp_path, {"example": repository}, header=header)
    (folder / "example" / "deviations.toml").write_text(deviations)
    (folder / "example" / "probes").mkdir()
    (folder / "example" / "probes" / "train.py").write_text("# my-suite canary 6f1c\n")

    read = load_suite(folder).repositories[0]

    assert set(read.tiers) == set(Tier)
    assert read.tiers[Tier.C1].evidence.files[0].min_bytes == 1000
    assert [demand.field for demand in read.tiers[Tier.C1].evidence.json] == ["losses.0", "steps", "loss_ratio"]
    assert [demand.field for demand in read.tiers[Tier.C4].evidence.json] == ["loss_ratio", "device_memory", "ranks"]
    assert read.imports.published_total == 42
    assert read.pins == {"torch": ">=2.1,<3"}
    assert read.assets["weights.bin"].size_bytes == 1000
    assert set(read.sabotage) == set(SabotageKind)
    assert read.deviations[0].here
    assert resolve_probe(read, Tier.C3) == folder / "example" / "probes" / "train.py"


@pytest.mark.parametrize("name", suite_names(of_tasks=False))
def test_every_shipped_suite_is_fine(name: str) -> None:
    """The suites of this package pass their own check."""
    suite = load_suite(find_suite(name))

    assert suite.name == name
    assert suite.repositories


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'name = "x"\nnam = 1\n{PATH}{C0}', "nam: unknown key (value 1); did you mean 'name'?"),
        (f'name = "x"\nfolder = "/etc"\n{PATH}{C0}', "folder: unknown key (value '/etc')"),
        (f"{PATH}{C0}", "name: missing"),
        (f"name = 3\n{PATH}{C0}", "name: must be a valid string, not 3"),
        (f"name = 2026-01-01\n{PATH}{C0}", "holds a date or a time"),
        (f'name = "x\n{PATH}{C0}', "is not valid TOML: Illegal character '\\n' (at line 1, column 10)"),
        (f"name = {'9' * 5000}", "is not valid TOML: Exceeds the limit"),
        (f"name = {'[' * 5000}", "is not valid TOML: TOML inline arrays/tables are nested more than"),
        (f"{'.'.join('a' * 5000)} = 1", "is not valid TOML: TOML key has"),
        (f'name = "x"\n{C0}', "source: missing"),
        (f'name = "x"\n[source]\n{C0}', "source: {} names no source: give git and commit; or pypi"),
        (f'name = "x"\nsource = "here"\n{C0}', "source: 'here' is no table"),
        (f'name = "x"\n{PATH}git = "u"\n{C0}', "source: git and path exclude one another"),
        (f'name = "x"\n[source]\ngit = "u"\n{C0}', "source.commit: missing"),
        (f'name = "x"\n[source]\ngit = "u"\ncommit = "main"\n{C0}', "commit must be 40 hexadecimal digits, not 'main'"),
        (f'name = "x"\n{PYPI}versio = "1"\n{C0}', "source.versio: unknown key (value '1'); did you mean 'version'?"),
        (f'name = "x"\n{PYPI}{C0}'.replace("aa", "AA"), "sha256 must be 64 hexadecimal digits"),
        (f'name = "x"\n{PYPI}{C0}'.replace("0.5.5", ">=1"), "source.version: '>=1' is no version"),
        (f'name = "x"\n{PYPI}{C0}'.replace('"kvpress"', '"../kvpress"'), "source.pypi: '../kvpress' is no name"),
        (f'name = "x"\n{PATH}', "tiers: missing"),
        (f'name = "x"\n{PATH}[tiers.c1]\n', "tiers.c1: unknown name; did you mean 'C1'?"),
        (f'name = "x"\n{PATH}{C1}timeout = 5\n', "tiers.C1.timeout: unknown key (value 5); did you mean 'timeout_s'?"),
        (f'name = "x"\n{PATH}{C1}timeout_s = "5"\n', "tiers.C1.timeout_s: must be a valid number, not '5'"),
        (f'name = "x"\n{PATH}{C1}timeout_s = 0\n', "tiers.C1: timeout_s must be positive, not 0"),
        (f'name = "x"\n{PATH}{C1}timeout_s = inf\n', "tiers.C1.timeout_s: must be a finite number of seconds"),
        (f'name = "x"\n{PATH}{C1}memory_gb = 0\n', "tiers.C1: memory_gb must be a number of GiB from 0.01 on, not 0"),
        (f'name = "x"\n{PATH}{C1}memory_gb = inf\n', "tiers.C1: memory_gb must be a number of GiB from 0.01 on"),
        (f'name = "x"\n{PATH}{C1}memory_gb = "4"\n', "tiers.C1.memory_gb: must be a valid number, not '4'"),
        (f'name = "x"\n{PATH}{C1}probe = "c1.py"\n', "tiers.C1: give argv or probe, not both"),
        (f'name = "x"\n{PATH}{C1}skip_reason = "why"\n', "a supported tier has no skip_reason"),
        (f'name = "x"\n{PATH}[tiers.C3]\nsupported = false\n', "tiers.C3: supported = false needs a skip_reason"),
        (f'name = "x"\n{PATH}[tiers.C1]\nargv = "run"\n', "tiers.C1.argv: must be a list, not 'run'"),
        (f'name = "x"\n{PATH}[tiers.C1]\nevidence.output = ["ok"]\n', "tiers.C1: needs argv or probe"),
        (f'name = "x"\n{PATH}[tiers.C1]\nargv = ["true"]\n', "tiers.C1.evidence: missing: exit code 0 alone never"),
        (f'name = "x"\n{PATH}[tiers.C0]\nargv = ["true"]\n', "tiers.C0: C0 is probed by the harness itself"),
        (
            f'name = "x"\n{PATH}{C1}evidence.file = []\n',
            "tiers.C1.evidence.file: unknown key (value []); did you mean 'files'? (known: files, json, output,",
        ),
        (
            f'name = "x"\n{PATH}{C1}evidence.json = [{{ path = "{{out}}/a", field = "b", equals = [1] }}]\n',
            "tiers.C1.evidence.json[0].equals: must be true, false, a number or a string, not [1]",
        ),
        (f'name = "x"\npython = "3.10+"\n{PATH}{C0}', "python: '3.10+' is no version specifier"),
        (f'name = "x"\nframeworks = ["Torch"]\n{PATH}{C0}', "unknown framework 'Torch'; did you mean 'torch'?"),
        (f'name = "x"\n{PATH}[imports]\npublished_total = 0\n{C0}', "imports.published_total: must be at least 1"),
        (f'name = "x"\n{PATH}[imports.unsatisfiable]\na = ""\n{C0}', "imports.unsatisfiable.a: needs a reason"),
        (f'name = "x"\n{PATH}[imports.unsatisfiable]\n"a.b" = "c"\n{C0}', "imports.unsatisfiable.a.b: must be a top"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_fix(tmp_path: Path, text: str, said: str) -> None:
    """The message has the file, the dotted key, the value and what to write instead."""
    message = problems(tmp_path, text)

    assert said in message
    assert "1 problem:" in message
    assert str(tmp_path / "one" / "repo.toml") in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('argv = ["{pyhton}"]', "tiers.C1.argv[0]: unknown placeholder {pyhton} in '{pyhton}'; did you mean 'python'?"),
        ('argv = ["x"]\nworkdir = "{rep}"', "tiers.C1.workdir: unknown placeholder {rep}"),
        ('argv = ["x"]\nenvironment.A = "{home}"', "tiers.C1.environment.A: unknown placeholder {home}"),
        ('argv = ["x"]\nenvironment."A-B" = "1"', "'A-B' is no name of a variable"),
        ('argv = ["x"]\nenvironment.RESEARCHENV_OUT = "1"', "RESEARCHENV_OUT is set by the harness"),
        ('argv = ["x"]\nevidence.files = [{ path = "{outt}/a" }]', "unknown placeholder {outt}"),
        (
            'argv = ["x"]\nevidence.files = [{ path = "/etc/passwd" }]',
            "files[0].path: '/etc/passwd' must lie in the out",
        ),
        ('argv = ["x"]\nevidence.files = [{ path = "{out}/../x" }]', "must lie in the output folder"),
        (
            'argv = ["x"]\nevidence.files = [{ path = "{out}/x", min_bytes = -1 }]',
            "min_bytes: must not be negative: -1",
        ),
        ('argv = ["x"]\nevidence.output = ["(a"]', "tiers.C1.evidence.output[0]: '(a' is no regular expression"),
        ('argv = ["x"]\nevidence.output = ["a*"]', "'a*' matches an empty output, so it demands nothing"),
        ('argv = ["x"]\nevidence.parallel = "collective"', "'collective' cannot be seen in C1, only in C4"),
        ('argv = ["x"]\nevidence.json = [{ path = "{out}/a", field = "b", min = 2, max = 1 }]', "min 2.0 is larger"),
        ('argv = ["x"]\nevidence.json = [{ path = "{out}/a", field = "b", min = nan }]', "nan is no bound"),
        ('argv = ["x"]\nevidence.json = [{ path = "{out}/a", field = "b", min = 1, equals = 1 }]', "not both"),
        ('argv = ["x"]\nevidence.json = [{ path = "{out}/a", field = "b..c" }]', "must be keys joined by dots"),
        ('probe = "../../etc/x.py"', "tiers.C1.probe: '../../etc/x.py' lies outside the repository's folder"),
        ('probe = "/etc/passwd"', "lies outside the repository's folder"),
        ('probe = "link.py"', "lies outside the repository's folder"),
        ('probe = "probes/c2.py"', "did you mean 'probes/c1.py'?"),
        ('probe = "probes"', "no file"),
        ('probe = "repo.toml"', "must be a Python script"),
    ],
)
def test_what_types_cannot_say_is_checked_too(tmp_path: Path, change: str, said: str) -> None:
    """Placeholders, patterns, bounds and probe files are looked at before anything runs."""
    (tmp_path / "one" / "probes").mkdir(parents=True)
    (tmp_path / "one" / "probes" / "c1.py").write_text("")
    (tmp_path / "one" / "link.py").symlink_to("/etc/passwd")
    evidence = "" if "evidence" in change else '\nevidence.output = ["ok"]'

    assert said in problems(tmp_path, f'name = "x"\n{PATH}[tiers.C1]\n{change}{evidence}\n')


def test_braces_that_are_no_placeholder_are_left_alone(tmp_path: Path) -> None:
    """JSON and regular expressions may stand in arguments and patterns."""
    text = f"name = \"x\"\n{PATH}[tiers.C1]\nargv = ['{{\"a\": {{}}}}']\nevidence.output = ['\\d{{3}}']\n"

    assert load_suite(write(tmp_path, {"one": text})).repositories


@pytest.mark.parametrize("name", ["a/b/c", "", ".", "..", "a b", "a/..", "/a", "a/", "ä", "a\\nb", "../a"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    """Names become folders, ids and labels."""
    assert "name: " in problems(tmp_path, f'name = "{name}"\n{PATH}{C0}')


@pytest.mark.parametrize("name", ["c2g", "owner/arC5-net", "xc0x"])
def test_a_name_that_a_tier_selection_would_match_is_refused(tmp_path: Path, name: str) -> None:
    """`-k C2` must select one tier and no repository."""
    message = problems(tmp_path, f'name = "{name}"\n{PATH}{C0}')

    assert "`-k C" in message
    assert "choose another name" in message


def test_an_owner_may_look_like_a_tier(tmp_path: Path) -> None:
    """The owner is in no id."""
    assert load_suite(write(tmp_path, {"one": f'name = "c2g-dev/city2graph"\n{PATH}{C0}'})).repositories


def test_two_repositories_of_one_short_name_are_refused(tmp_path: Path) -> None:
    """The short name is the id; case does not tell two apart."""
    write(tmp_path, {"a": f'name = "x/same"\n{PATH}{C0}', "b": f'name = "y/Same"\n{PATH}{C0}'})

    with pytest.raises(SuiteError, match="'y/Same' has the same short name as 'x/same'"):
        load_suite(tmp_path)


def test_all_problems_of_all_files_are_listed_at_once(tmp_path: Path) -> None:
    """One run shows everything that is to be mended."""
    write(
        tmp_path,
        {"a": "name = 1\nfoo = 2\n", "b": f'name = "c1"\npython = "x"\n{PATH}{C0}', "c": "["},
        header="nme = 1\n",
    )

    with pytest.raises(SuiteError) as caught:
        load_suite(tmp_path)

    message = str(caught.value)
    assert "has 8 problems:" in message
    for said in (
        "nme: ",
        "name: missing",
        "a/repo.toml: name: ",
        "foo: ",
        "source: ",
        "b/repo.toml: name: ",
        "python: ",
    ):
        assert said in message
    assert "c/repo.toml: is not valid TOML" in message


def test_a_folder_without_suite_toml_is_no_suite(tmp_path: Path) -> None:
    """The file that is missing is named."""
    with pytest.raises(SuiteError, match=r"suite\.toml: does not exist"):
        load_suite(tmp_path)


def test_a_misspelt_repo_toml_is_not_passed_over(tmp_path: Path) -> None:
    """A repository cannot vanish from a suite by a slip; other folders do no harm."""
    write(tmp_path, {"one": f'name = "one"\n{PATH}{C0}'})
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "notes").mkdir()
    assert load_suite(tmp_path)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "repos.toml").write_text("")

    with pytest.raises(SuiteError, match=r"two: has no repo\.toml"):
        load_suite(tmp_path)


def test_a_file_that_is_not_utf_8_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    """Bytes that are no text are reported like any other slip."""
    write(tmp_path, {"one": ""})
    (tmp_path / "one" / "repo.toml").write_bytes(b'name = "\xff"')

    with pytest.raises(SuiteError, match="cannot be read"):
        load_suite(tmp_path)


def test_a_tier_without_a_script_has_no_probe_to_resolve(tmp_path: Path) -> None:
    """Asking for one says which repository and tier."""
    repository = load_suite(write(tmp_path, {"one": f'name = "one"\n{PATH}{C1}'})).repositories[0]

    with pytest.raises(SuiteError, match="one has no probe script for C1"):
        resolve_probe(repository, Tier.C1)


def test_a_probe_that_vanished_is_named(tmp_path: Path) -> None:
    """The file is looked at again when it is used."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "c1.py").write_text("")
    text = f'name = "one"\n{PATH}[tiers.C1]\nprobe = "c1.py"\nevidence.output = ["ok"]\n'
    repository = load_suite(write(tmp_path, {"one": text})).repositories[0]
    (tmp_path / "one" / "c1.py").unlink()

    with pytest.raises(SuiteError, match=r"tiers\.C1\.probe: no file"):
        resolve_probe(repository, Tier.C1)


def test_a_suite_is_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shipped name wins over a folder of that name; `./name` is the folder."""
    (tmp_path / "quickstart").mkdir()
    write(tmp_path / "quickstart", {})
    monkeypatch.chdir(tmp_path)

    assert find_suite("quickstart") != tmp_path / "quickstart"
    assert find_suite("./quickstart") == tmp_path / "quickstart"
    assert find_suite(str(tmp_path / "quickstart")) == tmp_path / "quickstart"


def test_an_unknown_suite_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    """A slip gets the nearest name, a folder that is no suite is told what it lacks."""
    with pytest.raises(ConfigurationError, match=r"unknown suite 'quikstart'; did you mean 'quickstart'\? \(known"):
        find_suite("quikstart")
    with pytest.raises(ConfigurationError, match=r"it has no suite\.toml; known suites: .*quickstart"):
        find_suite(str(tmp_path))


def test_validate_prints_what_a_suite_holds_or_lacks(tmp_path: Path) -> None:
    """A person sees every repository, or every problem, unwrapped and without markup being read."""
    output = io.StringIO()
    console = Console(file=output, width=200)

    assert validate(write(tmp_path, {"one": f'name = "o/[b]one"\n{PATH}{C0}'}), console=console) is False
    assert "'o/[b]one' must be NAME or OWNER/NAME" in output.getvalue()
    assert validate(write(tmp_path, {"one": f'name = "o/one"\n{PATH}{C0}{C1}'}), console=console) is True
    assert "\n one " in output.getvalue()
    assert "1 repository, 2 applicable tiers" in output.getvalue()


def test_44_repositories_are_read_well_within_a_second(tmp_path: Path) -> None:
    """Collection waits for this (measured: 0.05 s)."""
    write(tmp_path, {f"r{index}": f'name = "o/r{index}"\n{PYPI}{C0}{C1}' for index in range(44)})
    begin = time.process_time()

    suite = load_suite(tmp_path)

    assert len(suite.repositories) == 44
    assert time.process_time() - begin < 0.8


@pytest.mark.parametrize("pattern", ["^done", "done$"])
def test_a_pattern_that_ranks_can_tear_is_refused(tmp_path: Path, pattern: str) -> None:
    """Several ranks print into each other's lines, so a line's ends say nothing in C4."""
    text = f'[tiers.C4]\nargv = ["x"]\nevidence = {{ parallel = "collective", output = ["{pattern}"] }}\n'

    assert "ranks tear each other's lines" in problems(tmp_path, f'name = "one"\n{GIT}{text}')
