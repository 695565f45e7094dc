"""Keys and passwords turn up nowhere, even when an agent tries to have them turn up."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docker import DockerClient
from docker.errors import NotFound

from tests.choosing import mostly_slow
from tests.integration.agents.conftest import NEEDY, Bench


#: Password of a package index: the one secret that an agent is given, since its tools need it.
PASSWORD = "hunter2-canary-77d1"  # noqa: S105 - that is the test

#: Prints everything that a process in the container can see of itself and of others.
SPY = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; mount; ls -laR /researchenv; sleep 2"

ENCODE = """python3 - <<'END'
import base64, codecs, html, json, os, quopri, re, urllib.parse
word = re.search(r"//[^:]+:([^@]+)@", os.environ["PIP_INDEX_URL"])[1]
raw = word.encode()
print("plain", word)
for cut in range(3):
    print("base64", base64.b64encode(b"x" * cut + raw + b"y").decode())
print("url-safe", base64.urlsafe_b64encode(raw).decode())
print("base32", base64.b32encode(raw).decode())
print("hex", raw.hex(), raw.hex().upper())
print("url", urllib.parse.quote(word), "".join(f"%{byte:02x}" for byte in raw))
print("json", "".join(f"\\\\u{ord(sign):04x}" for sign in word))
print("html", "".join(f"&#{ord(sign)};" for sign in word))
print("quoted", "".join(f"={byte:02X}" for byte in raw))
print("backwards", word[::-1])
os.write(1, b"utf-16 " + word.encode("utf-16-le") + b"\\n")
for piece in (word[:7], word[7:]):
    os.write(1, piece.encode())
json.dump({"python_path": "/usr/bin/python3", "notes": word}, open("/researchenv/report.json", "w"))
END"""


def traces(data: bytes, secret: str) -> list[str]:
    """In which encodings a secret stands in some bytes."""
    raw = secret.encode()
    looked = {
        "plain": raw,
        "base64": base64.b64encode(raw)[:-4],
        "base64 after one": base64.b64encode(b"x" + raw)[4:-4],
        "base64 after two": base64.b64encode(b"xx" + raw)[4:-4],
        "base32": base64.b32encode(raw)[:-8],
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "url": "".join(f"%{byte:02x}" for byte in raw).encode(),
        "json": "".join(f"\\u{byte:04x}" for byte in raw).encode(),
        "html": "".join(f"&#{byte};" for byte in raw).encode(),
        "quoted": "".join(f"={byte:02X}" for byte in raw).encode(),
        "utf-16": secret.encode("utf-16-le"),
        "backwards": raw[::-1],
    }
    return [name for name, value in looked.items() if value in data]


def scan(folder: Path, secret: str) -> dict[str, list[str]]:
    """Every file below a folder in which a secret stands, and how."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = {str(path): traces(gzip.decompress(path.read_bytes()), secret) for path in files if path.suffix == ".gz"}
    found |= {str(path): traces(path.read_bytes(), secret) for path in files if path.suffix != ".gz"}
    return {name: how for name, how in found.items() if how}


@contextmanager
def watched(client: DockerClient) -> Iterator[list[bytes]]:
    """Note, all the while, what the engine and the kernel tell of containers and processes."""
    seen: list[bytes] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for item in client.api.containers(all=True, filters={"label": "researchenv.attempt"}):
                try:
                    seen.append(json.dumps(client.api.inspect_container(item["Id"])).encode())
                except NotFound:
                    continue
            seen.append(subprocess.run(["ps", "axeww"], capture_output=True, check=True).stdout)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("agent", "name"),
    mostly_slow(
        (("claude-sonnet", "ANTHROPIC_API_KEY"), ("codex", "OPENAI_API_KEY"), ("mini-swe", "OPENAI_API_KEY")),
        but={("claude-sonnet", "ANTHROPIC_API_KEY")},
    ),
)
def test_the_key_turns_up_nowhere(bench: Bench, agent: str, name: str) -> None:
    """The key from a .env file stands in no container, process list, image, log, store or report."""
    # Of its own: other tests at the same time have theirs in their environment.
    secret = f"sk-canary-{uuid.uuid4().hex}"
    (bench.folder / ".env").write_text(f"{name}={secret}\n")
    (bench.folder / ".env").chmod(0o600)
    bench.play("good", key=secret, commands=[SPY, *NEEDY])
    client = bench.place.client

    with watched(client) as seen:
        ran = bench.run(agent, key="")

    assert ran.outcomes == {f"C1 {agent}-needy": "passed"}, ran.text
    assert any(b"/researchenv/scratch" in view for view in seen), "nobody looked while the agent was at work"
    assert not [view for view in seen if traces(view, secret)]
    (bench.folder / ".env").unlink()
    assert scan(bench.folder, secret) == {}
    assert traces(ran.text.encode(), secret) == []
    image = bench.record(agent)["image"]
    history = json.dumps([client.images.get(image).attrs, client.images.get(image).history()])
    assert traces(history.encode(), secret) == []
    added = _top_layer(client, image)
    assert traces(added, secret) == []


def _top_layer(client: DockerClient, image: str) -> bytes:
    """What an image holds beyond its base, as far as its files can be read: everything that is newer than its base."""
    command = [
        "sh",
        "-c",
        "find / -xdev -type f -newer /researchenv -size -2000k -exec cat {} + 2>/dev/null | head -c 64000000",
    ]
    return bytes(client.containers.run(image, command, remove=True, network_mode="none"))


@pytest.mark.slow
def test_a_password_that_an_agent_prints_in_ten_encodings_is_taken_out(bench: Bench) -> None:
    """What an agent's tools must know it can print; where it is stored or shown it is replaced, in every encoding."""
    bench.play("good", commands=[ENCODE])
    index = f"https://reader:{PASSWORD}@packages.example/simple"

    ran = bench.run("claude-sonnet", "-k", "needy", "-s", environ={"PIP_INDEX_URL": index})

    attempt = bench.attempt("claude-sonnet")
    transcript = bench.log("claude-sonnet", "transcript.log")
    assert transcript.count("[redacted") >= 10
    assert "[redacted" in (attempt / "report.json").read_text()
    assert scan(bench.folder, PASSWORD) == {}
    assert traces(ran.text.encode(), PASSWORD) == []
