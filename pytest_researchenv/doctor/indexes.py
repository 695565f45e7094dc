"""Package indexes and proxies, as this host is configured for them. No other host is asked."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from pytest_researchenv._packageindex import PackageIndex, configured_index, session_for, without_secrets
from pytest_researchenv.doctor.values import Asked, Finding, State
from pytest_researchenv.sandbox._hostconfig import HostConfiguration, apt_settings
from pytest_researchenv.sandbox.hostsettings import carry, redact


__all__ = ["carried_finding", "index_findings", "proxy_findings"]

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
        found += [_asked(session, url, page=url in index.pages) for url in configured]
    if not found:
        none = "none is configured; pip's own default is not asked" if index.urls else "pip is told to use none"
        return (Finding(_INDEX, State.SKIPPED, none),)
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


def _asked(session: requests.Session, url: str, *, page: bool) -> Finding:
    address = url if page else f"{url.rstrip('/')}/{_PROJECT}/"
    shown = redact(url)
    started = time.monotonic()
    try:
        # The body is not read: the status says enough. A redirection may lead to a host that nobody configured.
        with session.get(address, stream=True, timeout=_TIMEOUT_S, allow_redirects=False) as answer:
            status = answer.status_code
    except requests.RequestException as error:
        why = without_secrets(str(error))
        return Finding(
            _INDEX,
            State.PROBLEM,
            f"{shown} does not answer: {why}",
            "correct the address, the proxy or the certificate: `pip config list`; or ask whoever runs it",
        )
    took = f"{time.monotonic() - started:.1f} s"
    if status == _OK or status in _REDIRECTIONS:
        further = "; it redirects, which was not followed" if status in _REDIRECTIONS else ""
        return Finding(_INDEX, State.OK, f"{shown} answers in {took}{further}")
    if status == _NOT_FOUND and not page:
        return Finding(_INDEX, State.OK, f"{shown} answers in {took}; it has no project {_PROJECT}")
    fix = "correct user name and password in pip's configuration or in ~/.netrc" if status in _UNAUTHORIZED else ""
    return Finding(
        _INDEX, State.PROBLEM, f"{shown} answers with HTTP {status}", fix or "correct the address: `pip config list`"
    )


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
