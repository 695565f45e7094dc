"""What holds for every command: its help, its examples, its exit codes, its JSON."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv._json import print_json
from pytest_researchenv.cli import main
from pytest_researchenv.commands import COMMANDS, EXIT_CODES, Example, parser_of
from pytest_researchenv.lock import write_lock
from tests.pages import DOCS, blocks_of
from tests.unit.commands.place import leave_alone, make_place


PAGE = (DOCS / "commands.md").read_text()
EVERY = pytest.mark.parametrize("name", COMMANDS)
EXAMPLES = [example for command in COMMANDS.values() for example in command.examples]
#: Those that need no engine and no other machine.
ALONE = [example for example in EXAMPLES if not example.engine and not example.network]
#: Commands that print something else than what can be JSON: a shell's own, and a script.
WITHOUT_JSON = {"shell", "completion"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with suites, a checkout and runs."""
    folder = tmp_path_factory.mktemp("place")
    make_place(folder)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the folder that is worked in: nothing of this host is asked, and no engine answers."""
    monkeypatch.chdir(made)
    leave_alone(monkeypatch, tmp_path)
    # What examples make anew, and what they change.
    shutil.rmtree("my-suite/checkout", ignore_errors=True)
    Path("default.tar.gz").unlink(missing_ok=True)
    write_lock(made / "my-suite")
    return made


def parser(name: str) -> argparse.ArgumentParser:
    """What reads a command's arguments."""
    (commands,) = (action for action in parser_of([name])._actions if isinstance(action, argparse._SubParsersAction))
    found = commands.choices[name]
    assert isinstance(found, argparse.ArgumentParser)
    return found


def every_parser(command: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Those of a command's own commands; itself where it has none."""
    kinds = [action for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    return [one for kind in kinds for one in kind.choices.values()] or [command]


# --- help -------------------------------------------------------------------------------------------------


@EVERY
def test_every_command_shows_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with what comes of it, in its help; and what it is for, as the list of commands has it."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main([name, "--help"])
    shown = " ".join(capsys.readouterr().out.split())

    assert COMMANDS[name].purpose[1:] in shown
    for example in COMMANDS[name].examples:
        assert example.line.startswith(f"researchenv {name}")
        assert f"{example.line} {example.meaning}" in shown


def test_the_list_of_commands_says_what_each_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    """With the exit codes; and it is the list of all that are declared."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    shown = capsys.readouterr().out

    assert EXIT_CODES in shown
    for name, command in COMMANDS.items():
        assert re.search(rf"^ +{name}\s+{re.escape(command.purpose.split()[0])}", shown, re.MULTILINE), name


def test_all_commands_can_be_declared_together() -> None:
    """As completion needs it: by the modules that the table names, each command once, with something to run."""
    (commands,) = (action for action in parser_of()._actions if isinstance(action, argparse._SubParsersAction))

    assert list(commands.choices) == list(COMMANDS)
    assert all(one.get_default("run") for name in COMMANDS for one in every_parser(commands.choices[name]))


@pytest.mark.parametrize(
    ("argv", "unwanted"),
    [
        ("--help", "docker scipy numpy pydantic requests rich jinja2 shtab"),
        ("schema --help", "docker scipy numpy jinja2"),
        ("reap --help", "scipy numpy jinja2 pypi_simple"),
        ("completion --help", "docker scipy numpy pydantic requests"),
    ],
)
def test_help_imports_only_what_it_needs(argv: str, unwanted: str) -> None:
    """Two seconds of it otherwise."""
    script = (
        f"import sys\nfrom pytest_researchenv.cli import main\ntry:\n    main({argv.split()!r})\n"
        f"except SystemExit:\n    sys.exit(' '.join(sorted(set({unwanted.split()!r}) & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


# --- examples ---------------------------------------------------------------------------------------------


def expected(example: Example) -> int:
    """The exit code: no engine answers, which is a problem; and made-up records name no image, as altered ones do."""
    return 1 if example.line.split()[1] in ("doctor", "import", "verify") else 0


@pytest.mark.parametrize("example", ALONE, ids=lambda example: example.line.removeprefix("researchenv "))
def test_an_example_does_what_it_says(example: Example, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every one that needs no container engine ends well, and prints something."""
    assert main(shlex.split(example.line)[1:]) == expected(example), capsys.readouterr()
    assert capsys.readouterr().out
    assert place == Path.cwd()


def test_most_examples_are_run_without_an_engine() -> None:
    """So that the test above is no empty one."""
    assert len(ALONE) > len(EXAMPLES) * 2 / 3
    assert {command for command, entry in COMMANDS.items() if not set(entry.examples) & set(ALONE)} == {
        *("prove", "resolve", "reap", "shell")
    }


# --- exit codes -------------------------------------------------------------------------------------------


@EVERY
def test_a_wrong_call_ends_with_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown option, of whichever command; nothing is printed on stdout."""
    arguments = {"lock": ["x"], "prove": ["x"], "resolve": ["x"], "document": ["x"], "new-repository": ["x"]}
    arguments |= {"restore": ["x", "y"], "trajectory": ["x"], "completion": ["bash"], "compare": ["x"]}
    option = ["--no-such-option"] if name != "shell" else []
    with pytest.raises(SystemExit, match=r"^2$"):
        main([name, *arguments.get(name, []), *option])
    printed = capsys.readouterr()

    assert printed.out == ""
    assert printed.err.startswith("usage: researchenv ")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["no-such-command"],
        ["completion", "tcsh"],
        ["doctor", "--accelerator", "tpu"],
        ["diagnose", "--tier", "C9"],
        ["stats", "default", "--json", "--format", "csv"],
        ["rerun", "default", "--dry-run", "extra", "extra", "--no-such-option"],
        ["stats", "default", "--", "extra", "extra"],
    ],
    ids=" ".join,
)
def test_wrong_commands_and_values_end_with_2(argv: list[str]) -> None:
    """No command, an unknown one, values that are none, two that exclude one another."""
    with pytest.raises(SystemExit, match=r"^2$"):
        main(argv)


@pytest.mark.parametrize(
    "line",
    [
        "validate no-such-suite",
        "lock no-such-suite",
        "new-repository ./no-such-folder --suite my-suite",
        "prove no-such-suite",
        "document quickstart --run no-such-run",
        "resolve no-such-suite",
        "agents no-such-agent",
        "trajectory no-such-file.json",
        "rerun no-such-run",
        "rerun default no-such-word",
        "diagnose no-such-run",
        "stats no-such-run",
        "compare no-such-run",
        "calibration --run no-such-run",
        "report no-such-run",
        "verify no-such-run",
        "verify default",
        "schema no-such-schema",
        "schema --output trajectory.json",
        "reap",
    ],
)
def test_what_cannot_be_done_ends_with_1_and_says_why_on_stderr(
    line: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With and without `--json`: there is no document then, and nothing else on stdout."""
    assert place.is_dir()
    for extra in ([], ["--json"]):
        assert main([*line.split(), *extra]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("researchenv: ")
        assert "Traceback" not in printed.err


def test_a_shell_in_what_is_no_attempt_ends_with_1(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no JSON; its exit code is otherwise that of what runs in it."""
    assert main(["shell", str(place)]) == 1
    assert capsys.readouterr().err.startswith("researchenv: ")


def test_a_reader_who_has_seen_enough_sees_no_traceback() -> None:
    """As with `| head`."""
    script = f"{shlex.quote(sys.executable)} -m pytest_researchenv.cli schema result | head -n 1"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_full_disk_behind_stdout_is_said(place: Path) -> None:
    """Not by a traceback, whichever command and form."""
    for line in ("schema result", "stats default --json", "stats default", "logs default --tier C1"):
        with Path("/dev/full").open("wb") as full:
            command = [sys.executable, "-m", "pytest_researchenv.cli", *line.split()]
            done = subprocess.run(command, cwd=place, check=False, stdout=full, stderr=subprocess.PIPE, text=True)

        said = "what it says cannot be written: [Errno 28] No space left on device; make room, or have it go elsewhere"
        assert (done.returncode, done.stderr) == (1, f"researchenv: {said}\n")


def test_an_interrupted_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By the exit code that shells have for it, and without a traceback."""

    def interrupted(_: argparse.ArgumentParser) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_researchenv.schemas.add_json", interrupted)

    assert main(["schema", "result"]) == 130
    assert capsys.readouterr().err == "researchenv: interrupted\n"


def test_what_cannot_be_encoded_is_written_out(place: Path) -> None:
    """A name in bytes that are no text ends no command with a traceback."""
    name = b"odd-\xff.json"
    shutil.copyfile(bytes(place / "trajectory.json"), bytes(place) + b"/" + name)
    command: list[str | bytes] = [sys.executable, "-m", "pytest_researchenv.cli", "trajectory", name]
    done = subprocess.run(command, check=True, capture_output=True)

    assert done.stdout.startswith(rb"odd-\udcff.json: ATIF-v1.7, 1 steps")
    assert done.stderr == b""


# --- JSON -------------------------------------------------------------------------------------------------


@EVERY
def test_every_command_that_says_anything_has_json(name: str) -> None:
    """One option, the same everywhere."""
    for one in every_parser(parser(name)):
        options = {option for action in one._actions for option in action.option_strings}
        assert ("--json" in options) is (name not in WITHOUT_JSON)


def documented() -> dict[str, set[str]]:
    """Command → the keys that the page says its document has."""
    rows = re.findall(
        r"^\| `([a-z-]+)[^`]*` \| (?:object|list of objects|an object a line): ([^|]+)\|", PAGE, re.MULTILINE
    )
    found: dict[str, set[str]] = {}
    for name, keys in rows:
        found.setdefault(name, set()).update(re.findall(r"`(\w+)`", keys))
    return found


@pytest.mark.parametrize(
    "example",
    [
        example
        for example in ALONE
        if not {"--json", "--plain", "completion", "--format"} & set(example.line.split())
        and " -- " not in example.line
    ],
    ids=lambda example: example.line.removeprefix("researchenv "),
)
@pytest.mark.usefixtures("place")
def test_json_is_one_document_with_the_documented_keys(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else is on stdout, and docs/commands.md names every key."""
    # Of another test's: it is never written over.
    shutil.rmtree("restored", ignore_errors=True)
    argv = [*shlex.split(example.line)[1:], "--json"]
    assert main(argv) == expected(example)
    said = capsys.readouterr().out
    # What is watched has no end at first, so that each thing that happens is a document of its own.
    document = [json.loads(line) for line in said.splitlines()] if argv[0] == "watch" else json.loads(said)

    keys = {key for one in (document if isinstance(document, list) else [document]) for key in one}
    if argv[0] == "schema":
        # A schema is a document of its own kind, and the list of them has their names as keys.
        assert keys
    else:
        assert keys
        assert keys <= documented()[argv[0]], keys - documented()[argv[0]]


def test_the_page_documents_every_command_with_json() -> None:
    """Each has its row."""
    assert documented().keys() == COMMANDS.keys() - WITHOUT_JSON - {"schema"}


def test_the_page_runs_every_command() -> None:
    """It is in the list of commands, and in a session that is repeated with an engine (`tests/integration`)."""
    sessions = [block.body for block in blocks_of(PAGE) if block.kind == "console"]
    run = {word for session in sessions for word in re.findall(r"^\$.*\bresearchenv ([a-z-]+)", session, re.MULTILINE)}

    assert run == COMMANDS.keys()
    assert set(re.findall(r"^\| \[`([a-z-]+)`\]", PAGE, re.MULTILINE)) == COMMANDS.keys()


def test_what_json_has_no_number_for_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged record may hold it, and no other reader takes the `NaN` of Python. Half a character is escaped."""
    print_json({"a": [float("nan"), (float("inf"), 1.5)], "b": {"c": float("-inf")}, "d": "\ud800\x1b\n"})

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"a": [None, [None, 1.5]], "b": {"c": None}, "d": "\ud800\x1b\n"}
    assert "\x1b" not in printed
