"""A Slurm of the test's own: one node, on free ports of the loopback, as whoever runs the tests.

With accelerators that are none: Slurm gives out what is a device by its file, and never opens it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


__all__ = ["PROGRAMS", "Cluster", "cluster"]

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")

#: Until the node is idle, in seconds, on a machine that is busy with other tests.
_UP_S = 120.0
_DOWN_S = 30.0

_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SrunPortRange={first}-{last}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SwitchType=switch/none
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Slurm that is up.

    Attributes:
        folder: its files, logs included.
        environ: what its commands need beside this process's variables.
    """

    folder: Path
    environ: Mapping[str, str]

    def run(self, *command: str) -> str:
        """Run one of its commands, and return what it printed."""
        done = subprocess.run(
            command, env={**os.environ, **self.environ}, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    def jobs(self) -> list[str]:
        """The ids of jobs that are there."""
        return self.run("squeue", "-h", "-o", "%i").split()

    def left(self, *, seconds: float = 90.0) -> list[str]:
        """The ids of jobs that do not come to their end: one whose processes are ended is there for a while."""
        deadline = time.monotonic() + seconds
        while (jobs := self.jobs()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return jobs


@contextlib.contextmanager
def cluster(folder: Path, *, cpus: int = 4, gpus: int = 2) -> Iterator[Cluster]:
    """Start one, and end it with all its jobs; needs `PROGRAMS`.

    Args:
        folder: for its files; short, since a socket's path is.
        cpus: how many processors it is to believe in.
        gpus: how many accelerators.
    """
    host = socket.gethostname().partition(".")[0]
    controller, node, first = _free_ports(3)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    devices = [folder / f"gpu{number}" for number in range(gpus)]
    for device in devices:
        device.symlink_to("/dev/null")
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in devices))
    (folder / "slurm.conf").write_text(
        _CONF.format(
            host=host,
            controller=controller,
            node=node,
            first=first,
            last=first + 60,
            folder=folder,
            user=pwd.getpwuid(os.getuid()).pw_name,
            cpus=cpus,
            gpus=gpus,
        )
    )
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    # Paths of logs and sockets must be nobody else's to change, which a folder of pytest's is.
    munged = ["munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}"]
    munged += [f"--{name}={folder}/munge.{end}" for name, end in _MUNGE.items()]
    made = Cluster(folder, {"SLURM_CONF": f"{folder}/slurm.conf"})
    with contextlib.ExitStack() as stack:
        stack.enter_context(_daemon(munged, folder))
        _until((folder / "munge.socket").exists, "munged", folder)
        conf = str(folder / "slurm.conf")
        stack.enter_context(_daemon(["slurmctld", "-D", "-c", "-f", conf], folder))
        stack.enter_context(_daemon(["slurmd", "-D", "-c", "-f", conf], folder))
        _until(lambda: _state(made) == "idle", "the node", folder)
        try:
            yield made
        finally:
            for job in made.jobs():
                with contextlib.suppress(subprocess.CalledProcessError):  # It has just ended.
                    made.run("scancel", job)
            _until(lambda: not made.jobs(), "the end of all jobs", folder)


_MUNGE = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


def _state(made: Cluster) -> str:
    with contextlib.suppress(subprocess.CalledProcessError):
        return made.run("sinfo", "-h", "-o", "%T").strip()
    return ""


@contextlib.contextmanager
def _daemon(command: Sequence[str], folder: Path) -> Iterator[None]:
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    with (folder / f"{command[0]}.out").open("wb") as output:
        process = subprocess.Popen([str(program), *command[1:]], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_DOWN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until(condition: object, what: str, folder: Path) -> None:
    assert callable(condition)
    deadline = time.monotonic() + _UP_S
    while not condition():
        logs = "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in folder.glob("*.[lo][ou][gt]"))
        assert time.monotonic() < deadline, f"waited {_UP_S:.0f} s for {what}\n{logs}"
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
