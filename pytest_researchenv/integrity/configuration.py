"""Configuration by which a library of the system loads code: OpenSSL's, which every `import hashlib` reads."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv.integrity.archives import Archives
from pytest_researchenv.integrity.blanking import place_of
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.layout import Layout, layout_of
from pytest_researchenv.integrity.opensslconf import strange_line
from pytest_researchenv.integrity.packages import Packages
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot, is_in_base
from pytest_researchenv.integrity.upgrades import Claims
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["configuration"]

#: Where OpenSSL is configured: Debian's, what was built from sources, and Red Hat's; in a prefix, conda's.
_FOLDERS = ("/usr/lib/ssl", "/etc/ssl", "/usr/local/ssl", "/etc/pki/tls")
_FILE = "openssl.cnf"


def configuration(task: ProbeTask, snapshot: Snapshot, archives: Archives | None = None) -> Signs:
    """Look for configuration that has libraries of nobody's loaded, and put the base image's in its place.

    Args:
        task: what is audited.
        snapshot: its image.
        archives: whom to ask of packages that came later; None: nobody.

    Raises:
        SandboxError: the engine refuses to read.
    """
    findings, blanked = [], {}
    claims = Claims(task, snapshot, archives)
    for path in _paths(task, snapshot):
        entry = snapshot.entry(path)
        if entry is None or is_in_base(snapshot, path, entry.sha256):
            continue
        if (why := _doubt(task, snapshot, path, entry, claims)) and (place := place_of(snapshot, path)):
            wanted = "a configuration that loads what the system has"
            findings.append(Finding(Sign.HOOK, printable(path), wanted, printable(why)))
            before = snapshot.base(path)
            blanked[place] = before.text if before is not None and before.kind is Kind.FILE else ""
    return Signs(tuple(findings), blanked)


def _paths(task: ProbeTask, snapshot: Snapshot) -> Iterator[str]:
    layout = layout_of(task, snapshot)
    prefixes = (layout.prefix, layout.base_prefix) if isinstance(layout, Layout) else ()
    folders = dict.fromkeys((*_FOLDERS, *(f"{prefix}/ssl" for prefix in prefixes)))
    # Debian has a link in one of them to another.
    yield from dict.fromkeys(snapshot.resolved(path) or path for path in (f"{folder}/{_FILE}" for folder in folders))


def _doubt(task: ProbeTask, snapshot: Snapshot, path: str, entry: Entry, claims: Claims) -> str:
    """What is loaded that is nobody's; empty when nothing is."""
    if entry.kind is Kind.LINK and is_fleeting(snapshot, path):
        return f"a link to {entry.link}"
    if entry.kind is not Kind.FILE:
        return ""
    if entry.content is None:
        return "more bytes than a configuration has"

    def is_genuine(library: str) -> bool:
        real = snapshot.resolved(library)
        judged = next(Packages(task, snapshot).judged([real]), None) if real else None
        return judged is not None and claims.vouches(judged)

    return strange_line(entry.text, is_genuine)
