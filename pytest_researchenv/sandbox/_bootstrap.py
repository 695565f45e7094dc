"""A root file system made by mmdebstrap, for hosts from which no image registry can be reached."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_researchenv._apt import sources_in
from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._recipe import PACKAGES


__all__ = ["Distribution", "bootstrap", "host_distribution", "mirror_lines"]

_LIMIT_S = 1800
_COMPONENTS = {"debian": "main", "ubuntu": "main universe"}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A release of Debian or Ubuntu."""

    name: str
    suite: str

    def __str__(self) -> str:
        return f"{self.name} {self.suite}"


def host_distribution(release: Mapping[str, str] | None = None) -> Distribution | None:
    """The release that this host is, or is derived from; None where it is neither Debian nor Ubuntu."""
    if release is None:
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            return None
    family = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    if "ubuntu" in family:
        suite = release.get("UBUNTU_CODENAME") or release.get("VERSION_CODENAME", "")
        return Distribution("ubuntu", suite) if suite else None
    if "debian" in family:
        suite = release.get("DEBIAN_CODENAME") or release.get("VERSION_CODENAME", "")
        return Distribution("debian", suite) if suite else None
    return None


def mirror_lines(wanted: Distribution, host: Distribution, apt: Path = Path("/etc/apt")) -> tuple[str, ...]:
    """The `deb` lines for a release, from the mirrors that this host itself uses.

    A host of the same family but another release has its release's name replaced. Third-party repositories have
    other suites and are left out. Nothing, where the host names no mirror of the release: mmdebstrap knows the public
    ones.
    """
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    pairs: dict[tuple[str, str], None] = {}
    for path in files:
        if path.suffix not in {".list", ".sources"} or not path.is_file():
            continue
        for source in sources_in(path.read_text(errors="replace"), deb822=path.suffix == ".sources"):
            if source.suite in {f"{host.suite}{pocket}" for pocket in ("", "-updates", "-security")}:
                pairs[source.uri, source.suite.replace(host.suite, wanted.suite, 1)] = None
    if wanted.suite not in {suite for _, suite in pairs}:
        return ()
    # mmdebstrap takes the release itself from the first line.
    ordered = sorted(pairs, key=lambda pair: pair[1] != wanted.suite)
    return tuple(f"deb {uri} {suite} {_COMPONENTS[wanted.name]}" for uri, suite in ordered)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait; when interrupted or late, end it politely, so that mmdebstrap removes its folder of 600 MB and unmounts."""
    try:
        return process.wait(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ImageError(
            f"mmdebstrap did not end within {_LIMIT_S} s: check the network and the apt mirrors"
        ) from error
    finally:
        if process.poll() is None:
            # The whole group, since mmdebstrap waits for apt, which would take its 30 s to the end.
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def bootstrap(
    wanted: Distribution,
    *,
    host: Distribution,
    architecture: str,
    layer: Path,
    output: IO[bytes],
    apt_options: Iterable[str] = (),
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Write a root file system, with our layer applied, as a tar stream.

    Args:
        wanted: release to make.
        host: release of this host.
        architecture: as Debian names it.
        layer: folder with `layer.sh` and what it reads.
        output: file to write to.
        apt_options: apt configuration for the time of the build, such as a proxy.
        environment: the build's whole environment.
        say: told what happens.

    Raises:
        ImageError: mmdebstrap is missing or fails.
    """
    program = shutil.which("mmdebstrap")
    if program is None:
        raise ImageError("mmdebstrap is not installed: run `apt-get install mmdebstrap` as root")
    layer.chmod(0o755)  # In its unprivileged mode, mmdebstrap reads it as another user.
    argv = [program, "--quiet", "--variant=minbase", "--format=tar", f"--architectures={architecture}"]
    argv += [f"--include={','.join(PACKAGES)}", *(f"--aptopt={option}" for option in apt_options)]
    argv += [
        '--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"; mkdir -p "$1/researchenv/layer"',
        f"--customize-hook=sync-in {shlex.quote(str(layer))} /researchenv/layer",
        '--customize-hook=chroot "$1" sh /researchenv/layer/layer.sh',
        wanted.suite,
        "-",
        *mirror_lines(wanted, host),
    ]
    say(f"bootstrapping {wanted} with mmdebstrap (about a minute)")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=log, env=dict(environment), start_new_session=True
        )
        code = _wait(process)
        if code:
            log.seek(0)
            tail = "\n".join(log.read().decode(errors="replace").strip().splitlines()[-20:])
            raise ImageError(f"mmdebstrap ended with code {code}; its last lines:\n{tail}")
