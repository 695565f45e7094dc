"""What commands there are: what each is for, where it is declared, and how it is called.

`researchenv --help` takes 0.3 s by this table, and 2 s where it imports what the commands do.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


__all__ = ["COMMANDS", "EXIT_CODES", "Command", "Example", "command_of", "parser_of"]

#: What the exit code of every command says, as `researchenv --help` prints it.
EXIT_CODES = """\
exit codes:
  0  done, and nothing is wrong
  1  a problem was found, or the command could not do its work; what is wrong stands on stderr, or in what it prints
  2  a wrong call: no such command, option or value
  130  interrupted by Ctrl-C
  Where they run something else, `shell` ends with its exit code, and `rerun` with that of pytest.
"""

#: Longer command lines have what they mean below them.
_WIDEST = 60


@dataclass(frozen=True, slots=True)
class Example:
    """How a command may be called.

    Attributes:
        line: the command line.
        meaning: what comes of it.
        engine: whether it needs a container engine.
        network: whether it needs another machine.
    """

    line: str
    meaning: str
    engine: bool = False
    network: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        declared_by: what declares its arguments, and those of its neighbours.
        purpose: what it is for, in one line.
        examples: how it may be called.
        passes_on: whether what follows `--` is not its own, and goes to another program.
    """

    declared_by: str
    purpose: str
    examples: tuple[Example, ...]
    passes_on: bool = False


COMMANDS: Mapping[str, Command] = {
    "doctor": Command(
        "pytest_researchenv.doctor.command:add_command",
        "check what this host has for a run: engine, devices, disk, keys, indexes, tools; each with how to mend it",
        (
            Example("researchenv doctor", "everything that can be checked here"),
            Example("researchenv doctor --agent noop --accelerator cpu", "for a run of this agent without devices"),
            Example("researchenv doctor --json", "for programs"),
        ),
    ),
    "validate": Command(
        "pytest_researchenv.authoring:add_commands",
        "check a suite's files without Docker, and print what it holds",
        (
            Example("researchenv validate quickstart", "a suite that comes with this package"),
            Example("researchenv validate my-suite --locked", "is it what its lock.json says?"),
            Example("researchenv validate my-suite --probes", "look up in the pinned trees what the probes mention"),
        ),
    ),
    "lock": Command(
        "pytest_researchenv.authoring:add_commands",
        "write a suite's lock.json: the digests of all its files",
        (Example("researchenv lock my-suite", "after each change of its files"),),
    ),
    "new-repository": Command(
        "pytest_researchenv.authoring:add_commands",
        "write a commented repo.toml and oracle.sh from a checkout",
        (
            Example("researchenv new-repository ./checkout --suite my-suite", "from a checkout, or any folder"),
            Example(
                "researchenv new-repository https://git.example/group/name.git --suite my-suite",
                "pinned at the newest commit",
                network=True,
            ),
        ),
    ),
    "document": Command(
        "pytest_researchenv.authoring:add_commands",
        "write what was proven of a suite, and where it deviates, as pages",
        (
            Example(
                "researchenv document quickstart --run default --docs docs", "docs/validation.md, docs/deviations.md"
            ),
        ),
    ),
    "prove": Command(
        "pytest_researchenv.proofs:add_command",
        "show that a suite's probes pass on good environments and fail on bare and broken ones",
        (
            Example("researchenv prove quickstart --only tinyddp", "one repository", engine=True),
            Example("researchenv prove my-suite --accelerator cpu", "all that have an oracle.sh", engine=True),
        ),
    ),
    "resolve": Command(
        "pytest_researchenv.resolving.command:add_command",
        "resolve what a suite's recipes install on the target, without installing it",
        (
            Example("researchenv resolve quickstart --only tinyddp", "one recipe", engine=True),
            Example("researchenv resolve my-suite --logs logs", "all, with what they print", engine=True),
        ),
    ),
    "agents": Command(
        "pytest_researchenv.agents.listing:add_commands",
        "list the agents, and what each still needs to work",
        (
            Example("researchenv agents", "all there are"),
            Example("researchenv agents noop oracle", "can these work? Exit code 1 where one lacks something"),
        ),
    ),
    "trajectory": Command(
        "pytest_researchenv.agents.listing:add_commands",
        "check that a trajectory follows its format (ATIF 1.7)",
        (Example("researchenv trajectory trajectory.json", "of an attempt's folder"),),
    ),
    "rerun": Command(
        "pytest_researchenv.rerunning:add_command",
        "run some of a run again, with the command line that it was started with",
        (
            Example("researchenv rerun default --dry-run", "what ended in an error or is missing: print the command"),
            Example("researchenv rerun default failed tier:C3 --dry-run", "what failed, and all of C3"),
            Example("researchenv rerun default --dry-run -- -n 2 -x", "with further arguments for pytest"),
        ),
        passes_on=True,
    ),
    "diagnose": Command(
        "pytest_researchenv.diagnosing:add_command",
        "say why tiers failed: one cause each, the line that shows it, and what to do next",
        (
            Example("researchenv diagnose default", "every failure, and how often each cause is"),
            Example("researchenv diagnose default --agent codex --tier C3", "of one agent, of one tier"),
            Example("researchenv diagnose --rules", "the categories, and the rules that tell them"),
        ),
    ),
    "stats": Command(
        "pytest_researchenv.statistics.command:add_commands",
        "say in numbers what the agents of a run achieved: rates, drops, attempts, time, money",
        (
            Example("researchenv stats default", "every agent, every table"),
            Example("researchenv stats default:codex --table rates", "one agent, one table"),
            Example("researchenv stats default --format latex --output tables", "for a paper, a file each"),
        ),
    ),
    "compare": Command(
        "pytest_researchenv.statistics.command:add_commands",
        "compare two agents at the same repositories, or a run with the published figures",
        (
            Example("researchenv compare default", "all agents of a run, two by two"),
            Example("researchenv compare default:codex default:claude-opus", "two agents of a run"),
            Example("researchenv compare before:codex after:codex", "one agent, before and after a change"),
            Example("researchenv compare night-1:codex paper:codex", "a run beside the published figures"),
            Example("researchenv compare default --format latex --output tables", "for a paper, a file each"),
        ),
    ),
    "calibration": Command(
        "pytest_researchenv.calibrating:add_command",
        "show, for each agent of a run, how many of its claims held, and how many of its doubts",
        (Example("researchenv calibration --run default", "every agent"),),
    ),
    "report": Command(
        "pytest_researchenv.report.html.command:add_command",
        "write a run as pages for people: HTML, with figures as SVG",
        (
            Example("researchenv report default", "the pages of a run, in the folder report"),
            Example("researchenv report before after -o before-after", "two runs side by side"),
            Example("researchenv report nightly --suite my-suite", "a suite that does not come with this package"),
        ),
    ),
    "verify": Command(
        "pytest_researchenv.verifying.command:add_command",
        "check a finished run: are its records intact, and do its verdicts come out again?",
        (
            Example("researchenv verify default", "records and images, and every verdict once more", engine=True),
            Example("researchenv verify default --no-rejudge", "records alone; runs no container"),
            Example("researchenv verify default --agent codex --tier C1", "of one agent, of one tier", engine=True),
        ),
    ),
    "watch": Command(
        "pytest_researchenv.watching.command:add_command",
        "see what every worker of a run is doing, while it goes on",
        (
            Example("researchenv watch default --once", "how it stands, once"),
            Example("researchenv watch default", "a picture that is drawn again each second; q closes it"),
            Example("researchenv watch default --plain", "one line for each thing that happens, until it is over"),
            Example("researchenv watch default --json", "the same for programs"),
        ),
    ),
    "logs": Command(
        "pytest_researchenv.logs:add_command",
        "print the logs of a run or an attempt: probes, audits, what an agent printed and asked for",
        (
            Example("researchenv logs", "what logs the run default has"),
            Example("researchenv logs default --tier C1", "why C1 came to what it did, for every attempt"),
            Example(
                "researchenv logs researchenv-results/default/codex/quickstart/kvpress/attempt-001 --transcript",
                "what an agent printed",
            ),
        ),
    ),
    "export": Command(
        "pytest_researchenv.sharing.exporting:add_command",
        "write a run into one archive, or an environment with its image into a folder",
        (
            Example("researchenv export run default -o default.tar.gz", "records and logs of a run, without images"),
            Example("researchenv export run default -o whole.tar.gz --images", "with its frozen images", engine=True),
            Example(
                "researchenv export environment researchenv-results/default/noop/my-suite/hello/attempt-001 -o hello",
                "one environment: recipe, image, records",
                engine=True,
            ),
        ),
    ),
    "import": Command(
        "pytest_researchenv.sharing.importing:add_command",
        "bring exported runs and environments in; nothing is overwritten, and nothing comes in twice",
        (
            Example("researchenv import theirs.tar.gz", "a run, by its name; what is there already is left as it is"),
            Example("researchenv import theirs.tar.gz --run theirs", "under another name, beside a run of yours"),
        ),
    ),
    "schema": Command(
        "pytest_researchenv.schemas:add_command",
        "print the JSON Schema of a record, or write those of all",
        (
            Example("researchenv schema", "their names, and where such records are"),
            Example("researchenv schema result", "one of them"),
            Example("researchenv schema --output schemas", "all of them, a file each"),
        ),
    ),
    "reap": Command(
        "pytest_researchenv.reaping:add_command",
        "remove what dead runs left in the container engine",
        (
            Example("researchenv reap", "containers, networks and volumes that nothing can be using", engine=True),
            Example("researchenv reap --packages", "also the packages that caches keep and nobody uses", engine=True),
            Example(
                "researchenv reap --all",
                "also frozen images, base images, tool volumes and unused package caches",
                engine=True,
            ),
        ),
    ),
    "stop": Command(
        "pytest_researchenv.detached.command:add_commands",
        "end the work of research runs that go on by themselves; what is there then is frozen and counts",
        (
            Example("researchenv stop default --dry-run", "what is at work, and for how long"),
            Example("researchenv stop default --agent codex --wait", "end one agent's, and wait until it is frozen"),
            Example(
                "researchenv stop researchenv-results/default/codex/quickstart/kvpress/attempt-001",
                "end one",
            ),
        ),
    ),
    "restore": Command(
        "pytest_researchenv.detached.command:add_commands",
        "restore the folder of a research run from what was archived while its agent worked",
        (
            Example(
                "researchenv restore researchenv-results/default/codex/quickstart/kvpress/attempt-001 restored",
                "as it was when it was archived last",
            ),
        ),
    ),
    "shell": Command(
        "pytest_researchenv.shell:add_command",
        "open a shell in a copy of an environment, in the probe's world",
        (
            Example(
                "researchenv shell researchenv-results/default/noop/my-suite/hello/attempt-001",
                "to look around; what is changed there is lost",
                engine=True,
            ),
            Example(
                "researchenv shell researchenv-results/default/noop/my-suite/hello/attempt-001 python3 --version",
                "one command",
                engine=True,
            ),
        ),
    ),
    "completion": Command(
        "pytest_researchenv.completing:add_command",
        "print what lets a shell complete this command",
        (
            Example(
                "researchenv completion bash", "for the file ~/.local/share/bash-completion/completions/researchenv"
            ),
            Example("researchenv completion zsh", "for a file _researchenv in a folder of $fpath"),
            Example("researchenv completion fish", "for the file ~/.config/fish/completions/researchenv.fish"),
        ),
    ),
}


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg] # noqa: SLF001 - argparse has no public name for it
    """Gives each command its line and its examples from the table."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:  # noqa: ANN401 - argparse's own
        command = COMMANDS.get(name)
        if command:
            purpose = f"{command.purpose[0].upper()}{command.purpose[1:]}"
            settings = {
                "help": command.purpose,
                "description": f"{purpose}. {settings.pop('description', '')}".strip(),
                "epilog": _shown(command.examples),
                "formatter_class": argparse.RawDescriptionHelpFormatter,
                **settings,
            }
        parser: argparse.ArgumentParser = super().add_parser(name, **settings)
        return parser


def parser_of(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return what reads a command line.

    Args:
        argv: the command line, of whose command alone the arguments are declared, and only its module is imported;
            None: those of every command.
    """
    parser = argparse.ArgumentParser(
        prog="researchenv",
        description="Build, judge, compare and look at environments that AI agents made for research code.",
        epilog=f"{EXIT_CODES}\n`researchenv COMMAND --help` shows examples of each; docs/commands.md has them all.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", action=_Commands)
    chosen = command_of(argv or ())
    for name, command in COMMANDS.items():
        if name in commands.choices:
            continue
        if argv is None or (chosen and chosen.declared_by == command.declared_by):
            pkgutil.resolve_name(command.declared_by)(commands)
        else:
            commands.add_parser(name)
    return parser


def command_of(argv: Sequence[str]) -> Command | None:
    """Return the command that a command line calls."""
    return COMMANDS.get(next((word for word in argv if not word.startswith("-")), ""))


def _shown(examples: Sequence[Example]) -> str:
    width = max(len(example.line) for example in examples)
    if width > _WIDEST:
        lines = [line for example in examples for line in (f"  {example.line}", f"      {example.meaning}")]
    else:
        lines = [f"  {example.line:<{width}}  {example.meaning}" for example in examples]
    return "\n".join(["examples:", *lines])
