"""Repositories that tests make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


__all__ = ["git"]


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would, apart from this machine's configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ("user.name=x", "user.email=x@localhost", "protocol.file.allow=always", "safe.directory=*")
    argv = ["git", "-C", str(folder), *(word for one in settings for word in ("-c", one)), *arguments]
    return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout.strip()
