"""From within an agent's container nothing is to be seen that would help it: no probe, suite, result or other attempt.

That keys and passwords turn up nowhere is tested in `agents/test_leaks.py`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from importlib import resources

import pytest

from tests.integration.isolation.cells import Cell
from tests.integration.workplace import FIXTURES


#: Names of files that only the harness has.
NAMES = (
    *("repo.toml", "suite.toml", "oracle.sh", "lock.json", "environment.json", "attempt.json", "transcript.log*"),
    *("observer.py", "probekit.py", "find_modules.py", "C?-*.json", "integrity-*.json", "requests.jsonl*"),
)


@pytest.fixture(scope="module")
def secret(other: Cell) -> str:
    """What another attempt has in a file, in a process's arguments and in its variables, all the while."""
    secret = f"secret-{uuid.uuid4().hex}"
    idle = f"SECRET={secret} setsid sh -c 'sleep 601; : {secret}' > /dev/null 2>&1 &"
    assert other.run("sh", "-c", f"echo {secret} > /{secret}; {idle}").ok
    return secret


@pytest.fixture(scope="module")
def harness() -> list[str]:
    """The longest lines, which tell a file from any other, of probes and of the suite that describes the repository."""
    probes, suite = resources.files("pytest_researchenv.probes"), FIXTURES / "suites/tiny"
    sources = [
        *(probes / "inside" / name for name in ("observer.py", "find_modules.py")),
        *(probes / "kit" / name for name in ("probekit.py", "observing.py")),
        *(suite / "needy" / name for name in ("repo.toml", "oracle.sh")),
    ]
    lines = [[line.strip() for line in source.read_text().splitlines()] for source in sources]
    return [line for those in lines for line in sorted(those, key=len)[-3:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Below it lie the results, on the machine that pytest runs on."""
    return str(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def seen(
    cell: Cell, secret: str, harness: list[str], folder: str, inside: Callable[[str], str]
) -> dict[str, list[str]]:
    """All of it, looked for from within an attempt: path → the texts that stand there."""
    texts = [secret, folder, "researchenv-results", *harness]
    found: dict[str, list[str]] = json.loads(cell.python(inside("search.py"), *texts, timeout_s=300))
    return found


def test_nothing_of_probes_and_suites_is_there(cell: Cell, seen: dict[str, list[str]], harness: list[str]) -> None:
    """Neither the harness's own scripts nor a line of the suite that describes this very repository."""
    patterns = [word for pattern in NAMES for word in ("-o", "-name", pattern)][1:]

    assert cell.run("find", "/", "-xdev", "(", *patterns, ")").output.text() == ""
    assert {path: texts for path, texts in seen.items() if set(texts) & set(harness)} == {}


def test_nothing_of_another_attempt_is_there(
    cell: Cell, other: Cell, secret: str, seen: dict[str, list[str]], inside: Callable[[str], str]
) -> None:
    """Its files, processes and variables are its own, while both are at work."""
    there = json.loads(other.python(inside("search.py"), secret, timeout_s=300))
    assert f"/{secret}" in there
    assert {"environ", "cmdline"} <= {path.rpartition("/")[2] for path in there}

    assert {path: texts for path, texts in seen.items() if secret in texts} == {}
    assert cell.run("find", "/", "-name", f"*{secret}*").output.text() == ""


def test_where_results_lie_is_not_to_be_seen(seen: dict[str, list[str]], folder: str) -> None:
    """No file, mount or variable tells of folders on the machine that pytest runs on."""
    assert {path: texts for path, texts in seen.items() if folder in texts or "researchenv-results" in texts} == {}


def test_its_variables_are_few_and_known(cell: Cell) -> None:
    """What an agent's process is given: the image's own, the way to its gateway, and whom to trust there."""
    names = {line.partition("=")[0].lower() for line in cell.run("env").output.text().splitlines()}
    trust = {name for name in names if name.endswith(("cert", "certs", "cert_file", "ca_bundle", "cainfo"))}

    ways = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
    assert names - ways - trust <= {"path", "lang", "home", "hostname", "pwd", "apt_config", "wgetrc"}
