"""The package indexes that this host's pip uses, and a session to ask them as pip would."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import requests
from packaging.version import InvalidVersion, Version
from requests.adapters import HTTPAdapter
from urllib3.util import Retry


__all__ = [
    "PYPI",
    "TIMEOUT_S",
    "PackageIndex",
    "configured_index",
    "same_version",
    "session_for",
    "switched_on",
    "without_secrets",
]

#: How long a connection, and each answer on it, is waited for, in seconds.
TIMEOUT_S = (10.0, 60.0)

#: pypi_simple's own constant; with it comes a parser of HTML, which takes 0.1 s to load.
PYPI = "https://pypi.org/simple/"
_CONFIG_TIMEOUT_S = 30.0

#: What pip takes for a yes.
_ON = frozenset(("1", "on", "t", "true", "y", "yes"))


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from.

    Attributes:
        urls: indexes over HTTP, in order.
        proxy: proxy for all of them; empty: as the environment says.
        certificate: CA bundle; empty: as the environment says.
        local: indexes in folders of this host, in order.
        links: folders of this host that hold distributions as they are (pip's `find-links`), in order.
        pages: pages over HTTP with links to distributions (likewise), in order.
    """

    urls: tuple[str, ...]
    proxy: str = ""
    certificate: str = ""
    local: tuple[Path, ...] = ()
    links: tuple[Path, ...] = ()
    pages: tuple[str, ...] = ()


def configured_index() -> PackageIndex:
    """The indexes that pip is configured for on this host."""
    return _index(_pip_configuration())


def same_version(found: str, wanted: str) -> bool:
    """Whether two spellings name one version."""
    try:
        return Version(found) == Version(wanted)
    except InvalidVersion:
        return found == wanted


def session_for(index: PackageIndex) -> requests.Session:
    """A session that reaches the indexes as pip does."""
    # The rest comes from the environment, as in pip: proxies, netrc, REQUESTS_CA_BUNDLE.
    session = requests.Session()
    adapter = HTTPAdapter(max_retries=Retry(total=2, backoff_factor=0.3, status_forcelist=(502, 503, 504)))
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    if index.proxy:
        session.proxies = {"http": index.proxy, "https": index.proxy}
    if index.certificate:
        session.verify = index.certificate
    return session


def switched_on(value: str) -> bool:
    """Whether a switch of pip is on, by what its configuration says of it."""
    return value.lower() in _ON


def without_secrets(text: str) -> str:
    """Remove user names and passwords from the URLs in a text."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", text)


def _index(configuration: Mapping[str, str]) -> PackageIndex:
    urls = [configuration.get("index-url") or PYPI, *configuration.get("extra-index-url", "").split()]
    if switched_on(configuration.get("no-index", "")):
        urls = []
    links = configuration.get("find-links", "").split()
    return PackageIndex(
        urls=tuple(dict.fromkeys(url for url in urls if urlsplit(url).scheme in {"http", "https"})),
        proxy=configuration.get("proxy", ""),
        certificate=configuration.get("cert", ""),
        local=tuple(_folder(url) for url in urls if urlsplit(url).scheme == "file"),
        links=tuple(_folder(place) for place in links if urlsplit(place).scheme in {"", "file"}),
        pages=tuple(place for place in links if urlsplit(place).scheme in {"http", "https"}),
    )


def _folder(place: str) -> Path:
    return Path(unquote(urlsplit(place).path) if place.startswith("file:") else place).expanduser()


def _pip_configuration() -> dict[str, str]:
    """Ask pip, since it alone knows all the files; where there is no pip, read the environment."""
    # 0.5 s, once for each sdist that the cache lacks.
    for pip in ([sys.executable, "-m", "pip"], ["pip"], ["pip3"]):
        try:
            done = subprocess.run(
                [*pip, "config", "list"],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=_CONFIG_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return _configured(done.stdout)
    return _environment()


def _environment() -> dict[str, str]:
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    }


def _configured(listing: str) -> dict[str, str]:
    """Read `pip config list`; the environment goes before a command's section, and that before the global one."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, "download": {}, ":env:": {}}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in sections:
            sections[section][name] = str(ast.literal_eval(value))
    return {name: value for section in sections.values() for name, value in section.items()}
