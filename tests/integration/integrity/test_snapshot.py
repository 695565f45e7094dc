"""Frozen images as the audit reads them, made by scripts in real containers."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from pytest_researchenv.errors import UnknownChangesError
from pytest_researchenv.integrity.places import places
from pytest_researchenv.integrity.profiles import profiles
from pytest_researchenv.integrity.protocol import Kind, Signs, Snapshot, merged
from pytest_researchenv.integrity.shadows import shadows
from pytest_researchenv.integrity.snapshot import opened_snapshot
from pytest_researchenv.integrity.tree import tracked
from pytest_researchenv.model import (
    Environment,
    Evidence,
    JsonEvidence,
    Repository,
    Sign,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.store import Attempt, Store


if TYPE_CHECKING:
    from docker import DockerClient

    from tests.integration.conftest import Workshop


REPORT = 'report /usr/bin/python3 system ""\n'


def _attempt(workshop: Workshop, repository: Repository) -> Attempt:
    attempt = Store(workshop.folder / "results", "tests").latest("script", repository.slug)
    assert attempt is not None
    return attempt


@contextmanager
def _snapshot(
    workshop: Workshop, environment: Environment, repository: Repository
) -> Iterator[tuple[ProbeTask, Snapshot]]:
    task = workshop.task(environment, repository)
    with opened_snapshot(task, _attempt(workshop, repository).changes) as snapshot:
        yield task, snapshot


def _signs(workshop: Workshop, repository: Repository, script: str) -> Signs:
    environment = workshop.build(repository, f"{script}\n{REPORT}")
    assert environment.ended == "exited with code 0"
    with _snapshot(workshop, environment, repository) as (task, snapshot):
        found = merged(check(task, snapshot) for check in (tracked, places, shadows, profiles))
        assert snapshot.problems == ()
        return found


# --- what is read -----------------------------------------------------------------------------------------

ODD = r"""
set -e
mkdir -p /opt/odd/deep /opt/many
printf content >/opt/odd/file
ln /opt/odd/file /opt/odd/hard
ln -s ../odd/./file /opt/odd/link
ln -s /opt/odd /over
ln -s loop /opt/odd/loop
mkfifo /opt/odd/fifo
printf bytes >"/opt/odd/$(printf 'bad\377')"
mkdir "/opt/odd/$(printf 'dir\376')"
printf inside >"/opt/odd/$(printf 'dir\376')/in"
touch '/opt/odd/new
line'
truncate -s 300M /opt/odd/sparse
python3 -c "for number in range(20_000): open(f'/opt/many/{number}', 'w').close()"
echo '# more' >>/etc/profile
rm /etc/skel/.profile
rm -r /usr/share/doc
rm -r /etc/terminfo && ln -s /over /etc/terminfo
chmod 700 /usr/local/share
"""


def test_what_an_agent_left_is_seen(workshop: Workshop, needy: Repository) -> None:
    """Links, hard links, pipes, names that are no text, sparse files, and thousands of files; and what it touched."""
    environment = workshop.build(needy, ODD + REPORT)
    with _snapshot(workshop, environment, needy) as (_, snapshot):
        started = time.monotonic()
        found = {entry.path: entry for entry in snapshot.tree("/over", lambda path: path.endswith("/hard"))}
        digest = hashlib.sha256(b"content").hexdigest()

        assert found["/opt/odd/file"].sha256 == found["/opt/odd/hard"].sha256 == digest
        assert found["/opt/odd/hard"].content == b"content"
        assert found["/opt/odd/fifo"].kind is Kind.OTHER
        assert found["/opt/odd/loop"].link == "loop"
        assert found["/opt/odd/sparse"].size == 300 * 1024**2
        assert found["/opt/odd/sparse"].sha256 == hashlib.sha256(bytes(300 * 1024**2)).hexdigest()
        assert {"/opt/odd/bad\udcff", "/opt/odd/dir\udcfe/in", "/opt/odd/new\nline"} <= set(found)
        assert snapshot.resolved("/over/../odd/link") == "/opt/odd/file"
        assert snapshot.entry("/over/bad\udcff").content == b"bytes"  # type: ignore[union-attr]
        assert snapshot.entry("/opt/odd/dir\udcfe/in").content == b"inside"  # type: ignore[union-attr]
        assert snapshot.resolved("/opt/odd/loop") == ""
        assert snapshot.entry("/opt/odd/loop/below") is None
        assert snapshot.entry("/opt/odd/file/below") is None
        assert snapshot.base("/etc/skel/.profile") is not None
        assert len(list(snapshot.tree("/opt/many"))) == 20_000
        # While it reads, an engine keeps all others out.
        unseen = [entry.path for entry in snapshot.tree("/opt/odd") if snapshot.link(entry.path) is None]
        assert unseen == ["/opt/odd/loop"]

        assert snapshot.touched("/etc") == {"/etc/profile": "C", "/etc/skel/.profile": "D", "/etc/terminfo": "C"}
        assert snapshot.touched("/usr/share/doc").get("/usr/share/doc") == "D"
        assert snapshot.touched("/usr/local") == {}
        assert snapshot.touched("/usr/sbin", "/dev", "/researchenv/tools") == {}
        assert snapshot.touched("/researchenv") == {"/researchenv/report.json": "A"}
        assert "/opt/odd/bad\ufffd" in snapshot.touched("/opt/odd")
        assert len(snapshot.touched("/opt/many")) == 20_001
        assert snapshot.problems == ()
        assert time.monotonic() - started < 120


def test_files_that_cannot_be_compared_are_the_agents_fault(workshop: Workshop, needy: Repository) -> None:
    """Folders nested deeper than a path can be long: the engine cannot list what differs, and that is recorded."""
    nested = "import os\nfor _ in range(40): os.mkdir('x' * 200); os.chdir('x' * 200)"
    workshop.build(needy, f'mkdir /deep && cd /deep && python3 -c "{nested}"\ncd /\n{REPORT}')

    with pytest.raises(UnknownChangesError, match="file name too long"):
        list(_attempt(workshop, needy).changes())


# --- what is found ----------------------------------------------------------------------------------------

HONEST = """
set -e
python3 -m venv /opt/venv
ln -s /opt/venv/bin/python /usr/local/bin/python
ln -s /opt/venv/bin/pip /usr/local/bin/pip
echo 'source /opt/venv/bin/activate' >>/root/.bashrc
echo 'export PATH=/opt/venv/bin:$PATH' >/etc/profile.d/venv.sh
git config --global user.name agent
git config --global user.email agent@example.org
git config --global --add safe.directory '*'
cd /workspace/needy
git config core.fsmonitor true
mkdir -p build && echo x >build/log
git add -A && git commit --quiet -m 'work in progress'
printf '#!/bin/sh\\nexit 0\\n' >/etc/cron.daily-like && chmod +x /etc/cron.daily-like
report /opt/venv/bin/python venv /opt/venv
"""


def test_an_honest_environment_raises_nothing(workshop: Workshop, needy: Repository) -> None:
    """A virtual environment with links to it, a profile that activates it, and commits."""
    environment = workshop.build(needy, HONEST)
    assert environment.ended == "exited with code 0"
    with _snapshot(workshop, environment, needy) as (task, snapshot):
        found = merged(check(task, snapshot) for check in (tracked, places, shadows, profiles))
        assert snapshot.problems == ()

    assert found == Signs()


FORGED = r"""
set -e
printf '#!/bin/sh\necho 8 x NVIDIA H100\n' >/usr/local/bin/nvidia-smi
printf '#!/bin/sh\nexec /usr/bin/python3 "$@"\n' >/usr/local/bin/python
chmod +x /usr/local/bin/nvidia-smi /usr/local/bin/python
echo "alias torchrun='echo ok'" >>/root/.bashrc
echo 'BASH_ENV=/opt/x.sh' >>/etc/environment
mkdir -p /researchenv/probes/out && echo '{}' >/researchenv/probes/out/answer.json
cd /workspace/needy
echo '# changed' >>run.py
git config core.fsmonitor /opt/x.sh
printf '#!/bin/sh\n/opt/x.sh\n' >.git/hooks/post-index-change 2>/dev/null || {
    mkdir -p .git/hooks
    printf '#!/bin/sh\n/opt/x.sh\n' >.git/hooks/post-index-change
}
chmod +x .git/hooks/post-index-change
"""


def test_forgeries_are_found(workshop: Workshop, needy: Repository) -> None:
    """Each by its own check."""
    found = _signs(workshop, needy, FORGED)

    assert {(one.kind, one.field) for one in found.findings} == {
        (Sign.TRACKED, "run.py"),
        (Sign.TRACKED, "/workspace/needy/.git/config"),
        (Sign.TRACKED, "/workspace/needy/.git/hooks/post-index-change"),
        (Sign.PLACE, "/researchenv/probes"),
        (Sign.PLACE, "/researchenv/probes/out"),
        (Sign.PLACE, "/researchenv/probes/out/answer.json"),
        (Sign.SHADOW, "/usr/local/bin/nvidia-smi"),
        (Sign.SHADOW, "/usr/local/bin/python"),
        (Sign.PROFILE, "/root/.bashrc"),
        (Sign.PROFILE, "/etc/environment"),
    }
    assert set(found.blanked) == {
        *("/root/.bashrc", "/etc/environment"),
        *("/usr/local/bin/nvidia-smi", "/usr/local/bin/python"),
    }


# --- what goes on running ---------------------------------------------------------------------------------

#: Everything that starts things on a machine, and something that is running already.
LEFT_BEHIND = r"""
set -e
printf '#!/bin/sh\ndate >>/ran\nsleep 7531\n' >/opt/left && chmod +x /opt/left
mkdir -p /etc/cron.d /etc/cron.hourly /var/spool/cron/crontabs /etc/systemd/system/multi-user.target.wants /etc/rc2.d \
    /etc/profile.d /root/.config/autostart /etc/init.d /docker-entrypoint.d /etc/xdg/autostart /etc/udev/rules.d
echo '* * * * * root /opt/left' | tee /etc/cron.d/left >>/etc/crontab
echo '@reboot /opt/left' >/var/spool/cron/crontabs/root
printf '[Service]\nExecStart=/opt/left\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/left.service
ln -s ../left.service /etc/systemd/system/multi-user.target.wants/left.service
echo '1:2345:respawn:/opt/left' >/etc/inittab
for file in /etc/rc.local /etc/init.d/left /etc/cron.hourly/left /docker-entrypoint.sh /docker-entrypoint.d/left /init \
    /entrypoint.sh /usr/local/bin/docker-entrypoint.sh /usr/local/bin/tini /usr/local/bin/docker-init; do
    cp /opt/left "$file"
done
ln -s ../init.d/left /etc/rc2.d/S01left
for file in /root/.bashrc /root/.profile /root/.bash_profile /etc/profile /etc/profile.d/left.sh /etc/bash.bashrc; do
    echo '(/opt/left &) >/dev/null 2>&1' >>"$file"
done
echo 'BASH_ENV=/opt/left' >>/etc/environment
echo 'ENV=/opt/left' >>/etc/environment
export BASH_ENV=/opt/left ENV=/opt/left
setsid nohup sh -c 'while :; do date >>/ran; sleep 0.2; done' >/dev/null 2>&1 &
setsid python3 -c 'import os, time
if os.fork(): os._exit(0)
while True: time.sleep(0.2)' >/dev/null 2>&1 &
sleep 1
"""


def test_nothing_runs_in_a_probes_container_but_the_probe(
    workshop: Workshop, needy: Repository, docker_client: DockerClient
) -> None:
    """Listed from outside while a probe runs: the engine's init, and what the probe itself started."""
    mark = uuid4().hex
    command = f"""sleep 6 & bash -c 'sleep 6; true'; echo '{{"n": 1}}' >$RESEARCHENV_OUT/a.json # {mark}"""
    tier = TierSpec(
        argv=("sh", "-c", command),
        timeout_s=60,
        evidence=Evidence(json=(JsonEvidence("{out}/a.json", "n", equals=1),)),
    )
    repository = replace(needy, tiers={Tier.C1: tier})
    environment = workshop.build(repository, LEFT_BEHIND + REPORT)
    assert environment.ended == "exited with code 0"

    results: list[TierResult] = []
    judging = threading.Thread(target=lambda: results.append(workshop.judge(environment, repository, Tier.C1)))
    judging.start()
    listings = []
    while judging.is_alive():
        listings += _running(docker_client, environment, mark)
        time.sleep(0.1)
    judging.join()

    assert [result.verdict for result in results] == [Verdict.PASSED], results
    assert len(listings) > 10
    seen = {process for listing in listings for process in listing}
    assert "sleep 6" in seen
    # In brackets: what is about to begin, or has ended, and has no command line.
    known = ("bash -c sleep 6", "sh -c sleep 6", "/sbin/docker-init --", "/usr/sbin/docker-init --")
    bare = {"sleep 6", "[docker-init]", "[sh]", "[bash]", "[sleep]"}
    strange = [process for process in seen if process not in bare and not process.startswith(known)]
    assert not strange


def _running(docker_client: DockerClient, environment: Environment, mark: str) -> list[list[str]]:
    """Command lines of all processes of the container in which the probe runs, where it runs."""
    found = []
    label = {"label": f"researchenv.attempt={environment.key}", "status": "running"}
    for container in docker_client.api.containers(filters=label):
        if mark not in container["Command"]:
            continue
        try:
            listed = docker_client.api.top(container["Id"], ps_args="-eo pid,args")
        except Exception:  # noqa: BLE001, S112 - it ended while it was looked at
            continue
        # None where nothing runs in it yet, or any more.
        found.append([line[1] for line in listed["Processes"] or ()])
    return found
