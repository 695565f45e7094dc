"""Has an agent's processes trust the authority that signs what passes through its gateway.

Nothing of it is frozen: the files lie in memory, and variables name them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["trusting"]

#: Variables with which tools take a file of trusted certificates. wget and apt have none: a configuration file does it.
_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
)

_WRITE = """\
umask 022
printf '%s' "$AUTHORITY" > "$FOLDER/authority.pem" &&
printf 'ca_certificate = %s\\n' "$FOLDER/authority.pem" > "$FOLDER/wgetrc" &&
{
    [ -z "$APT_BEFORE" ] || cat "$APT_BEFORE"
    printf 'Acquire::https::CaInfo "%s";\\n' "$FOLDER/authority.pem"
} > "$FOLDER/apt.conf"
"""

_LIMIT_S = 30


def trusting(container: Container, authority: bytes, environment: Mapping[str, str], *, folder: str) -> dict[str, str]:
    """Write the authority's certificate into a started container, and return the environment that trusts it.

    Args:
        container: where agents' processes run.
        authority: the certificate, PEM. All that is reached through the gateway is signed by it, so that nothing else
            need be trusted.
        environment: what the processes get otherwise; a configuration of apt in it stays in force.
        folder: a folder in memory in the container.

    Raises:
        SandboxError: it cannot be written.
    """
    done = container.exec(
        ["/bin/sh", "-c", _WRITE],
        timeout_s=_LIMIT_S,
        environment={
            "AUTHORITY": authority.decode(),
            "FOLDER": folder,
            "APT_BEFORE": environment.get("APT_CONFIG", ""),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        },
    )
    if not done.ok:
        raise SandboxError(f"cannot write the gateway's certificate into {folder}: {done.how}: {done.output.text()}")
    certificate = f"{folder}/authority.pem"
    return {
        **environment,
        **dict.fromkeys(_VARIABLES, certificate),
        "WGETRC": f"{folder}/wgetrc",
        "APT_CONFIG": f"{folder}/apt.conf",
    }
