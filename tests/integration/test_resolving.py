"""Recipes resolved in real containers, with the index that agents have: nothing is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.cli import main


_HEAD = "uv venv --python python3 /opt/venv/x\nexport VIRTUAL_ENV=/opt/venv/x\n"
_END = '"$VIRTUAL_ENV/bin/python" -c "import six"\nreport "$VIRTUAL_ENV/bin/python" uv x\n'
_GOOD = """\
apt-get update && apt-get install --yes nothing
if command -v nvidia-smi; then version=1.16.0; else version=9999; fi
uv pip install "six==$version"
uv pip install --editable . six
test ! -e /opt/venv/x/lib/python3*/site-packages/six.py
"$VIRTUAL_ENV/bin/python" -m pip install attrs
git clone https://example.invalid/x
"""
_RECIPES = {
    "good": _GOOD,
    "bad": "uv pip install six==9999\npip install 'six==1.16.0' 'python-dateutil==2.9.0' 'six<1.5'\n",
    "git": "uv pip install six 'other @ git+https://example.invalid/x'\nsix-command\n$VIRTUAL_ENV/bin/gone\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Three repositories, each with a recipe."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "pyproject.toml").write_text(
        '[project]\nname = "own"\nversion = "1"\ndependencies = ["toml==0.10.2"]\n'
    )
    for name, recipe in _RECIPES.items():
        folder = tmp_path / "suite" / name
        folder.mkdir(parents=True)
        path = tmp_path / ("tree" if name != "git" else "nowhere")
        (folder / "repo.toml").write_text(f'name = "{name}"\n[source]\npath = "{path}"\n[tiers.C0]\n')
        (folder / "oracle.sh").write_text(_HEAD + recipe + _END)
    (tmp_path / "suite" / "suite.toml").write_text('name = "suite"\n')
    return tmp_path / "suite"


@pytest.mark.usefixtures("base_image")
def test_recipes_are_resolved_for_the_target(suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A good one resolves, what does not exist or does not go together is a conflict, what is from Git is listed."""
    command = ["resolve", str(suite), "--cache", str(tmp_path / "cache"), "--logs", str(tmp_path / "logs")]

    code = main([*command, "--output", str(tmp_path / "page.md")])

    said, problems = capsys.readouterr()
    assert not problems
    assert "good: 3 commands, 3 packages resolved for Python 3.10, 0 not resolved, 0 conflicts, 0 replaced\n" in said
    assert "the recipe has ended" in (tmp_path / "logs" / "good.log").read_text()
    assert "bad: 2 commands, 0 packages resolved for Python 3.10, 0 not resolved, 2 conflicts, 0 replaced\n" in said
    assert "there is no version of six==9999" in said
    assert (
        "git (no tree): 1 commands, 1 packages resolved for Python 3.10, 2 not resolved, 0 conflicts, 0 replaced\n"
        in said
    )
    assert "  not resolved: other @ git+https://example.invalid/x: it comes from Git, which is not asked\n" in said
    assert "six-command is not here" in (tmp_path / "logs" / "git.log").read_text()
    assert "  not resolved: the rest of the recipe: it exited with code 127, with " in said
    assert "2 of 3 recipes have no conflict; 1 ended before their end.\n" in (tmp_path / "page.md").read_text()
    assert code == 1
