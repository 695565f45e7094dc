"""The command that prints what lets a shell complete `researchenv`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from pytest_researchenv.commands import parser_of


__all__ = ["add_command"]

_SHELLS = ("bash", "zsh", "fish")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    completion = commands.add_parser("completion")
    completion.add_argument("shell", choices=_SHELLS, help="whose language it is written in")
    completion.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace) -> int:
    parser = parser_of()
    for action in _actions(parser):
        if action.type is Path:
            # shtab's own way to say what is completed.
            setattr(action, "complete", shtab.FILE if action.metavar == "FILE" else shtab.DIRECTORY)  # noqa: B010 - argparse has no such attribute
    print(shtab.complete(parser, shell=arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options and arguments of all commands."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public name for them
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            for command in action.choices.values():
                yield from _actions(command)
