"""Self-reports that attack whoever reads them, through real containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import Cause, FindingKind, Repository, Tier, Verdict
from tests.choosing import mostly_slow


if TYPE_CHECKING:
    from tests.integration.conftest import Workshop


R = "$RESEARCHENV_REPORT"

#: How the report comes about → what every tier's reason says.
REPORTS = {
    "missing": ("true", "no self-report"),
    "empty": (f": > {R}", "is empty"),
    "2 GB sparse": (f"truncate -s 2G {R}", "has 2147483648 bytes"),
    "a FIFO": (f"mkfifo {R}", "is a FIFO"),
    # A container cannot make one, but can lead to one.
    "a device": (f"ln -s /dev/zero {R}", "is a symbolic link"),
    "a socket": (f"""python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('{R}')" """, ""),
    "a link to /etc/passwd": (f"ln -s /etc/passwd {R}", "is a symbolic link"),
    "a hard link": (f"echo '{{}}' > /x; ln /x {R}", "none of the nine fields"),
    "a folder": (f"mkdir {R}", "is a folder"),
    "deep nesting": (f"""python3 -c "print('[' * 100000 + ']' * 100000)" > {R}""", "nested deeper"),
    "invalid UTF-8": (rf"printf '{{\"python_path\": \"\xff\"}}' > {R}", "not UTF-8"),
    "a byte-order mark": (rf"printf '\xef\xbb\xbf{{}}' > {R}", "byte-order mark"),
    "duplicate keys": (f"""echo '{{"notes": "a", "notes": "b"}}' > {R}""", "twice"),
    "wrong types": (f"""echo '{{"gpu_count": "two", "python_path": 3}}' > {R}""", "gpu_count must be an integer"),
    "no numbers": (f"""echo '{{"gpu_count": NaN}}' > {R}""", "NaN"),
    "a huge number": (f"""echo '{{"gpu_count": 1{"0" * 400}}}' > {R}""", "digits"),
    "a relative path": (f"""echo '{{"python_path": "bin/python"}}' > {R}""", "must be absolute"),
    "a path upwards": (f"""echo '{{"python_path": "/x/../bin/python3"}}' > {R}""", "'..'"),
}


#: What is tried for every change: nothing there, no text, no document, and what only looks like a file.
ALWAYS = frozenset(("missing", "empty", "invalid UTF-8", "deep nesting", "a FIFO", "a folder", "a link to /etc/passwd"))


@pytest.mark.parametrize("name", mostly_slow(REPORTS, but=ALWAYS))
def test_a_hostile_report_fails_every_tier_with_its_reason(workshop: Workshop, needy: Repository, name: str) -> None:
    """Missing or invalid, it is a failure of all tiers, C5 among them; never an error, never a pass."""
    script, said = REPORTS[name]

    environment = workshop.build(needy, script)

    assert environment.report is None
    for tier in (Tier.C0, Tier.C1, Tier.C5):
        result = workshop.judge(environment, needy, tier)
        assert result.verdict is Verdict.FAILED
        assert result.cause in {Cause.NO_REPORT, Cause.INVALID_REPORT}
        assert said in result.reason


@pytest.mark.parametrize(
    ("path", "observed"),
    [("/usr/bin", "a folder"), ("/nowhere", "no such file"), ("/bin/true", "no Python"), ("/etc/passwd", "")],
)
def test_a_path_that_is_no_interpreter_fails_every_tier(
    workshop: Workshop, needy: Repository, path: str, observed: str
) -> None:
    """The report can be read; that its interpreter is none is a finding."""
    environment = workshop.build(needy, f"""echo '{{"python_path": "{path}"}}' > {R}""")

    for tier in (Tier.C0, Tier.C1):
        assert workshop.judge(environment, needy, tier).verdict is Verdict.FAILED
    c5 = workshop.judge(environment, needy, Tier.C5)
    assert [finding.kind for finding in c5.findings] == [FindingKind.PATH]
    assert observed in c5.reason
