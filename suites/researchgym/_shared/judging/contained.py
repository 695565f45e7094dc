"""What can be done where an evaluation has a container to itself: nothing else runs as the users that it gives code.

There the super-user may change users and permissions, and may not send signals to others' processes: so a process is
ended by one of its own user.
"""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import hashlib
import hmac
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


__all__ = ["OURS", "THEIRS", "end_all", "memory_kills", "open_to_all", "sealed"]

#: Users that code runs as: what was handed in, and what is ours.
THEIRS = 65534
OURS = 65533

_KILL = "import os; os.kill(-1, 9)"
_TIMES = 20
_HELPER_S = 20
_MOST_FILES = 200_000
# Of control groups, version 1 and 2.
_KILLS = (Path("/sys/fs/cgroup/memory/memory.oom_control"), Path("/sys/fs/cgroup/memory.events"))
_KILLED = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def end_all(user: int) -> None:
    """End every process of a user, also those that left their group or session.

    Raises:
        OSError: that cannot be done, since there are too many.
    """
    for _ in range(_TIMES):
        if not any(_of(user)):
            return
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _KILL], user=user, group=user, extra_groups=[], stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_HELPER_S, check=False, cwd="/", env={"LC_ALL": "C"},
        )  # fmt: skip
    raise OSError(f"processes of user {user} go on, although they were ended {_TIMES} times")


def _of(user: int) -> Iterator[int]:
    """Processes of a user that have not ended."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            # The folder's owner says nothing: it is the super-user of a process that shows itself to nobody.
            said = (folder / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        lines = dict(line.partition(":")[::2] for line in said.splitlines())
        if str(user) in lines.get("Uid", "").split() and not lines.get("State", "").strip().startswith("Z"):
            yield int(folder.name)


def memory_kills() -> int:
    """How many processes of this container were killed for memory; 0 where that is not told."""
    for path in _KILLS:
        try:
            found = _KILLED.search(path.read_text(encoding="utf-8"))
        except OSError:
            continue
        if found:
            return int(found[1])
    return 0


def open_to_all(python: str) -> None:
    """Let everybody run an interpreter and read its environment: agents work as the super-user, and often in /root."""
    seen: set[Path] = set()
    for path in (Path(python), Path(python).resolve()):
        for folder in path.parents:
            _allow(folder, 0o011)
        _allow(path, 0o055)
        root = path.parents[1] if len(path.parents) > 1 else path.parent
        if root not in seen and root not in {Path("/"), Path("/usr")}:
            seen.add(root)
            _allow_below(root)


def _allow_below(root: Path) -> None:
    count = 0
    for place, folders, names in os.walk(root, followlinks=False):
        _allow(Path(place), 0o055)
        for name in names:
            _allow(Path(place, name), 0o044)
        count += len(folders) + len(names)
        if count > _MOST_FILES:
            return


def _allow(path: Path, bits: int) -> None:
    try:
        mode = path.lstat().st_mode
        # What a link leads to is no part of it; what the owner may not run is no program.
        if not path.is_symlink() and mode & bits != bits:
            path.chmod((mode | bits | (0o011 if mode & 0o100 else 0)) & 0o7777)
    except OSError:
        pass


def sealed(report: str, secret: bytes) -> str:
    """Return a report of one line behind a digest that only those can make who know the secret."""
    return f"{hmac.new(secret, b'report ' + report.encode(), hashlib.sha256).hexdigest()} {report}"
