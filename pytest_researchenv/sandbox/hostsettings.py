"""Carries the host's package-index, proxy and CA settings into containers, so that builds work where the host's do.

Variables go to single processes; the files that they name lie in a read-only volume. Neither is frozen with an image.
"""

from __future__ import annotations

import hashlib
import io
import ipaddress
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import docker

from pytest_researchenv.gateway.inside.names import named
from pytest_researchenv.integrity.canaries import OWN_NAMES
from pytest_researchenv.sandbox._engine import ensure_volume
from pytest_researchenv.sandbox._hostconfig import CA_VARIABLES, UV_MAIN_INDEXES, HostConfiguration, apt_settings
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["TARGET", "HostSettings", "host_settings", "redact"]

#: Where the volume is mounted.
TARGET = "/researchenv/host"

#: Larger folders of packages stay on the host.
FOLDER_CAP_BYTES = 2 * 1024**3

# What pip and uv take from a folder of packages; nothing else in it leaves the host.
_PACKAGES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz")
#: Variables of certificates that also serve the tools for which the host sets none.
_GENERAL = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What a process in a container needs to reach what the host reaches.

    Attributes:
        mount: the volume with the files that `environment` names; None when there are none.
        environment: variables for `Container.exec`. They may hold credentials: never print or freeze them.
        notes: what could not be carried, and why; without credentials.
    """

    mount: Mount | None
    environment: Mapping[str, str] = field(repr=False)
    notes: tuple[str, ...]


def host_settings(
    client: docker.DockerClient,
    *,
    owner: Owner,
    image: str,
    say: Callable[[str], None],
    environ: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> HostSettings:
    """This host's settings, with the files that they name copied into a volume.

    Args:
        client: the engine.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        environ: the environment; None: this process's.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: the engine refuses.
    """
    carried = carry(HostConfiguration.read(environ), apt_settings())
    mount = None
    if carried.files:
        mount = Mount(f"researchenv-host-{carried.key}", TARGET)
        ensure_volume(client, mount, owner=owner, image=image, fill=carried.fill, cache=cache, say=say)
    return HostSettings(mount, carried.environment, tuple(carried.notes))


def redact(url: str) -> str:
    """The URL without user, password, query and fragment, for messages."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(an address that cannot be read)"
    if not parts.hostname:
        return url if "@" not in url else "(an address that cannot be read)"
    secret = "***@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{secret}{parts.hostname}{port}{parts.path}"


def loopback(url: str) -> bool:
    """Whether an address is the host's own, which inside a container means the container."""
    try:
        host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@dataclass(slots=True)
class Carried:
    """Settings on their way into a container.

    Attributes:
        environment: variables.
        notes: what stays behind.
        files: name in the volume → its content, or the host's file.
    """

    environment: dict[str, str] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)
    files: dict[str, Path | bytes] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """Content key; for packages, size and time of change stand for the content."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            if isinstance(content, bytes):
                digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
            else:
                status = content.stat()
                digest.update(f"{name}\0{status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()[:16]

    def fill(self, archive: tarfile.TarFile) -> None:
        """Add the files to an archive, readable by every user."""
        folders = {str(parent) for name in self.files for parent in Path(name).parents} - {"."}
        for folder in sorted(folders):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for name, content in sorted(self.files.items()):
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.size, member.mtime = content.stat().st_size, int(content.stat().st_mtime)
                with content.open("rb") as stream:
                    archive.addfile(member, stream)

    def set(self, name: str, value: str) -> None:
        """Set a variable, unless there is nothing to set: an empty SSL_CERT_FILE makes uv fail."""
        if value:
            self.environment[name] = value

    def note(self, text: str) -> None:
        """Note once what stays behind."""
        if text not in self.notes:
            self.notes.append(text)

    def file(self, path: str, folder: str, what: str) -> str:
        """Take a small file along; returns its path in containers, empty when it cannot be read."""
        source = Path(_local(path)).expanduser()
        try:
            content = source.read_bytes()
        except OSError as error:
            self.note(f"{what} {source} is not carried: {error.strerror}")
            return ""
        name = f"{folder}/{hashlib.sha256(content).hexdigest()[:8]}-{source.name}"
        self.files[name] = content
        return f"{TARGET}/{name}"

    def packages(self, place: str) -> str:
        """Take a folder of packages along; returns its path in containers, or the URL; empty when it stays behind."""
        if re.match(r"https?://", place):
            return self.url(place, "find-links")
        folder = Path(_local(place)).expanduser()
        if not folder.is_dir():
            self.note(f"find-links {redact(place)} is not carried: it is not a folder")
            return ""
        # Our own would give the answers away: recipes and probes are in it.
        names = (path for path in sorted(folder.iterdir()) if path.name.endswith(_PACKAGES) and not _own(path.name))
        found = [path for path in names if path.is_file()]
        size = sum(path.stat().st_size for path in found)
        if size > FOLDER_CAP_BYTES:
            self.note(f"find-links {folder} is not carried: {size / 1e9:.1f} GB exceed {FOLDER_CAP_BYTES / 1e9:.1f} GB")
            return ""
        name = f"packages/{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"
        self.files |= {f"{name}/{path.name}": path for path in found}
        return f"{TARGET}/{name}" if found else ""

    def url(self, value: str, what: str, *, needed: bool = False) -> str:
        """An index URL as a container may use it; empty when it stays behind.

        Args:
            value: the URL; uv also has `name=URL`.
            what: option, for the note.
            needed: keep it though it cannot be reached: without the main index, pip would silently ask the public one.
        """
        address = re.sub(r"^[A-Za-z0-9_-]+=", "", value)
        if not re.match(r"https?://", address):
            self.note(f"{what} {redact(address)} is not carried: a local index cannot be reached from a container")
            return ""
        if loopback(address):
            self.note(f"{what} {redact(address)} is this host's own address: a container cannot reach it")
            return value if needed else ""
        return value


def _own(name: str) -> bool:
    return named(name, OWN_NAMES) in OWN_NAMES


def _local(place: str) -> str:
    return unquote(urlsplit(place).path) if place.startswith("file:") else place


def carry(host: HostConfiguration, apt: Iterable[str]) -> Carried:
    """Translate what the host says into what a container can use."""
    carried = Carried()
    _proxies(carried, host.proxies)
    _pip(carried, host.pip)
    _uv(carried, host.uv, host.pip)
    _certificates(carried, host.certificates)
    _npm(carried, host.npm)
    _apt(carried, apt)
    return carried


def _proxies(carried: Carried, proxies: Mapping[str, str]) -> None:
    for name, value in proxies.items():
        if "no_proxy" not in name.lower() and loopback(value):
            carried.note(
                f"{name.lower()} {redact(value)} is not carried: a container cannot reach this host's own address"
            )
        else:
            carried.set(name, value)


def _pip(carried: Carried, pip: Mapping[str, str]) -> None:
    def several(option: str, translate: Callable[[str], str]) -> str:
        return " ".join(filter(None, map(translate, pip.get(option, "").split())))

    carried.set("PIP_INDEX_URL", carried.url(pip["index-url"], "index-url", needed=True) if "index-url" in pip else "")
    carried.set("PIP_EXTRA_INDEX_URL", several("extra-index-url", lambda url: carried.url(url, "extra-index-url")))
    carried.set("PIP_FIND_LINKS", several("find-links", carried.packages))
    carried.set("PIP_CONSTRAINT", several("constraint", lambda place: _constraint(carried, place)))
    if "client-cert" in pip:
        carried.note("pip's client-cert is not carried: it is a secret key")
    if "proxy" in pip:
        _proxies(carried, {"PIP_PROXY": pip["proxy"]})
    for option in ("no-index", "trusted-host", "timeout", "default-timeout", "retries", "disable-pip-version-check"):
        carried.set(f"PIP_{option.upper().replace('-', '_')}", pip.get(option, ""))


def _constraint(carried: Carried, place: str) -> str:
    if re.match(r"https?://", place):
        return carried.url(place, "constraint")
    path = Path(_local(place)).expanduser()
    if path.is_file() and re.search(r"(?m)^\s*(-[cr]|--constraint|--requirement)\b", path.read_text(errors="replace")):
        carried.note(f"constraint {path} is not carried: it includes other files; name one file that holds them all")
        return ""
    return carried.file(place, "constraints", "constraint")


def _uv(carried: Carried, uv: Mapping[str, str], pip: Mapping[str, str]) -> None:
    """The settings of uv itself; where the host has none, those of pip, since an agent may use either."""
    done = carried.environment
    same = {
        "UV_INDEX_URL": done.get("PIP_INDEX_URL", ""),
        "UV_EXTRA_INDEX_URL": done.get("PIP_EXTRA_INDEX_URL", ""),
        "UV_FIND_LINKS": done.get("PIP_FIND_LINKS", "").replace(" ", ","),
        "UV_CONSTRAINT": done.get("PIP_CONSTRAINT", ""),
        "UV_INSECURE_HOST": pip.get("trusted-host", ""),
        "UV_HTTP_TIMEOUT": pip.get("timeout") or pip.get("default-timeout", ""),
    }
    own = dict(uv)
    if not own.keys().isdisjoint(UV_MAIN_INDEXES):
        same.pop("UV_INDEX_URL")
    if own.keys() & {"UV_INDEX", "UV_EXTRA_INDEX_URL"}:
        same.pop("UV_EXTRA_INDEX_URL")
    for name, value in own.items():
        match name:
            case "UV_DEFAULT_INDEX" | "UV_INDEX_URL":
                own[name] = carried.url(value, name, needed=True)
            case "UV_INDEX" | "UV_EXTRA_INDEX_URL":
                own[name] = " ".join(filter(None, (carried.url(url, name) for url in value.split())))
            case "UV_FIND_LINKS":
                own[name] = ",".join(filter(None, (carried.packages(place) for place in re.split(r"[,\s]+", value))))
            case "UV_CONSTRAINT":
                own[name] = " ".join(filter(None, (_constraint(carried, place) for place in value.split())))
    for name, value in (same | own).items():
        carried.set(name, value)


def _certificates(carried: Carried, certificates: Mapping[str, str]) -> None:
    """A bundle that serves all tools of the host serves all in the container; a special one only its own tool."""
    copies = {name: carried.file(path, "ca", name) for name, path in certificates.items()}
    general = next((copies[name] for name in _GENERAL if copies.get(name)), "")
    for name in CA_VARIABLES:
        carried.set(name, copies.get(name) or general)


def _npm(carried: Carried, npm: Mapping[str, str]) -> None:
    for option, value in npm.items():
        name = f"NPM_CONFIG_{option.upper().replace('-', '_')}"
        if option in {"proxy", "https-proxy"}:
            _proxies(carried, {name: value})
        elif option == "registry":
            carried.set(name, carried.url(value, "npm registry", needed=True))
        elif option == "cafile":
            carried.set(name, carried.file(value, "ca", "npm cafile"))
        else:
            carried.set(name, value)


def _apt(carried: Carried, lines: Iterable[str]) -> None:
    usable = []
    for line in lines:
        value = line.partition('"')[2].rpartition('"')[0]
        if "proxy" in line.lower() and loopback(value):
            carried.note(
                f"apt's proxy {redact(value)} is not carried: a container cannot reach this host's own address"
            )
        else:
            usable.append(f"{line}\n")
    if usable:
        carried.files["apt.conf"] = "".join(usable).encode()
        carried.environment["APT_CONFIG"] = f"{TARGET}/apt.conf"
