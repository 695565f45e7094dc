"""Keys and passwords: where they come from. They stand in nothing that is printed, logged, stored or shown."""

from __future__ import annotations

import io
import os
import subprocess
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError


__all__ = ["SERVICE", "Found", "Secret", "look_for_secret"]

#: Under which name the keyring of the operating system holds our keys.
SERVICE = "researchenv"

#: How long the keyring may take to answer, in seconds: a person may have to type a password.
_PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that must not leak.

    Attributes:
        name: what people call it, such as its environment variable.
        value: the value; it stands in no representation.
    """

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search for a secret came to.

    Attributes:
        secret: the secret; None where there is none.
        place: where it was found, in words; empty where it was not.
        looked: every place that was looked at, in words, in order.
        warnings: what is wrong with where secrets are kept, one sentence each.
    """

    secret: Secret | None
    place: str
    looked: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def look_for_secret(name: str, *, folders: Sequence[Path], environ: Mapping[str, str] = os.environ) -> Found:
    """Look for a secret, and tell where.

    The environment comes first, then the `.env` files of some folders, then the keyring of the operating system, where
    the extra `keyring` is installed. White space around a value is left out; an empty value counts as missing.

    Args:
        name: its environment variable, which is also its name in `.env` files and the keyring.
        folders: which folders' `.env` files are read, the most important first.
        environ: the environment.

    Raises:
        ConfigurationError: the value cannot be a key; the message does not show it.
    """
    looked = [f"environment variable {name}"]
    warnings: list[str] = []
    if value := _checked(environ.get(name), f"environment variable {name}"):
        return Found(Secret(name, value), looked[0], tuple(looked))
    for file in dict.fromkeys(folder.resolve() / ".env" for folder in folders):
        looked.append(str(file))
        if value := _checked(_values(file, warnings).get(name), f"{name} in {file}"):
            warnings += _exposed(file)
            return Found(Secret(name, value), str(file), tuple(looked), tuple(warnings))
    place = f"keyring (service {SERVICE!r}, user name {name!r})"
    stored, note = _from_keyring(name)
    looked.append(f"{place}{f': {note}' if note else ''}")
    if value := _checked(stored, f"{name} in the keyring"):
        return Found(Secret(name, value), place, tuple(looked), tuple(warnings))
    return Found(None, "", tuple(looked), tuple(warnings))


def _checked(value: str | None, place: str) -> str:
    """Return the value without white space around it; empty where there is none."""
    value = (value or "").strip()
    if wrong := sorted({unicodedata.category(sign) for sign in value} & {"Cc", "Cf", "Cs", "Zl", "Zp"}):
        raise ConfigurationError(
            f"{place} cannot be a key: of its {len(value)} characters, some are line breaks or other signs that "
            f"cannot be seen (Unicode {', '.join(wrong)}); copy the key again, as one line"
        )
    return value


def _values(file: Path, warnings: list[str]) -> Mapping[str, str | None]:
    """Read a `.env` file; nothing where it is missing, and a warning where it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        # The error of a wrong encoding holds the file's bytes.
        warnings.append(f"{file} cannot be read: {error.strerror if isinstance(error, OSError) else 'it is no UTF-8'}")
        return {}
    # Nothing of it is needed where keys stand in the environment.
    from dotenv import dotenv_values  # noqa: PLC0415 - see above

    # A `$` in a key is part of it.
    return dotenv_values(stream=io.StringIO(text), interpolate=False)


def _exposed(file: Path) -> list[str]:
    """Say who else can read a file with secrets."""
    warnings = []
    if file.stat().st_mode & 0o004:
        warnings.append(f"{file} holds keys and can be read by every user of this machine: run `chmod 600 {file}`")
    command = ["git", "-C", str(file.parent), "ls-files", "--error-unmatch", "--", file.name]
    try:
        tracked = subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        tracked = False
    if tracked:
        warnings.append(
            f"{file} holds keys and is tracked by Git: run `git rm --cached {file.name}`, add it to .gitignore, and "
            "replace the keys if anybody else has had the repository"
        )
    return warnings


def _from_keyring(name: str) -> tuple[str | None, str]:
    """Ask the keyring; why it gave nothing, in words."""
    try:
        import keyring  # noqa: PLC0415 - an extra
        from keyring.errors import NoKeyringError  # noqa: PLC0415 - likewise
    except ImportError:
        return None, "not installed; `pip install 'pytest-researchenv[keyring]'`"
    answers: list[tuple[str | None, str]] = []

    def ask() -> None:
        try:
            answers.append((keyring.get_password(SERVICE, name), ""))
        except NoKeyringError:
            answers.append((None, "this machine has none"))
        # Backends are programs of many makers: D-Bus, a desktop's service or a file may fail in any way.
        except Exception as error:  # noqa: BLE001 - see above
            answers.append((None, f"gave no answer ({type(error).__name__}); unlock it, or use another place"))

    # A locked one may wait for somebody at a screen that nobody sees.
    asking = threading.Thread(target=ask, name="researchenv-keyring", daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    return answers[0] if answers else (None, f"gave no answer in {_PATIENCE_S} s; unlock it, or use another place")
