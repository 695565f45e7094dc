"""What a probe left behind, and whether it is what the suite demands.

Everything here reads data that the environment under test produced: sizes are capped, numbers must be finite, links
are not followed, and nothing read is executed.
"""

from __future__ import annotations

import json
import math
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO

from pytest_researchenv.model import Evidence, FileEvidence, JsonEvidence


__all__ = [
    "MAX_BYTES",
    "MAX_FILES",
    "TRACEBACK",
    "OutputFile",
    "Outputs",
    "decisive_line",
    "misses",
    "plain_lines",
    "read_outputs",
]

#: Bytes of content kept of one probe's output folder.
MAX_BYTES = 64 * 1024**2
#: Files looked at in one probe's output folder.
MAX_FILES = 1000
#: Bytes read through to learn the sizes of files whose content is not kept, such as checkpoints.
MAX_STREAM = 8 * 1024**3

_LINE_CAP = 500
#: A traceback with more lines than this after it was logged by a program that went on.
_AFTERMATH = 40
#: Exceptions by which a launcher only says that a process it started has failed.
_LAUNCHERS = ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "subprocess.CalledProcessError")
#: How Python begins a traceback.
TRACEBACK = "Traceback (most recent call last):"
#: How an exception's line begins, and what one looks like in the middle of a line.
_NAMED = re.compile(r"[A-Za-z_][\w.]*(:|$)")
_MENTIONED = re.compile(r"\b(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit): \S.*")

#: Letters of a line in which one is looked for: the time goes by their square, and a megabyte would take hours.
_SEARCHED = 2000

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: What launchers of several processes put before each line: `[rank0]: `, `[default1]:`.
_RANK = re.compile(r"^\[[A-Za-z]+\d+\]: ?")


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A regular file that a probe wrote.

    Attributes:
        size: bytes.
        content: its bytes; None when the cap on kept content was reached.
    """

    size: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Outputs:
    """A probe's output folder.

    Attributes:
        files: absolute path in the container → file.
        problem: why not everything was looked at; empty when it was.
    """

    files: Mapping[str, OutputFile] = field(default_factory=dict)
    problem: str = ""

    def matching(self, pattern: str) -> Iterator[tuple[str, OutputFile]]:
        """The files whose path matches; `*`, `?` and `[…]` do not cross folders."""
        for path, file in self.files.items():
            if path == pattern or PurePosixPath(path).match(pattern):
                yield path, file


def read_outputs(archive: IO[bytes] | None, folder: str) -> Outputs:
    """Read the tar stream of a probe's output folder.

    Args:
        archive: what `Container.get(folder)` gave.
        folder: absolute path of the folder in the container.

    Returns:
        Its regular files, up to `MAX_FILES` of them and `MAX_BYTES` of content.
    """
    if archive is None:
        return Outputs(problem=f"the output folder {folder} is gone")
    files: dict[str, OutputFile] = {}
    kept = streamed = 0
    parent = PurePosixPath(folder).parent
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:
            while member := tar.next():
                # tarfile keeps every entry for random access: folders and links would add up without a limit.
                tar.members = []  # type: ignore[attr-defined] # Left out of the stubs.
                if not member.isreg():
                    continue
                streamed += member.size
                if len(files) == MAX_FILES or streamed > MAX_STREAM:
                    return Outputs(files, f"only the first {len(files)} output files were looked at")
                content = None
                stream = tar.extractfile(member)
                if stream is not None and kept + member.size <= MAX_BYTES:
                    content = stream.read()
                    kept += member.size
                # Bytes that are no UTF-8 come as lone surrogates, which no record can hold.
                name = member.name.encode(errors="surrogateescape").decode(errors="replace")
                files[str(parent / name)] = OutputFile(member.size, content)
    except tarfile.TarError as error:
        return Outputs(files, f"the output folder could not be read to its end: {error}")
    return Outputs(files)


def misses(evidence: Evidence, outputs: Outputs, *texts: str) -> list[str]:
    """Compare what was demanded with what was seen.

    Args:
        evidence: what the suite demands, with placeholders filled in.
        outputs: what the probe wrote.
        texts: what the probe printed: all of it as it came, and each stream alone. One of them has to match.

    Returns:
        One sentence for each demand that is not met; empty when all are.
    """
    found = [_file_miss(demand, outputs) for demand in evidence.files]
    found += [_json_miss(demand, outputs) for demand in evidence.json]
    found += [
        f"the output does not match {pattern!r}"
        for pattern in evidence.output
        if not any(re.search(pattern, text, re.MULTILINE) for text in texts)
    ]
    missing = [sentence for sentence in found if sentence]
    if missing and outputs.problem:
        missing.append(outputs.problem)
    return missing


def _file_miss(demand: FileEvidence, outputs: Outputs) -> str:
    sizes = [file.size for _, file in outputs.matching(demand.path)]
    if not sizes:
        return f"no file {demand.path}"
    if max(sizes) < demand.min_bytes:
        return f"{demand.path} has {max(sizes)} bytes, fewer than {demand.min_bytes}"
    return ""


def _json_miss(demand: JsonEvidence, outputs: Outputs) -> str:
    """Of several files that match, one must hold the value."""
    problem = f"no file {demand.path}"
    for path, file in outputs.matching(demand.path):
        where = f"{path}: {demand.field}"
        if file.content is None:
            problem = f"{path} was not read: the output folder holds more than {MAX_BYTES // 1024**2} MiB"
            continue
        try:
            value = _pick(json.loads(file.content), demand.field)
        except (ValueError, RecursionError) as error:
            problem = f"{path} is not valid JSON: {error}"
            continue
        except LookupError:
            problem = f"{where} is missing"
            continue
        problem = _value_problem(demand, value)
        if not problem:
            return ""
        problem = f"{where} is {problem}"
    return problem


def _pick(document: object, dotted: str) -> object:
    """Go down a JSON document along keys and list indices."""
    for key in dotted.split("."):
        if isinstance(document, dict):
            document = document[key]
        elif isinstance(document, list) and re.fullmatch(r"-?[0-9]{1,9}", key):
            document = document[int(key)]
        else:
            raise LookupError(key)
    return document


def _value_problem(demand: JsonEvidence, value: object) -> str:
    shown = f"{value!r:.80}"
    if demand.equals is not None:
        # True == 1 in Python, but not in JSON.
        same = isinstance(value, bool) is isinstance(demand.equals, bool) and value == demand.equals
        return "" if same else f"{shown}, not {demand.equals!r}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{shown}, not a number"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{shown}, not a finite number"
    if demand.min is not None and value < demand.min:
        return f"{shown}, less than {demand.min}"
    if demand.max is not None and value > demand.max:
        return f"{shown}, more than {demand.max}"
    return ""


def plain_lines(text: str) -> list[str]:
    """Return the lines of an output, without colours and without the marks of ranks."""
    return [_RANK.sub("", _ESCAPE.sub("", line)) for line in re.split(r"[\r\n]+", text)]


def decisive_line(text: str) -> str:
    """Find the line of an output that says what went wrong.

    That is the exception line of the last Python traceback that is not a launcher's about its child, or else the last
    line that holds a letter or digit.
    """
    lines = plain_lines(text)
    end, launcher = len(lines), ""
    for start in [number for number, line in enumerate(lines) if line.strip() == TRACEBACK][::-1]:
        number, exception = _exception(lines, start)
        if not exception or end - number > _AFTERMATH:
            break
        if not exception.startswith(_LAUNCHERS):
            return exception if _NAMED.match(exception) else _torn(lines[start:end]) or exception
        # What the child itself said stands before it.
        end, launcher = start, launcher or exception
    if launcher and (found := _torn(lines[max(0, end - _AFTERMATH) : end])):
        return found
    return launcher or next((line.strip()[:_LINE_CAP] for line in reversed(lines) if re.search(r"\w", line)), "")


def _torn(lines: list[str]) -> str:
    """The last exception that lines name, when ranks that print at once tore each other's tracebacks."""
    found = [match[0][:_LINE_CAP] for line in lines if (match := _MENTIONED.search(line[:_SEARCHED]))]
    return next((exception for exception in reversed(found) if not exception.startswith(_LAUNCHERS)), "")


def _exception(lines: list[str], start: int) -> tuple[int, str]:
    """The number and text of the line that ends a traceback; an empty text when it has no end."""
    # A traceback may itself be indented, by a logger or a notebook.
    margin = len(lines[start]) - len(lines[start].lstrip())
    for number, line in enumerate(lines[start + 1 :], start + 1):
        if line.strip() and len(line) - len(line.lstrip()) <= margin:
            return number, line.strip()[:_LINE_CAP]
    return len(lines), ""
