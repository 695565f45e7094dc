"""Words of an environment, an agent or a file's name, fit to be shown.

They may be anything. Here they become text that means what it looks like: what is not seen is written out, and of what
is long an excerpt is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.packedlogs import read_ends
from pytest_researchenv.probes.lookup import escaped


__all__ = ["Excerpt", "cut", "read_excerpt", "visible", "without_terminal"]

#: Of a longer log, how many bytes of its beginning and of its end are shown.
HEAD_BYTES, TAIL_BYTES = 2 * 1024, 14 * 1024

#: Control, format and surrogate characters, and separators that are seen as nothing; not tab and line feed. Among them
#: are those that turn the direction of writing (CVE-2021-42574).
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

#: Colours, titles and movements of the cursor.
_TERMINAL = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[()][0-9A-B]|[=>78DEHMc])")


def visible(text: str) -> str:
    """Write out every character that is not seen, such as one that turns the direction of writing."""
    # Line by line: most are printable ASCII, which is seen four times as fast as each character is looked up.
    return "\n".join(
        line if line.isascii() and line.isprintable() else _UNSEEN.sub(lambda found: escaped(found[0]), line)
        for line in text.split("\n")
    )


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, with an ellipsis where something was left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_terminal(text: str) -> str:
    """Return what a terminal would show of an output: no colours, and of a line that was written over its last form."""
    plain = _TERMINAL.sub("", text).replace("\r\n", "\n")
    if "\r" not in plain:
        return plain
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n"))
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Beginning and end of a log.

    Attributes:
        head: the beginning; all of it where nothing was left out.
        tail: the end; empty where nothing was left out.
        omitted: how many bytes between them were left out.
    """

    head: str = ""
    tail: str = ""
    omitted: int = 0


def read_excerpt(path: Path) -> Excerpt | None:
    """Read the ends of a log; None where there is none that can be read."""
    try:
        ends = read_ends(path, head=HEAD_BYTES, tail=TAIL_BYTES)
    # Also what a name raises that is none.
    except (OSError, ValueError):
        return None
    if not ends.omitted:
        return Excerpt(_text(ends.head + ends.tail))
    return _joined(ends.head, ends.tail, ends.size)


def _joined(head: bytes, tail: bytes, size: int) -> Excerpt:
    # Whole lines, where there are any.
    first, last = head[: head.rfind(b"\n") + 1] or head, tail[tail.find(b"\n") + 1 :] or tail
    return Excerpt(_text(first), _text(last), size - len(first) - len(last))


def _text(raw: bytes) -> str:
    return without_terminal(raw.decode("utf-8", "backslashreplace"))
