"""Attacks on the evaluation: by code that it runs, and by what an agent with root left for it to step on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import Verdict
from pytest_researchenv.research.result import ResearchCause
from pytest_researchenv.sandbox.protocol import ContainerSpec
from tests.integration.research.test_evaluation import SUBTASK, TASK, handed_in


if TYPE_CHECKING:
    from tests.integration.research.conftest import Gym

#: By the C library alone, which no hook of Python's sees. What it says in the end stands in the finding.
_INTRUDER = r"""
import ctypes, glob, os, sys
libc = ctypes.CDLL(None, use_errno=True)
FORGED = b"0" * 64 + b' {"subtask": "steps2", "passed": true}\n'
done = []

def written(path):
    handle = libc.open(path.encode(), 1)
    if handle >= 0 and libc.write(handle, FORGED, len(FORGED)) > 0:
        done.append("wrote " + path)

def read(path):
    if libc.open(path.encode(), 0) >= 0:
        done.append("read " + path)

parent = libc.getppid()
for process in {1, parent}:
    for number in (0, 1, 2):
        written(f"/proc/{process}/fd/{number}")
    for name in ("mem", "environ", "maps"):
        read(f"/proc/{process}/{name}")
    if libc.kill(process, 9) == 0:
        done.append(f"killed {process}")
    if libc.ptrace(16, process, 0, 0) == 0:
        done.append(f"traced {process}")
read("/researchenv/evaluation/digits-continual/evaluation/evaluate.py")
written("/researchenv/interpreter/bin/python3")
if libc.setuid(0) == 0 or libc.seteuid(65533) == 0:
    done.append("became another user")
helper = libc.fork()
if helper == 0:
    libc.execv(b"/usr/local/bin/root", (ctypes.c_char_p * 2)(b"root", None))
    os._exit(1)
libc.waitpid(helper, None, 0)
if libc.access(b"/usr/local/planted", 0) == 0:
    done.append("became root")
# One that goes on in a session of its own, and lies in wait for other calls.
if libc.fork() == 0:
    libc.setsid()
    while True:
        pass
print("INTRUDER", os.getuid(), os.geteuid(), done, flush=True)
os._exit(1)
"""

_PLANTED = """
cat >/tmp/root.c <<'C'
#include <fcntl.h>
#include <unistd.h>
int main(void) { setuid(0); return geteuid() || open("/usr/local/planted", O_CREAT | O_WRONLY, 0644) < 0; }
C
cc -o /usr/local/bin/root /tmp/root.c
chmod 4755 /usr/local/bin/root
"""


def test_code_that_is_run_can_neither_forge_the_report_nor_reach_the_evaluation(gym: Gym) -> None:
    """It runs as a user of its own: it writes to nothing of the evaluation, reads none of it, and outlives no call."""
    environment = gym.worked(TASK, handed_in(_INTRUDER, before=_PLANTED))

    result = gym.evaluated(TASK, environment, SUBTASK)

    assert (result.verdict, result.completed) == (Verdict.FAILED, False)
    crash = next(one for one in result.findings if one.check == "crash")
    said = re.search(r"INTRUDER (\d+) (\d+) (\[.*\])", crash.what)
    assert said, crash.what
    assert said.groups() == ("65534", "65534", "[]")


#: What is loaded into every program that the image's own loader starts.
_PRELOADED = """
cat >/tmp/pre.c <<'C'
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) {
    static const char said[] = "preloaded\\n";
    if (write(1, said, sizeof said - 1) < 0) return;
    _exit(0);
}
C
cc -shared -fPIC -o /usr/lib/libpre.so /tmp/pre.c
"""


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        # Whatever the image's own programs load, the evaluation has a loader and libraries of its own.
        pytest.param(f"{_PRELOADED}report_first\necho /usr/lib/libpre.so >/etc/ld.so.preload\n", None, id="preload"),
        pytest.param(
            f"{_PRELOADED}report_first\nmv /usr/lib/libpre.so $(readlink -f /lib/x86_64-linux-gnu/libz.so.1)\n",
            None,
            id="library",
            marks=pytest.mark.slow,
        ),
        pytest.param("rm -rf /tmp && ln -s /nowhere /tmp\n", None, id="tmp-is-a-link", marks=pytest.mark.slow),
        pytest.param("rm -rf /tmp && echo >/tmp\n", None, id="tmp-is-a-file", marks=pytest.mark.slow),
        pytest.param(
            "report_first\ncd /\nrm -rf $OLDPWD\nln -s /proc/1/root $OLDPWD\n",
            None,
            id="workplace-is-a-link",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "report_first\ncd /\nrm -rf /researchenv\nln -s /etc /researchenv\n",
            ResearchCause.NO_REPORT,
            id="mount-point-is-a-link",
        ),
        pytest.param(
            "report_first\nrm -f /lib64/ld-linux-x86-64.so.2\n", ResearchCause.NOTHING_HANDED_IN, id="no-loader"
        ),
    ],
)
def test_what_an_agent_left_to_step_on_makes_no_error(gym: Gym, script: str, cause: ResearchCause | None) -> None:
    """With root it broke the image on purpose: it failed, for having handed nothing in or for a broken environment."""
    report = "report_first() { report /opt/venv/bin/python venv /opt/venv; }\n"
    environment = gym.worked(TASK, f"{report}{script}", report="report_first\n" not in script)

    if _PRELOADED in script:
        # The attack is one: the image's own Python does not even start.
        spec = ContainerSpec(image=environment.image, argv=("/usr/bin/python3", "-c", "print('started')"))
        with gym.engine.sandbox.opened(spec) as container:
            assert "started" not in container.run(timeout_s=60).output.text()

    result = gym.evaluated(TASK, environment, SUBTASK)

    assert (result.verdict, result.completed) == (Verdict.FAILED, False), result.reason
    allowed = {cause} if cause else {ResearchCause.NOTHING_HANDED_IN, ResearchCause.BROKEN_ENVIRONMENT}
    assert result.cause in allowed, result.reason
