"""What the stand-in outside serves: bodies with a canary in every shape in which hosts send files, and clean ones.

`/HOW/WHAT`: HOW is `whole` (its length is told), `chunked`, or `long` (as `whole`, behind two megabytes that say
nothing); WHAT is `plain`, `gzip` (as a coding), `zip`, `tar.gz` or `base64` (in JSON). `/clean/MEGABYTES` is noise that
is the same each time, `/asked` the request's headers as JSON, and below `/git/` a repository is cloned.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import random
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path


CANARY = "outside canary 5b2f77f0-9c1d-4e0a-8d65-6a6f0d3c9e11"
RECIPE = b"# How it is done.\n#\n# %s\nuv pip install torch\nSECRET-STEP\n" % CANARY.encode()

_NOISE = random.Random(1).randbytes(2**21)  # noqa: S311 - no secret
_REPOSITORY = Path(__file__).parent / "cloned"


def made(path: str, headers: Mapping[str, str]) -> tuple[dict[str, str], Iterator[bytes], int | None]:
    """Headers, pieces and length of an answer."""
    _, how, what, *_ = [*path.partition("?")[0].split("/"), "", ""]
    if how == "clean":
        return {}, _noise(int(what)), int(what) * 2**20
    if how == "asked":
        body = json.dumps({name.lower(): value for name, value in headers.items()}).encode()
        return {}, iter((body,)), len(body)
    body, coding = _packed(what, b"" if how != "long" else _NOISE)
    pieces = (body[at : at + 40] for at in range(0, len(body), 40)) if how == "chunked" else iter((body,))
    return coding, pieces, None if how == "chunked" else len(body)


def git(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    """What a Git service answers."""
    if not _REPOSITORY.exists():
        _commit()
    asked = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(_REPOSITORY.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": method,
        "PATH_INFO": f"/cloned{path}",
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(["git", "http-backend"], env=asked, input=body, capture_output=True, check=True)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    fields = (line.partition(": ") for line in head.decode().splitlines())
    return {name: value for name, _, value in fields if name != "Status"}, content


def _commit() -> None:
    _REPOSITORY.mkdir()
    git_ = ["git", "-C", str(_REPOSITORY), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run([*git_, "init", "-q", "-b", "main"], check=True)
    (_REPOSITORY / "noise").write_bytes(_NOISE)
    (_REPOSITORY / "oracle.sh").write_bytes(RECIPE)
    subprocess.run([*git_, "add", "-A"], check=True)
    subprocess.run([*git_, "commit", "-qm", "one"], check=True)


def _noise(megabytes: int) -> Iterator[bytes]:
    for number in range(megabytes):
        at = number * 4099 % 2**20
        yield _NOISE[at : at + 2**20]


def _packed(what: str, before: bytes) -> tuple[bytes, dict[str, str]]:
    match what:
        case "gzip":
            return gzip.compress(before + RECIPE), {"Content-Encoding": "gzip"}
        case "zip":
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("noise", before)
                archive.writestr("oracle.sh", RECIPE)
            return stream.getvalue(), {}
        case "tar.gz":
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w:gz") as tar:
                for name, content in {"noise": before, "oracle.sh": RECIPE}.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
            return stream.getvalue(), {}
        case "base64":
            text = {"noise": before.hex(), "content": base64.encodebytes(RECIPE).decode()}
            return json.dumps(text).encode(), {"Content-Type": "application/json"}
    return before + RECIPE, {}
