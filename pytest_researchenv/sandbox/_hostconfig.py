"""Reads this host's package-index, proxy and CA settings. Only what is named here is ever read of the environment."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tomli


__all__ = ["CA_VARIABLES", "UV_INDEXES", "UV_MAIN_INDEXES", "HostConfiguration", "apt_settings"]

#: Options of pip that are carried, as its configuration files spell them.
PIP_OPTIONS = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "constraint",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "disable-pip-version-check",
)

#: uv's variables that name indexes: the main one, and with it all.
UV_MAIN_INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
UV_INDEXES = (*UV_MAIN_INDEXES, "UV_INDEX", "UV_EXTRA_INDEX_URL")

#: uv's variables that are carried.
UV_VARIABLES = (
    *UV_INDEXES,
    "UV_FIND_LINKS",
    "UV_CONSTRAINT",
    "UV_INSECURE_HOST",
    "UV_INDEX_STRATEGY",
    "UV_HTTP_TIMEOUT",
    "UV_SYSTEM_CERTS",
    "UV_NATIVE_TLS",
)

NPM_OPTIONS = ("registry", "cafile", "proxy", "https-proxy", "noproxy", "strict-ssl")

PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")

#: Variables that name a file of trusted certificates.
CA_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)

# Lines of `apt-config dump` that are about reaching mirrors; the rest are apt's own defaults.
_APT = re.compile(r"Acquire::(http|https|ftp|Retries|ForceIPv[46]|Check-Valid-Until)\b[^ ]* \"[^\"]+\";")
# Names a program or a secret of this host; `apt-config` prints settings without regard to letter case.
_APT_LOCAL = re.compile(r"(Auto-?Detect|ProxyAutoDetect|SslCert|SslKey|CaInfo|CaPath|User-Agent)", re.IGNORECASE)

_APT_LIMIT_S = 15


@dataclass(frozen=True, slots=True)
class HostConfiguration:
    """What was found; values are as the user wrote them.

    Attributes:
        pip: option of pip (`index-url`) → value; several values are separated by white space.
        uv: variable of uv → value.
        npm: option of npm → value.
        proxies: proxy variable, in lower and upper case → value.
        certificates: variable of `CA_VARIABLES` → path.
    """

    pip: Mapping[str, str]
    uv: Mapping[str, str]
    npm: Mapping[str, str]
    proxies: Mapping[str, str]
    certificates: Mapping[str, str]

    @classmethod
    def read(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        pip_files: Iterable[Path] | None = None,
        etc: Path = Path("/etc"),
    ) -> HostConfiguration:
        """Read it all.

        Args:
            environ: the environment; None: this process's.
            pip_files: pip's configuration files, the weakest first; None: where pip looks for them.
            etc: folder of the machine-wide configuration.
        """
        environ = os.environ if environ is None else environ
        files = _pip_files(environ, etc) if pip_files is None else pip_files
        pip = _pip(environ, files)
        certificates = {name: environ.get(name, "") for name in CA_VARIABLES}
        # pip's own order: its variable, then its files.
        certificates["PIP_CERT"] = pip.pop("cert", "")
        return cls(
            pip=pip,
            uv=_uv(environ, etc),
            npm=_npm(environ, etc),
            proxies=_proxies(environ),
            certificates={name: value for name, value in certificates.items() if value},
        )


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def _config_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config")


# --- pip ----------------------------------------------------------------------------------------------------


def _pip_files(environ: Mapping[str, str], etc: Path) -> list[Path]:
    """Where pip documents that it looks, the weakest first (global, user, site, `PIP_CONFIG_FILE`)."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    shared = (environ.get("XDG_CONFIG_DIRS") or str(etc / "xdg")).split(":")
    files = [Path(folder) / "pip" / "pip.conf" for folder in shared]
    files += [etc / "pip.conf", _home(environ) / ".pip" / "pip.conf"]
    if sys.platform == "darwin":
        files.insert(0, Path("/Library/Application Support/pip/pip.conf"))
        files.append(_home(environ) / "Library" / "Application Support" / "pip" / "pip.conf")
    files += [_config_home(environ) / "pip" / "pip.conf", Path(sys.prefix) / "pip.conf"]
    return [*files, Path(named)] if named else files


def _pip(environ: Mapping[str, str], files: Iterable[Path]) -> dict[str, str]:
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for path in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            # pip itself refuses to start with such a file: the user hears of it there.
            continue
        for name, options in sections.items():
            if parser.has_section(name):
                options.update({key.replace("_", "-"): " ".join(value.split()) for key, value in parser.items(name)})
    found = sections["global"] | sections["install"]
    for option in PIP_OPTIONS:
        # pip takes an empty variable for one that is not set.
        if value := environ.get(f"PIP_{option.upper().replace('-', '_')}"):
            found[option] = value
    return {option: found[option] for option in PIP_OPTIONS if found.get(option)}


# --- uv -----------------------------------------------------------------------------------------------------


def _uv(environ: Mapping[str, str], etc: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in (etc / "uv" / "uv.toml", _config_home(environ) / "uv" / "uv.toml"):
        try:
            content = tomli.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        found |= _uv_table(content)
    return found | {name: value for name in UV_VARIABLES if (value := environ.get(name))}


def _uv_table(content: Mapping[str, object]) -> dict[str, str]:
    """The variables that say what one `uv.toml` says."""
    found = {}
    singles = {
        "index-url": "UV_INDEX_URL",
        "index-strategy": "UV_INDEX_STRATEGY",
        "system-certs": "UV_SYSTEM_CERTS",
        "native-tls": "UV_NATIVE_TLS",
    }
    for key, variable in singles.items():
        value = content.get(key)
        if isinstance(value, str) or value is True:
            found[variable] = "true" if value is True else str(value)
    lists = {
        "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
        "find-links": ("UV_FIND_LINKS", ","),
        "allow-insecure-host": ("UV_INSECURE_HOST", " "),
    }
    for key, (variable, separator) in lists.items():
        values = content.get(key)
        if isinstance(values, list) and values:
            found[variable] = separator.join(map(str, values))
    indexes = content.get("index")
    tables = [table for table in indexes if isinstance(table, dict)] if isinstance(indexes, list) else []
    # An explicit index serves only packages that name it.
    usable = [table for table in tables if table.get("url") and not table.get("explicit")]
    if default := [str(table["url"]) for table in usable if table.get("default")]:
        found["UV_DEFAULT_INDEX"] = default[0]
    if others := [str(table["url"]) for table in usable if not table.get("default")]:
        found["UV_INDEX"] = " ".join(others)
    return found


# --- npm, proxies, apt --------------------------------------------------------------------------------------


def _npm(environ: Mapping[str, str], etc: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in (etc / "npmrc", _home(environ) / ".npmrc"):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            key, separator, value = (part.strip() for part in line.partition("="))
            # `${NAME}` would read a variable that is not on our list.
            if separator and key in NPM_OPTIONS and value and "${" not in value:
                found[key] = value.strip("\"'")
    for option in NPM_OPTIONS:
        name = f"npm_config_{option.replace('-', '_')}"
        if own := environ.get(name) or environ.get(name.upper()):
            found[option] = own
    return found


def _proxies(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name in PROXY_VARIABLES:
        if value := environ.get(name) or environ.get(name.upper()):
            # Tools disagree about the case that they read.
            found[name] = found[name.upper()] = value
    return found


def apt_settings() -> tuple[str, ...]:
    """This host's settings for reaching apt mirrors, as lines of apt's configuration; none where there is no apt."""
    program = shutil.which("apt-config")
    if program is None:
        return ()
    try:
        done = subprocess.run(
            [program, "dump"], capture_output=True, check=True, timeout=_APT_LIMIT_S, stdin=subprocess.DEVNULL
        )
    except (subprocess.SubprocessError, OSError):
        return ()
    return apt_lines(done.stdout.decode(errors="replace"))


def apt_lines(dump: str) -> tuple[str, ...]:
    """The lines of `apt-config dump` that a container can use, too."""
    lines = (line.strip() for line in dump.splitlines())
    return tuple(line for line in lines if _APT.fullmatch(line) and not _APT_LOCAL.search(line))
