"""Who owns a thing, and whether that process still lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_researchenv.sandbox import labels
from pytest_researchenv.sandbox.labels import KIND, PREFIX, Owner, alive, expired


def test_all_labels_are_ours_and_complete() -> None:
    """Each label starts with our prefix; kind, run, host, process and expiry are always there."""
    found = Owner("run-1", "host-1", "process-1").labels("container", attempt="7", lifetime_s=60, tool_set="x")

    expires = int(found.pop(f"{PREFIX}expires"))
    assert found == {
        KIND: "container",
        f"{PREFIX}run": "run-1",
        f"{PREFIX}host": "host-1",
        f"{PREFIX}process": "process-1",
        f"{PREFIX}attempt": "7",
        f"{PREFIX}tool-set": "x",
    }
    assert abs(expires - time.time() - 60) < 5


def test_an_extra_label_cannot_replace_an_owner() -> None:
    """What decides about removal is not open to callers."""
    found = Owner("run-1", "host-1", "process-1").labels("container", host="other", process="other")

    assert (found[f"{PREFIX}host"], found[f"{PREFIX}process"]) == ("host-1", "process-1")


def test_this_process_is_alive() -> None:
    """An owner that is running is seen to."""
    assert alive(Owner.current("tests").process) is True


def test_a_dead_process_is_not_alive() -> None:
    """An owner that was killed is seen to be dead, though its parent has not collected it yet."""
    code = "from pytest_researchenv.sandbox.labels import Owner; print(Owner.current('x').process, flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        process = child.stdout.readline().strip()
        assert alive(process) is True

        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert alive(process) is False


def test_a_recycled_process_id_is_not_its_former_owner() -> None:
    """The same id with another start time is another process."""
    former = Owner.current("tests").process.rpartition("/")[0] + "/1"

    assert alive(former) is False


def test_a_process_of_an_earlier_boot_is_dead() -> None:
    """Nothing lives through a reboot."""
    assert alive("another-boot/" + Owner.current("tests").process.partition("/")[2]) is False


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
@pytest.mark.parametrize("hidepid", ["1", "2"])
def test_another_users_process_that_is_hidden_is_not_taken_for_dead(hidepid: str) -> None:
    """A sweep must not take its things, although /proc does not show it; one that has really ended is dead."""
    process = Owner.current("tests").process
    parts = process.split("/")
    gone = "/".join([*parts[:2], "4194303", parts[3]])
    script = (
        "import os; from pytest_researchenv.sandbox.labels import alive\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"print(alive({process!r}), alive({gone!r}))"
    )
    mounted = f'mount -t proc -o hidepid={hidepid} proc /proc && exec "$@"'

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )

    if "mount: /proc" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.split() == ["None", "False"], done.stderr


@pytest.mark.parametrize("process", ["", "nonsense", "a/b", "a/b/c/d"])
def test_of_a_malformed_process_nothing_is_known(process: str) -> None:
    """What cannot be read is not taken for dead."""
    assert alive(process) is None


def test_of_a_process_in_another_container_nothing_is_known() -> None:
    """Its id means nothing in our namespace."""
    boot, _, pid, start = Owner.current("tests").process.split("/")

    assert alive(f"{boot}/1/{pid}/{start}") is None


@pytest.mark.parametrize(
    ("value", "outcome"), [("99", True), ("100", False), ("101", False), ("", False), ("soon", False), ("-1", False)]
)
def test_expiry_is_a_time_in_the_past(value: str, outcome: bool) -> None:  # noqa: FBT001 - a parameter of a table.
    """Only a well-formed time that has passed counts."""
    assert expired({f"{PREFIX}expires": value}, now=100) is outcome


def test_the_host_is_stable() -> None:
    """Two processes of one host give the same one."""
    code = "from pytest_researchenv.sandbox.labels import Owner; print(Owner.current('x').host)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert other.stdout.strip() == Owner.current("tests").host


def test_labels_import_nothing_heavy() -> None:
    """The plugin may import this module at start-up."""
    code = f"import sys; import {labels.__name__}; sys.exit('docker' in sys.modules or 'requests' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
