"""A real repository by real tools: the quickstart's kvpress, set up by a model that knows its recipe. Long proofs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from tests.integration.agents.conftest import Bench
from tests.integration.workplace import FIXTURES, Ran


_SUITE = FIXTURES.parent / "suites" / "quickstart"

#: What the recipe's prologue gives it, in the shell of an agent.
_REPORT = """report() {
    "$1" -I -c "$(cat /tmp/self_report.py)" /researchenv/report.json "$2" "$3" "${4:-}"
}
"""


def _commands(recipe: Path) -> list[str]:
    """The recipe as a model's commands: two files, what runs them, and what removes them."""
    own = (resources.files("pytest_researchenv.agents") / "inside" / "self_report.py").read_text()
    return [
        f"cat > /tmp/self_report.py <<'END_OF_FILE'\n{own}\nEND_OF_FILE",
        f"cat > /tmp/set_up.sh <<'END_OF_FILE'\nset -euo pipefail\n{_REPORT}{recipe.read_text()}\nEND_OF_FILE",
        "bash /tmp/set_up.sh > /tmp/set_up.log 2>&1; echo code $?; tail -n 20 /tmp/set_up.log",
        "rm /tmp/set_up.sh /tmp/self_report.py /tmp/set_up.log",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["claude-sonnet", "codex", "mini-swe"])
def test_kvpress_passes_every_tier(bench: Bench, agent: str) -> None:
    """Each tool builds kvpress by its own tool calls through gateway and allowlist, and all six tiers pass."""
    bench.play("good", commands=_commands(_SUITE / "kvpress" / "oracle.sh"))

    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                str(_SUITE),
                "-k",
                "kvpress",
                "-c",
                str(FIXTURES.parent / "pyproject.toml"),
            ),
            *(f"--researchenv-agent={agent}", f"--researchenv-results={bench.folder / 'researchenv-results'}"),
            f"--junitxml={bench.folder / 'out.xml'}",
        ],
        cwd=bench.folder,
        env={**os.environ, **bench.variables()},
        check=False,
        capture_output=True,
        text=True,
    )
    ran = Ran(bench.folder, done.returncode, done.stdout + done.stderr)

    assert len(ran.outcomes) == 6
    assert set(ran.outcomes.values()) == {"passed"}, ran.text
    assert int(ran.properties[f"C1 {agent}-kvpress"]["agent_tokens_in"]) > 5000
    assert f"{agent}: 1 environment: 6 requests" in ran.text
