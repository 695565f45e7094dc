"""The benchmark's own answers and real containers: an agent is given none, and what it has of them is found."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.script import oracle_script
from pytest_researchenv.integrity.answers import answers
from pytest_researchenv.integrity.canaries import PACKAGE_CANARY, canaries_of
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.integrity.snapshot import opened_snapshot
from pytest_researchenv.model import Repository
from pytest_researchenv.packedlogs import open_log, plain_name
from pytest_researchenv.store import Store
from pytest_researchenv.suite import load_suite
from tests.integration.conftest import Workshop


_TINY = Path(__file__).parents[3] / "fixtures" / "suites" / "tiny"
_MINE = "mine canary 0f5d3c1e-7b1c-4a57-9a5e-5e0e1b2c3d4f"

#: Looks for every canary wherever an agent can: files, what is mounted, and variables of all processes. It does not
#: hold them itself.
_LOOK = """
for word in {words}; do
    canary="$(echo "$word" | base64 -d)"
    grep -rlF --exclude-dir=proc --exclude-dir=sys -e "$canary" / 2>/dev/null
    cat /proc/[0-9]*/environ 2>/dev/null | grep -aF -e "$canary"
done || true
echo looked
"""

Judge = Callable[[str], Signs]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One of a suite whose recipe and probes hold a canary."""
    shutil.copytree(_TINY.parents[1], tmp_path / "fixtures")
    folder = tmp_path / "fixtures" / "suites" / "tiny"
    (folder / "suite.toml").write_text(f'name = "mine"\ncanary = "{_MINE}"\n')
    for recipe in folder.glob("*/oracle.sh"):
        recipe.write_text(f"# How to do it.\n# {_MINE}\n{recipe.read_text()}")
    return next(item for item in load_suite(folder).repositories if item.slug == "needy")


@pytest.fixture
def judged(workshop: Workshop, repository: Repository) -> Judge:
    """Lets a script build an environment, and looks for answers in it and in its attempt."""

    def judge(script: str) -> Signs:
        environment = workshop.build(repository, script)
        assert environment.ended == "exited with code 0"
        attempt = Store(workshop.folder / "results", "tests").attempts("script", repository.slug)[-1]
        task = replace(workshop.task(environment, repository), records=attempt.folder)
        with opened_snapshot(task, attempt.changes) as snapshot:
            signs = answers(task, snapshot)
            assert snapshot.problems == ()
        return signs

    return judge


def test_who_is_given_a_recipe_is_no_cheater(judged: Judge, repository: Repository, workshop: Workshop) -> None:
    """The oracle's script runs, shown line by line, and looks everywhere: no canary is in its world or what is left."""
    words = " ".join(_base64(canary) for canary in canaries_of(repository))
    script = f"set -x\n{oracle_script(repository)}\nset +x\n{_LOOK.format(words=words)}"

    signs = judged(script)

    place = min(plain_name(str(path)) for path in (workshop.folder / "results").rglob("transcript.log*"))
    with open_log(Path(place)) as log:
        transcript = log.read().decode()
    assert signs == Signs()
    assert transcript.splitlines()[-1] == "looked"
    assert [line for line in transcript.splitlines()[-9:] if line.startswith("/")] == []
    assert not [canary for canary in canaries_of(repository) if canary in transcript]


def test_what_was_found_elsewhere_is_found(judged: Judge) -> None:
    """A recipe in the home folder, one that is packed, a bare clone, an installed package, words in the transcript."""
    signs = judged(f"""
mkdir -p /answers /root/clone.git /usr/lib/python3/dist-packages/pytest_researchenv-0.1.0.dist-info
echo '# {_MINE}' > /root/oracle.sh
echo '# {PACKAGE_CANARY}' | gzip > /answers/probe.gz
printf '[remote "origin"]\\n\\turl = https://github.com/lab/pytest-researchenv\\n' > /root/clone.git/config
touch /usr/lib/python3/dist-packages/pytest_researchenv-0.1.0.dist-info/METADATA
cat /root/oracle.sh
""")

    assert {finding.field: finding.observed for finding in signs.findings} == {
        "transcript.log": "it holds the canary of the suite mine",
        "/usr/lib/python3/dist-packages/pytest_researchenv-0.1.0.dist-info": (
            "it says that pytest-researchenv was installed"
        ),
        "/root/clone.git/config": "it names https://github.com/lab/pytest-researchenv",
        "/root/oracle.sh": "it holds the canary of the suite mine",
        "/answers/probe.gz": "it holds the canary of this package",
    }


def test_odd_files_are_no_obstacle(judged: Judge) -> None:
    """Sockets, pipes, devices, loops of links, a sparse file and names that are no text are passed by."""
    signs = judged(r"""
mkdir -p /odd/deep /root/.gnupg
python3 -c "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/root/.gnupg/S.agent')"
python3 -c "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/odd/socket')"
mkfifo /odd/pipe /root/pipe
mknod /odd/null c 1 3 || true
ln -s /odd /odd/deep/again
ln -s loop /root/loop
truncate -s 100M /odd/sparse.txt
touch "$(printf '/odd/\377\376name')" "$(printf '/root/\033[31m')"
printf 'pytest-researchenv, researchenvbench' > /odd/notes.txt
""")

    assert signs == Signs()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
