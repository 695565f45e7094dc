"""What of the host's settings reaches containers, and what never may."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_researchenv.sandbox import hostsettings
from pytest_researchenv.sandbox._hostconfig import HostConfiguration, apt_lines
from pytest_researchenv.sandbox.hostsettings import Carried, HostSettings, carry, loopback, redact


SECRETS = {
    "ANTHROPIC_API_KEY": "sk-ant-1",
    "AWS_SECRET_ACCESS_KEY": "aws-2",
    "GITHUB_TOKEN": "gh-3",
    "PIP_X_SECRET": "4",
}
#: A folder without any configuration.
NOWHERE = Path("/nonexistent")


class Watched(Mapping[str, str]):
    """An environment that can be asked for single names only, and remembers for which."""

    def __init__(self, content: Mapping[str, str]) -> None:
        """Hold the content."""
        self.content = dict(content)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self.content[name]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the whole environment was read")

    def __len__(self) -> int:
        raise AssertionError("the whole environment was counted")


def carried(environ: Mapping[str, str], *pip_files: Path, home: Path | None = None) -> Carried:
    """What is carried from an environment, with this machine's own files kept out."""
    content = {"HOME": str(home or NOWHERE), **environ}
    return carry(HostConfiguration.read(content, pip_files=pip_files, etc=NOWHERE), ())


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A file of certificates."""
    path = tmp_path / "bundle.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\n")
    return path


def test_secrets_are_neither_read_nor_carried() -> None:
    """Only listed variables are asked for; a secret beside them is not even looked at."""
    environ = Watched({"HOME": "/nonexistent", "PIP_INDEX_URL": "https://index.example/simple", **SECRETS})

    result = carry(HostConfiguration.read(environ, pip_files=(), etc=NOWHERE), ())

    assert not environ.asked & SECRETS.keys()
    assert not set(SECRETS.values()) & set(result.environment.values())
    assert result.environment["PIP_INDEX_URL"] == "https://index.example/simple"


def test_an_npmrc_cannot_pull_in_a_variable(tmp_path: Path) -> None:
    """`${NAME}` in an npmrc would read what is not on the list, and tokens are no setting."""
    (tmp_path / ".npmrc").write_text(
        "registry=https://npm.example/?t=${GITHUB_TOKEN}\n//npm.example/:_authToken=abc\nnoproxy = a.example\n"
    )

    result = carried(SECRETS, home=tmp_path)

    assert result.environment["NPM_CONFIG_NOPROXY"] == "a.example"
    assert "abc" not in str(result.environment)
    assert "${" not in str(result.environment)


def test_empty_variables_are_left_out() -> None:
    """An empty SSL_CERT_FILE makes uv fail, so nothing is passed on as an empty string."""
    names = ("SSL_CERT_FILE", "PIP_INDEX_URL", "PIP_FIND_LINKS", "http_proxy", "UV_INDEX", "NPM_CONFIG_REGISTRY")

    result = carried(dict.fromkeys(names, ""))

    assert result.environment == {}
    assert result.files == {}


def test_an_empty_variable_does_not_hide_pips_configuration(tmp_path: Path) -> None:
    """An empty variable counts as not set, as for pip."""
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nindex-url = https://a.example/simple\n")

    assert carried({"PIP_INDEX_URL": ""}, conf).environment["PIP_INDEX_URL"] == "https://a.example/simple"


def test_pips_order_of_precedence(tmp_path: Path) -> None:
    """A later file beats an earlier one, a command's section beats the global one, the environment beats all."""
    weak, strong = tmp_path / "weak.conf", tmp_path / "strong.conf"
    weak.write_text("[global]\nindex-url = https://weak.example\nretries = 1\ntimeout = 1\n[install]\ntimeout = 2\n")
    strong.write_text("[global]\nindex_url = https://strong.example\nretries = 3\n")

    environment = carried({"PIP_RETRIES": "9"}, weak, strong).environment

    assert environment["PIP_INDEX_URL"] == environment["UV_INDEX_URL"] == "https://strong.example"
    assert environment["PIP_RETRIES"] == "9"
    assert environment["PIP_TIMEOUT"] == environment["UV_HTTP_TIMEOUT"] == "2"


def test_a_broken_configuration_file_is_passed_over(tmp_path: Path) -> None:
    """Pip complains about such a file itself."""
    conf = tmp_path / "pip.conf"
    conf.write_bytes(b"no section\n\xff")

    assert carried({}, conf).environment == {}


def test_credentials_reach_the_build_and_no_message() -> None:
    """User and password of an index are carried, but neither a note nor the text form of the result shows them."""
    url = "https://user:pa%24s@pypi.corp.example:8443/simple?key=k1"
    local = "http://user:hidden@localhost:3141/root"

    result = carried(
        {"PIP_INDEX_URL": url, "PIP_EXTRA_INDEX_URL": local, "https_proxy": "http://u:hidden@127.0.0.1:3128"}
    )
    settings = HostSettings(None, result.environment, tuple(result.notes))

    assert result.environment["PIP_INDEX_URL"] == url
    assert len(result.notes) == 2
    for secret in ("hidden", "pa%24s", "k1"):
        assert secret not in repr(settings)
        assert secret not in repr(result)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/simple", "https://a.example/simple"),
        ("https://me:pw@a.example:8/x?token=1#f", "https://***@a.example:8/x"),
        ("http://[bad:pw@x", "(an address that cannot be read)"),
        ("me:pw@a.example", "(an address that cannot be read)"),
        ("https://me:pw@a.example:port/", "(an address that cannot be read)"),
    ],
)
def test_redact(url: str, shown: str) -> None:
    """No form of address lets its password through."""
    assert redact(url) == shown


@pytest.mark.parametrize("host", ["localhost", "pypi.localhost", "127.0.0.1", "127.9.9.9:80", "[::1]:8", "0.0.0.0"])  # noqa: S104 - an address to recognise, none to bind
def test_loopback_addresses_are_known(host: str) -> None:
    """All spellings of the host itself, with and without scheme, are recognised."""
    assert loopback(f"http://{host}")
    assert loopback(host)


def test_other_addresses_are_not_loopback() -> None:
    """A name that only looks like it is a name like any other."""
    assert not loopback("http://localhost.example:80")
    assert not loopback("http://10.0.0.1")


def test_a_proxy_on_the_host_itself_is_not_carried() -> None:
    """Nothing in a container could reach it; all else still may, and both cases of the name are set."""
    result = carried(
        {"http_proxy": "http://localhost:3128", "HTTPS_PROXY": "http://proxy.example:80", "NO_PROXY": "localhost"}
    )

    assert "http_proxy" not in result.environment
    assert result.environment["https_proxy"] == result.environment["HTTPS_PROXY"] == "http://proxy.example:80"
    assert result.environment["no_proxy"] == result.environment["NO_PROXY"] == "localhost"
    assert result.notes == [
        "http_proxy http://localhost:3128 is not carried: a container cannot reach this host's own address"
    ]


def test_the_main_index_is_never_replaced_in_silence() -> None:
    """Without an unreachable main index, pip would ask the public one for private names: so it stays, and fails."""
    result = carried({"PIP_INDEX_URL": "http://localhost:3141/simple"})

    assert result.environment["PIP_INDEX_URL"] == "http://localhost:3141/simple"
    assert "cannot reach it" in result.notes[0]


def test_a_local_extra_index_is_noted() -> None:
    """A `file:` index stays on the host; the others beside it are carried."""
    result = carried({"PIP_EXTRA_INDEX_URL": "file:///srv/simple https://b.example/simple"})

    assert result.environment["PIP_EXTRA_INDEX_URL"] == "https://b.example/simple"
    assert "file:///srv/simple" in result.notes[0]


def test_only_packages_leave_a_folder(tmp_path: Path) -> None:
    """Of a find-links folder, wheels and source archives are carried; other files and sub-folders stay."""
    for name in ("a-1-py3-none-any.whl", "b-1.tar.gz", "id_rsa", "notes.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c-1-py3-none-any.whl").write_text("c")

    result = carried({"PIP_FIND_LINKS": f"{tmp_path} https://wheels.example/x"})

    assert sorted(Path(name).name for name in result.files) == ["a-1-py3-none-any.whl", "b-1.tar.gz"]
    inside = result.environment["PIP_FIND_LINKS"].split()[0]
    assert all(f"{hostsettings.TARGET}/{name}".startswith(inside) for name in result.files)
    # uv wants commas where pip wants blanks.
    assert result.environment["UV_FIND_LINKS"] == f"{inside},https://wheels.example/x"


@pytest.mark.parametrize("name", ["pytest_researchenv-0.1.0-py3-none-any.whl", "Pytest-ResearchEnv-0.1.0.tar.gz"])
def test_our_own_distribution_stays_on_the_host(tmp_path: Path, name: str) -> None:
    """Recipes and probes are in it: it would be handed to every agent."""
    for other in (name, "pytest-9.0-py3-none-any.whl"):
        (tmp_path / other).write_text(other)

    result = carried({"PIP_FIND_LINKS": str(tmp_path)})

    assert [Path(path).name for path in result.files] == ["pytest-9.0-py3-none-any.whl"]


def test_a_folder_above_the_cap_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A huge folder is not copied; the note says its size and the limit."""
    monkeypatch.setattr(hostsettings, "FOLDER_CAP_BYTES", 10)
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"x" * 11)

    result = carried({"PIP_FIND_LINKS": tmp_path.as_uri()})

    assert result.environment == {}
    assert "exceed" in result.notes[0]


def test_the_key_follows_the_content(tmp_path: Path) -> None:
    """A changed wheel or certificate gets another volume; the same content gets the same."""
    wheel = tmp_path / "a-1-py3-none-any.whl"
    wheel.write_text("one")
    environ = {"PIP_FIND_LINKS": str(tmp_path)}
    before, again = carried(environ).key, carried(environ).key
    wheel.write_text("other")

    assert before == again
    assert carried(environ).key != before


def test_a_general_bundle_serves_every_tool(bundle: Path) -> None:
    """SSL_CERT_FILE alone is enough on the host for many tools; each gets its own variable in the container."""
    environment = carried({"SSL_CERT_FILE": str(bundle)}).environment

    assert len(set(environment.values())) == 1
    assert set(environment) == {
        "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"
    }  # fmt: skip


def test_a_special_bundle_serves_its_tool_only(bundle: Path, tmp_path: Path) -> None:
    """NODE_EXTRA_CA_CERTS and pip's cert may hold one private CA: as everybody's bundle they would break all else."""
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\ncert = {bundle}\n")

    assert set(carried({"NODE_EXTRA_CA_CERTS": str(bundle)}).environment) == {"NODE_EXTRA_CA_CERTS"}
    assert set(carried({}, conf).environment) == {"PIP_CERT"}


def test_a_missing_file_is_noted_and_its_variable_left_out() -> None:
    """A variable that names a file that is not there would break every download."""
    result = carried({"SSL_CERT_FILE": "/nonexistent/ca.pem", "PIP_CONSTRAINT": "/nonexistent/c.txt"})

    assert result.environment == {}
    assert len(result.notes) == 2


def test_a_constraint_that_includes_others_is_noted(tmp_path: Path) -> None:
    """Its companions would be missing in the container, and every installation would fail."""
    path = tmp_path / "c.txt"
    path.write_text("torch<3\n-c more.txt\n")

    result = carried({"PIP_CONSTRAINT": str(path)})

    assert "PIP_CONSTRAINT" not in result.environment
    assert "includes other files" in result.notes[0]


def test_uvs_own_settings_beat_those_of_pip(tmp_path: Path) -> None:
    """What the host says to uv goes to uv, pip's index only where it says nothing."""
    (tmp_path / ".config" / "uv").mkdir(parents=True)
    (tmp_path / ".config" / "uv" / "uv.toml").write_text(
        '[[index]]\nurl = "https://uv.example"\ndefault = true\n[[index]]\nurl = "https://x.example"\nexplicit = true\n'
    )

    environ = {"PIP_INDEX_URL": "https://pip.example", "UV_INDEX": "corp=https://b.example file:///srv"}
    environment = carried(environ, home=tmp_path).environment

    assert environment["UV_DEFAULT_INDEX"] == "https://uv.example"
    assert environment["UV_INDEX"] == "corp=https://b.example"
    assert "UV_INDEX_URL" not in environment


def test_apts_settings_are_those_about_mirrors() -> None:
    """Of `apt-config dump`, proxies and retries are carried, no program, no key and none of apt's defaults."""
    dump = """\
Acquire "";
Acquire::http::Proxy "http://proxy.example:3142";
Acquire::https::Proxy::mirror.example "DIRECT";
Acquire::http::Proxy-Auto-Detect "/usr/bin/find-proxy";
Acquire::https::SslKey "/etc/secret.key";
Acquire::Retries "3";
Acquire::IndexTargets::deb::Packages::MetaKey "x";
DPkg::Post-Invoke "rm -rf /";
"""

    assert [line.split()[0] for line in apt_lines(dump)] == [
        "Acquire::http::Proxy", "Acquire::https::Proxy::mirror.example", "Acquire::Retries"
    ]  # fmt: skip


def test_apts_loopback_proxy_is_not_carried() -> None:
    """Like any other proxy on the host itself."""
    host = HostConfiguration.read({"HOME": "/nonexistent"}, pip_files=(), etc=NOWHERE)

    result = carry(host, ['Acquire::http::Proxy "http://127.0.0.1:3142";', 'Acquire::Retries "3";'])

    assert result.files == {"apt.conf": b'Acquire::Retries "3";\n'}
    assert result.environment == {"APT_CONFIG": "/researchenv/host/apt.conf"}


def test_every_user_can_read_the_archive(bundle: Path, tmp_path: Path) -> None:
    """The volume serves an agent that is not root, too, whatever the modes on the host."""
    (tmp_path / "a-1-py3-none-any.whl").write_text("a")
    bundle.chmod(0o600)
    result = carried({"PIP_FIND_LINKS": str(tmp_path), "SSL_CERT_FILE": str(bundle)})
    stream = io.BytesIO()

    with tarfile.open(fileobj=stream, mode="w") as archive:
        result.fill(archive)

    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        members = archive.getmembers()
    assert {member.mode for member in members if member.isfile()} == {0o644}
    assert {member.mode for member in members if member.isdir()} == {0o755}
    assert {member.uid for member in members} == {0}
