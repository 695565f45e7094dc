"""Keys are found where users keep them, and shown nowhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.secrets import SERVICE, Secret, look_for_secret


NAME = "SOME_API_KEY"


class StandInKeyring(ModuleType):
    """The module `keyring`, with an answer of the test's choice."""

    def __init__(self, answer: Callable[[], str | None]) -> None:
        super().__init__("keyring")
        self.errors = ModuleType("keyring.errors")
        self.errors.NoKeyringError = type("NoKeyringError", (RuntimeError,), {})  # type: ignore[attr-defined]
        self._answer = answer

    def get_password(self, service: str, name: str) -> str | None:
        """Answer for our service and the test's key only."""
        return self._answer() if (service, name) == (SERVICE, NAME) else None


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], str | None]], None]:
    """Put another keyring in the place of this machine's; an empty one at first."""

    def replace(answer: Callable[[], str | None]) -> None:
        stand_in = StandInKeyring(answer)
        monkeypatch.setitem(sys.modules, "keyring", stand_in)
        monkeypatch.setitem(sys.modules, "keyring.errors", stand_in.errors)

    replace(lambda: None)
    return replace


def env_file(folder: Path, text: str) -> Path:
    """Write a `.env` that only its owner can read."""
    folder.mkdir(exist_ok=True)
    file = folder / ".env"
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_a_secret_stands_in_no_representation() -> None:
    """Whatever prints a secret, a traceback too, prints its name alone."""
    secret = Secret(NAME, "the-value")

    assert NAME in repr(secret)
    assert "the-value" not in f"{secret!r} {secret}"
    assert "the-value" not in repr(look_for_secret(NAME, folders=[], environ={NAME: "the-value"}))


def test_the_environment_wins_then_the_first_folder_then_the_keyring(
    tmp_path: Path, keyring: Callable[[Callable[[], str | None]], None]
) -> None:
    """What is set for one call wins over what is kept."""
    keyring(lambda: "from-keyring")
    first, second = tmp_path / "first", tmp_path / "second"
    folders = [first, second]

    assert look_for_secret(NAME, folders=folders, environ={}).secret == Secret(NAME, "from-keyring")
    env_file(second, f"{NAME}=from-second\n")
    assert look_for_secret(NAME, folders=folders, environ={}).secret == Secret(NAME, "from-second")
    env_file(first, f"export {NAME}='from-first'\n")
    assert look_for_secret(NAME, folders=folders, environ={}).secret == Secret(NAME, "from-first")
    assert look_for_secret(NAME, folders=folders, environ={NAME: "from-environment"}).secret == Secret(
        NAME, "from-environment"
    )


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_value_counts_as_missing(tmp_path: Path, empty: str) -> None:
    """An unset variable of a CI is often an empty one."""
    env_file(tmp_path, f"{NAME}=\nOTHER=value\n")

    found = look_for_secret(NAME, folders=[tmp_path], environ={NAME: empty})

    assert found.secret is None
    assert found.looked[:2] == (f"environment variable {NAME}", str(tmp_path / ".env"))
    assert "keyring" in found.looked[2]


def test_a_value_is_what_stands_there(tmp_path: Path) -> None:
    """White space around it goes, as it comes with copying; a `$` is part of a key, and nothing is put for it."""
    env_file(tmp_path, f'\ufeff{NAME}="sk-$HOME-${{USER}}-1"  # a note\n')

    assert look_for_secret(NAME, folders=[tmp_path], environ={}).secret == Secret(NAME, "sk-$HOME-${USER}-1")
    assert look_for_secret(NAME, folders=[], environ={NAME: " sk-1\n"}).secret == Secret(NAME, "sk-1")


@pytest.mark.parametrize("value", ["sk-one\nsk-two", "sk-\0", "sk-\x1b[0m", "sk-\u200bhidden", "sk-\udce4"])
def test_a_value_that_cannot_be_a_key_is_refused_and_not_shown(value: str) -> None:
    """Such a value would break a header, and what is refused may still be most of a key."""
    with pytest.raises(ConfigurationError, match=f"environment variable {NAME} cannot be a key") as caught:
        look_for_secret(NAME, folders=[], environ={NAME: value})

    assert "sk-" not in str(caught.value)


def test_a_file_that_others_can_read_is_a_warning_that_says_what_to_do(tmp_path: Path) -> None:
    """Keys in a world-readable file are everybody's."""
    file = env_file(tmp_path, f"{NAME}=value\n")
    assert look_for_secret(NAME, folders=[tmp_path], environ={}).warnings == ()

    file.chmod(0o644)

    (warning,) = look_for_secret(NAME, folders=[tmp_path], environ={}).warnings
    assert f"chmod 600 {file}" in warning
    assert look_for_secret("OTHER", folders=[tmp_path], environ={}).warnings == ()


def test_a_file_that_git_tracks_is_a_warning_that_says_what_to_do(tmp_path: Path) -> None:
    """Keys in a repository are its readers'; an ignored file beside it is fine."""
    env_file(tmp_path, f"{NAME}=value\n")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert look_for_secret(NAME, folders=[tmp_path], environ={}).warnings == ()

    subprocess.run(["git", "-C", str(tmp_path), "add", "--force", ".env"], check=True)

    (warning,) = look_for_secret(NAME, folders=[tmp_path], environ={}).warnings
    assert "git rm --cached .env" in warning


def test_a_file_that_cannot_be_read_is_a_warning_without_its_bytes(tmp_path: Path) -> None:
    """Another encoding, or a folder of that name, is no reason to stop."""
    (tmp_path / ".env").write_bytes(NAME.encode() + b"=sk-\xff\xfe\n")
    (tmp_path / "other" / ".env").mkdir(parents=True)

    found = look_for_secret(NAME, folders=[tmp_path, tmp_path / "other"], environ={})

    assert found.secret is None
    assert [warning.split(" cannot be read: ")[1] for warning in found.warnings] == ["it is no UTF-8", "Is a directory"]


def test_a_broken_keyring_is_a_note(keyring: Callable[[Callable[[], str | None]], None]) -> None:
    """A locked or broken keyring stops nobody whose key is elsewhere, and tells the others."""

    def locked() -> str | None:
        raise OSError("the value of another key")

    keyring(locked)

    found = look_for_secret(NAME, folders=[], environ={})

    assert found.secret is None
    assert "gave no answer (OSError)" in found.looked[-1]
    assert "another key" not in repr(found)


def test_without_the_extra_the_way_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keyring is an extra."""
    monkeypatch.setitem(sys.modules, "keyring", None)

    assert "pytest-researchenv[keyring]" in look_for_secret(NAME, folders=[], environ={}).looked[-1]
