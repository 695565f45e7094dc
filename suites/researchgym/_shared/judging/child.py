"""Runs one module of handed-in code, and says which files, hosts and programs it went to.

    python child.py LOG CODE MODULE [ARGUMENT...]

It runs beside the code that it watches. What goes past the interpreter (a compiled extension) it cannot see; what goes
past the hook (another target for its descriptor) shows as a gap in the numbers or as a missing last line.
"""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import json
import os
import resource
import runpy
import sys


_FILE_BYTES = 64 * 1024 * 1024
_WATCHED = (
    "ctypes.dlopen",
    "gc.get_objects",
    "gc.get_referrers",
    "open",
    "os.",
    "pty.spawn",
    "shutil.",
    "socket.",
    "sqlite3.connect",
    "subprocess.Popen",
)
# Asked all the time, and harmless.
_QUIET = (
    "os.putenv",
    "os.unsetenv",
    "os.fwalk",
    "os.walk",
    "os.add_dll_directory",
    "socket.__new__",
    "socket.gethostname",
)


def watch(log: int) -> None:
    """Write a numbered line for each event from now on; a hook cannot be removed."""
    write, dumps, count = os.write, json.dumps, [0]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(_WATCHED) and event not in _QUIET:
            count[0] += 1
            words = [os.fsdecode(one) if isinstance(one, bytes) else one for one in arguments]
            said = [one if isinstance(one, (str, int, type(None))) else str(one) for one in words]
            write(log, (dumps([count[0], event, said])[:4000] + "\n").encode("utf-8", "replace"))

    sys.addaudithook(hook)


def main() -> None:
    """Run the module as a program."""
    log, code, module = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    sys.argv = [module, *sys.argv[4:]]
    # Of the first, which is this file's folder, nothing is imported.
    places = (sys.prefix, sys.base_prefix, *sys.path[1:])
    roots = sorted({os.path.realpath(one) for one in places})
    sys.path[0] = code
    os.write(log, (json.dumps([0, "roots", roots]) + "\n").encode())
    # Done here, since another process may not do it once the user has changed.
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    watch(log)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    # Itself an event, and the last one: its number says how many there were.
    sys.audit("os.researchgym.end", "end")


main()
