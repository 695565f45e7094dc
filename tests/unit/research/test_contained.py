"""What an evaluation does where it has a container to itself, as far as it can be seen without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.researchgym._shared.judging.contained import open_to_all


def mode(path: Path) -> str:
    """Permissions."""
    return f"{path.stat().st_mode & 0o7777:o}"


def test_an_environment_of_the_super_users_is_opened(tmp_path: Path) -> None:
    """Agents install as root, and perhaps in root's home: everybody may then read and run it, and write to nothing."""
    home = tmp_path / "root"
    for folder in ("venv/bin", "venv/lib"):
        (home / folder).mkdir(parents=True)
    python, module, script = home / "venv/bin/python", home / "venv/lib/module.py", home / "venv/bin/tool"
    for path, bits in ((python, 0o700), (module, 0o600), (script, 0o700)):
        path.write_text("")
        path.chmod(bits)
    elsewhere = home / "private"
    elsewhere.write_text("")
    elsewhere.chmod(0o600)
    (home / "venv/lib/link").symlink_to(elsewhere)
    home.chmod(0o700)

    open_to_all(str(python))

    assert (mode(home), mode(python), mode(module), mode(script)) == ("711", "755", "644", "755")
    assert mode(elsewhere) == "600"


@pytest.mark.parametrize("python", ["/nowhere/bin/python", "relative", ""])
def test_what_is_not_there_is_left_alone(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be opened is found out when it is tried."""
    monkeypatch.chdir(tmp_path)
    open_to_all(python)
