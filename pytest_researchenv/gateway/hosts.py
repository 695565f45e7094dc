"""Hosts that research code is installed from: what an agent may reach with `allowlist`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit


__all__ = ["USUAL_HOSTS", "hosts_in", "own_address", "own_address_problem"]

#: Package registries, distributions' mirrors, hubs of models and data, Git hosts, and where they keep their files.
USUAL_HOSTS = (
    # Python
    "pypi.org",
    "files.pythonhosted.org",
    "bootstrap.pypa.io",
    "download.pytorch.org",
    "download-r2.pytorch.org",
    "data.pyg.org",
    "pypi.nvidia.com",
    "storage.googleapis.com",
    "astral.sh",
    "*.astral.sh",
    "python.org",
    "*.python.org",
    # conda
    "conda.anaconda.org",
    "repo.anaconda.com",
    "anaconda.org",
    "micro.mamba.pm",
    # distributions
    "deb.debian.org",
    "security.debian.org",
    "archive.ubuntu.com",
    "security.ubuntu.com",
    "ports.ubuntu.com",
    "ppa.launchpadcontent.net",
    "developer.download.nvidia.com",
    # JavaScript, Rust, Go
    "registry.npmjs.org",
    "nodejs.org",
    "crates.io",
    "*.crates.io",
    "static.rust-lang.org",
    "sh.rustup.rs",
    "proxy.golang.org",
    "sum.golang.org",
    # Git hosts
    "github.com",
    "*.github.com",
    "*.githubusercontent.com",
    "gitlab.com",
    "bitbucket.org",
    # hubs of models and data
    "huggingface.co",
    "*.huggingface.co",
    "hf.co",
    "*.hf.co",
    "modelscope.cn",
    "*.modelscope.cn",
    "zenodo.org",
)

#: Variables of the host's settings that name where packages come from, or hold several such addresses.
_ADDRESSES = re.compile(r"https?://[^\s,;\"']+")


def hosts_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of all addresses in the host's own settings: a lab's mirrors may be reached, too.

    Proxies are left out: what is behind them is what matters.
    """
    found: dict[str, None] = {}
    for name, value in environment.items():
        if "proxy" in name.lower():
            continue
        for address in _ADDRESSES.findall(value):
            try:
                parts = urlsplit(address)
                port = parts.port
            except ValueError:
                continue
            if parts.hostname:
                usual = {"http": 80, "https": 443}[parts.scheme]
                found[parts.hostname if port in (None, usual) else f"{parts.hostname}:{port}"] = None
    return tuple(found)


def own_address(host: str) -> bool:
    """Whether a host's name means the host itself, which in a container means the container."""
    # It imports docker, which only sessions at work need.
    from pytest_researchenv.sandbox.hostsettings import loopback  # noqa: PLC0415 - see above

    return bool(host) and loopback(host)


def own_address_problem(endpoint: str) -> str:
    """Say why a gateway could not reach an endpoint; empty where nothing is known against it."""
    if not own_address(urlsplit(endpoint).hostname or ""):
        return ""
    return (
        f"the endpoint {endpoint} is this host's own address, which means the gateway's container there: let the "
        "service listen on an address that containers reach, and name that"
    )
