"""How fast secrets are taken out of what agents print, beside a plain copy.

Prints MB/s for a transcript in JSON lines and for text, whole and in pieces, with several numbers of secrets.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import time
from collections.abc import Callable
from functools import partial

from pytest_researchenv.redaction import Redactor
from pytest_researchenv.secrets import Secret


_CHOOSE = random.Random(0)  # noqa: S311 - a benchmark
_LETTERS = string.ascii_letters + string.digits + "-_"


def transcript(size: int) -> bytes:
    """Make what an agent may print: JSON lines with file contents, paths and logs in them."""
    words = [
        "the",
        "import",
        "torch",
        "self.",
        "def ",
        "return",
        "\n    ",
        '"quoted"',
        "/usr/lib/python3",
        "==1.2.3",
        "0x7f",
    ]
    lines: list[bytes] = []
    total = 0
    while total < size:
        text = " ".join(_CHOOSE.choices(words, k=200))
        lines.append(json.dumps({"type": "assistant", "content": [{"type": "text", "text": text}]}).encode() + b"\n")
        total += len(lines[-1])
    return b"".join(lines)


def rate(work: Callable[[bytes], object], data: bytes) -> float:
    """Return the best of three, in MB per second of processor time."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        work(data)
        seconds.append(time.process_time() - begin)
    return len(data) / 1e6 / min(seconds)


def in_pieces(redactor: Redactor, size: int, data: bytes) -> int:
    """Feed a stream, and return how much came out."""
    stream = redactor.stream()
    return sum(len(stream.feed(data[at : at + size])) for at in range(0, len(data), size)) + len(stream.end())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=8, help="how much text (default: 8)")
    data = transcript(parser.parse_args().megabytes * 1_000_000)
    copy = rate(bytearray, data)
    print(f"plain copy: {copy:.0f} MB/s")
    for count in (1, 3, 10):
        secrets = [Secret(f"KEY_{n}", "sk-" + "".join(_CHOOSE.choices(_LETTERS, k=60 + n))) for n in range(count)]
        begin = time.process_time()
        redactor = Redactor(secrets)
        made = time.process_time() - begin
        rates = {"whole": rate(redactor.bytes, data)}
        for size in (200, 4096, 65536):
            rates[f"pieces of {size}"] = rate(partial(in_pieces, redactor, size), data)
        told = ", ".join(f"{name} {value:.1f} MB/s ({copy / value:.0f} times a copy)" for name, value in rates.items())
        print(f"{count} secrets (made in {made:.2f} s): {told}")


if __name__ == "__main__":
    main()
