"""Package indexes and proxies, as this host is configured for them. No other host is asked."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from pytest_researchenv._packageindex import PackageIndex, configured_index, session_for, without_secrets
from pytest_researchenv.doctor.values import Asked, Finding, State
from pytest_researchenv.sandbox._hostconfig import UV_INDEXES, HostConfiguration, apt_settings
from pytest_researchenv.sandbox.hostsettings import carry, redact


__all__ = ["carried_finding", "index_findings", "proxy_findings", "registry_findings"]

_INDEX = "package index"

#: What every index of packages has, so that nothing large is asked for.
_PROJECT = "pip"

_TIMEOUT_S = (5.0, 10.0)
_REDIRECTIONS = (301, 302, 303, 307, 308)
_OK, _NOT_FOUND, _UNAUTHORIZED = 200, 404, (401, 403, 407)


def index_findings() -> tuple[Finding, ...]:
    """Ask each index that pip is configured for, in the way pip does.

    pip's own default is not asked: whoever configured none may be where it cannot be reached, on purpose.
    """
    index = configured_index()
    configured = [url for url in (*index.urls, *index.pages) if url != PYPI_SIMPLE_ENDPOINT]
    found = [*_folders(index)]
    with session_for(index) as session:
        found += [
            _asked(session, _INDEX, url, "" if url in index.pages else f"{_PROJECT}/", "pip config list")
            for url in configured
        ]
    if not found:
        none = "none is configured; pip's own default is not asked" if index.urls else "pip is told to use none"
        return (Finding(_INDEX, State.SKIPPED, none),)
    return tuple(found)


def registry_findings(asked: Asked) -> tuple[Finding, ...]:
    """Ask the indexes of uv and the registry of npm, where this host is configured for some: agents install by them."""
    host = HostConfiguration.read(asked.environ)
    indexes = " ".join(filter(None, map(host.uv.get, UV_INDEXES))).split()
    # uv also has `name=URL`.
    urls = [url for url in dict.fromkeys(re.sub(r"^[\w-]+=", "", one) for one in indexes) if url.startswith("http")]
    found: list[Finding] = []
    with session_for(PackageIndex(())) as session:
        found += [_asked(session, "uv's index", url, f"{_PROJECT}/", "env | grep UV_") for url in urls]
        if "registry" in host.npm:
            found.append(_asked(session, "npm registry", host.npm["registry"], "-/ping", "npm config get registry"))
    if not found:
        return (Finding("uv and npm", State.SKIPPED, "no index or registry is configured for them"),)
    return tuple(found)


def _folders(index: PackageIndex) -> Iterator[Finding]:
    for folder in (*index.local, *index.links):
        there = folder.exists()
        yield Finding(
            _INDEX,
            State.OK if there else State.WARNING,
            f"{folder}" if there else f"{folder} is not there",
            "" if there else "correct pip's find-links or index-url: `pip config list`",
        )


def _asked(session: requests.Session, name: str, url: str, path: str, configuration: str) -> Finding:
    """Ask for one page.

    Args:
        session: what to ask by.
        name: what is asked.
        url: its address.
        path: of the page below it; empty for the address itself.
        configuration: the command that shows where the address comes from.
    """
    address = f"{url.rstrip('/')}/{path}" if path else url
    shown = redact(url)
    started = time.monotonic()
    try:
        # The body is not read: the status says enough. A redirection may lead to a host that nobody configured.
        with session.get(address, stream=True, timeout=_TIMEOUT_S, allow_redirects=False) as answer:
            status = answer.status_code
    except requests.RequestException as error:
        fix = f"correct the address, the proxy or the certificate: `{configuration}`; or ask whoever runs it"
        return Finding(name, State.PROBLEM, f"{shown} does not answer: {without_secrets(str(error))}", fix)
    took = f"{time.monotonic() - started:.1f} s"
    if status == _OK or status in _REDIRECTIONS:
        further = "; it redirects, which was not followed" if status in _REDIRECTIONS else ""
        return Finding(name, State.OK, f"{shown} answers in {took}{further}")
    if status == _NOT_FOUND and path:
        return Finding(name, State.OK, f"{shown} answers in {took}; it has no {path}")
    fix = "correct user name and password" if status in _UNAUTHORIZED else "correct the address"
    return Finding(name, State.PROBLEM, f"{shown} answers with HTTP {status}", f"{fix}: `{configuration}`, ~/.netrc")


def proxy_findings(asked: Asked) -> tuple[Finding, ...]:
    """Say whether something listens where the proxies are said to be."""
    proxies = HostConfiguration.read(asked.environ).proxies
    addresses = dict.fromkeys(
        value for name, value in proxies.items() if name.islower() and name != "no_proxy" and value
    )
    if not addresses:
        return (Finding("proxy", State.SKIPPED, "none is configured"),)
    return tuple(map(_proxy, addresses))


def _proxy(address: str) -> Finding:
    shown = redact(address)
    fix = "correct http_proxy and https_proxy in the environment, or start it"
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        with socket.create_connection(place, timeout=_TIMEOUT_S[0]):
            return Finding("proxy", State.OK, f"{shown} listens")
    except (OSError, ValueError) as error:
        return Finding("proxy", State.PROBLEM, f"{shown} cannot be reached: {error}", fix)


def carried_finding(asked: Asked) -> tuple[Finding, ...]:
    """Say which of this host's settings containers cannot have."""
    notes = carry(HostConfiguration.read(asked.environ), apt_settings()).notes
    if not notes:
        return (Finding("settings for containers", State.OK, "all of this host's can be carried into containers"),)
    fix = "agents' containers do without: use addresses that other machines can reach, too"
    return tuple(Finding("settings for containers", State.WARNING, note, fix) for note in notes)
