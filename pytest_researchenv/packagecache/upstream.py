"""Where the cache gets packages from: what this host's pip is set to; and what containers are told in its place."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pytest_researchenv._packageindex import PYPI, switched_on
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.packagecache.protocol import INDEX_URL, NAME
from pytest_researchenv.sandbox._hostconfig import UV_INDEXES, UV_MAIN_INDEXES, HostConfiguration
from pytest_researchenv.sandbox.hostsettings import loopback, redact


__all__ = ["Upstream", "replaced"]

#: pip's variables that name indexes.
_PIP_INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")

#: Certificates of authorities, pip's own first.
_BUNDLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Upstream:
    """The indexes behind the cache, and how they are reached.

    Attributes:
        index: URL of the main index; it may hold credentials, as may the next two.
        extra: URLs of further ones.
        proxies: proxy variable → value.
        authorities: certificates (PEM) of authorities that are trusted beside the usual ones.
        trusted: hosts that pip trusts whatever their certificate; each with a port, or None for every port.
        uv_own: uv's variables in which the host has indexes for uv alone, which stay as they are.
    """

    index: str = field(repr=False)
    extra: tuple[str, ...] = field(default=(), repr=False)
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    authorities: str = field(default="", repr=False)
    trusted: tuple[tuple[str, int | None], ...] = ()
    uv_own: frozenset[str] = frozenset()

    @classmethod
    def of(cls, host: HostConfiguration) -> Upstream:
        """What the host's own pip would ask.

        Raises:
            ConfigurationError: no container can ask it.
        """
        pip = host.pip
        if switched_on(pip.get("no-index", "")):
            raise ConfigurationError("pip is set to ask no index (no-index)")
        index = pip.get("index-url", PYPI)
        if not index.startswith(("http://", "https://")) or loopback(index):
            raise ConfigurationError(f"no container reaches pip's index-url {redact(index)}")
        further = pip.get("extra-index-url", "").split()
        proxies = {name: value for name, value in host.proxies.items() if "no_proxy" in name.lower() or _far(value)}
        if (own := pip.get("proxy", "")) and _far(own):
            proxies |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), own)
        bundle = next((host.certificates[name] for name in _BUNDLES if name in host.certificates), "")
        return cls(
            _folder(index),
            tuple(_folder(url) for url in further if url.startswith(("http://", "https://")) and _far(url)),
            proxies,
            _read(bundle),
            tuple(filter(None, map(_host, pip.get("trusted-host", "").split()))),
            frozenset(UV_INDEXES).intersection(host.uv),
        )

    def key(self, host: str) -> str:
        """What tells caches with other settings, or of another user, apart.

        Args:
            host: `Owner.host`; on another one the same number is another user.
        """
        # Other users may not read what a private index gave to this one.
        return _digest(host, self.document(0))

    def index_key(self, host: str) -> str:
        """What the caches of a user have in common that are for the same indexes, be it with other credentials."""
        return _digest(host, json.dumps([redact(url) for url in (self.index, *self.extra)]).encode())

    def document(self, limit_bytes: int) -> bytes:
        """What `inside/serve.py` reads."""
        environment = {
            **self.proxies,
            "PROXPI_INDEX_URL": self.index,
            "PROXPI_EXTRA_INDEX_URLS": ",".join(self.extra),
            "PROXPI_CACHE_SIZE": str(limit_bytes),
        }
        document = {"environment": environment, "authorities": self.authorities, "trusted": self.trusted}
        return json.dumps(document, sort_keys=True).encode()


def replaced(settings: Mapping[str, str], *, uv_own: frozenset[str], proxied: bool) -> dict[str, str]:
    """The host's settings for containers, with the cache in the place of the indexes.

    Args:
        settings: variables.
        uv_own: uv's variables that stay; what uv has of pip's indexes beside them does not.
        proxied: whether everything goes through a proxy, the cache included.
    """
    # pip's own proxy was for the index.
    dropped = {*_PIP_INDEXES, "PIP_PROXY", *(name for name in UV_INDEXES if name not in uv_own)}
    found = {name: value for name, value in settings.items() if name not in dropped}
    found["PIP_INDEX_URL"] = INDEX_URL
    # pip takes no index without TLS unless it is told to.
    found["PIP_TRUSTED_HOST"] = " ".join(filter(None, (settings.get("PIP_TRUSTED_HOST"), NAME)))
    if uv_own.isdisjoint(UV_MAIN_INDEXES):
        found["UV_INDEX_URL"] = INDEX_URL
    if not proxied:
        for name in ("no_proxy", "NO_PROXY"):
            found[name] = ",".join(filter(None, (settings.get(name), NAME)))
    return found


def _digest(host: str, content: bytes) -> str:
    return hashlib.sha256(f"{host}\n{os.getuid()}\n".encode() + content).hexdigest()[:16]


def _folder(url: str) -> str:
    """An index's URL as proxpi wants it: it takes what is behind the last slash for a file."""
    return url if url.endswith("/") else f"{url}/"


def _host(entry: str) -> tuple[str, int | None] | None:
    """A host as pip's `trusted-host` has it, with its port; None where it is none."""
    bare = entry.count(":") > 1 and "[" not in entry
    try:
        parts = urlsplit(f"//[{entry}]" if bare else f"//{entry}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host else None


def _far(url: str) -> bool:
    return not loopback(url)


def _read(bundle: str) -> str:
    try:
        return Path(bundle).expanduser().read_text(errors="replace") if bundle else ""
    except OSError:
        return ""
