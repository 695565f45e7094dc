"""How C0 calls pyright, and how it reads the answer.

The configuration is ours alone. Nothing in the analysed tree can silence a report: comments that do are blanked before
the tree is handed over, and only tracked Python files are. Files whose names pyright cannot take get others.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import os
import re
import tokenize
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_researchenv.probes.imports import EXCLUDED, counted


__all__ = [
    "MISSING",
    "Diagnostic",
    "PyrightError",
    "PyrightReport",
    "analysed",
    "blank_suppressions",
    "configuration",
    "heap_exhausted",
    "parse_report",
    "plain_path",
    "renamed",
]

MISSING = "reportMissingImports"
MISSING_SOURCE = "reportMissingModuleSource"

#: `# type: ignore`, also behind another comment, and every kind of `# pyright: …`.
_SUPPRESSION = re.compile(r"type:\s*ignore|pyright:", re.IGNORECASE)

#: pyright 1.1.414, English: `Import "yaml" could not be resolved from source`.
_MESSAGE = re.compile(r'Import "([^"]+)" could not be resolved')

#: Names that pyright passes over, whatever is configured.
_PASSED_OVER = re.compile(r"\.|__editable__\.")

#: Where the module's name starts in `from name import …`.
_FROM = re.compile(rb"from(?:\s|\\\r?\n)+")

#: Exit codes: 0 no error, 1 errors found; 2 and above are pyright's own failures.
_EXIT_CODES = (0, 1)


class PyrightError(Exception):
    """Pyright's answer is no answer. Its caller decides who is to blame."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One import that pyright could not resolve.

    Attributes:
        path: the importing file, relative to the analysed folder.
        line: counted from 1.
        module: dotted name as imported; relative imports start with a dot.
        rule: `reportMissingImports`, or `reportMissingModuleSource` where only stubs were found.
        message: pyright's own words.
    """

    path: str
    line: int
    module: str
    rule: str
    message: str

    @property
    def name(self) -> str:
        """The top-level name."""
        return self.module.partition(".")[0]

    @property
    def relative(self) -> bool:
        """Whether it is a relative import, which C0 does not count."""
        return self.module.startswith(".")

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class PyrightReport:
    """What pyright found.

    Attributes:
        version: pyright's version.
        files: how many files it analysed.
        diagnostics: the imports it could not resolve, in its order.
        alone: why it saw the tree without the environment; empty when it saw both.
    """

    version: str
    files: int
    diagnostics: tuple[Diagnostic, ...]
    alone: str = ""


def analysed(path: str) -> bool:
    """Whether pyright analyses a file of that relative path under our configuration.

    Whatever is configured, pyright 1.1.414 passes over `**/.*` and `**/__editable__.*`. Files there, mostly scripts of
    a continuous integration, are in the total and can never be missing, in the published figure as well as here.
    """
    return counted(path) and not any(_PASSED_OVER.match(part) for part in PurePosixPath(path).parts)


def plain_path(path: str) -> str:
    """The path under which pyright gets a file: each part that it could misread becomes a name of its own.

    Names that are no UTF-8 are not read by node, and others mean something in its addresses and patterns. What is an
    identifier stays, so imports find what they found before.
    """
    return "/".join(_plain_part(part) for part in path.split("/"))


def _plain_part(part: str) -> str:
    if f"_{re.sub('[ .-]', '_', part)}".isidentifier():
        return part
    passed_over = _PASSED_OVER.match(part)
    digest = hashlib.sha256(os.fsencode(part)).hexdigest()[:24]
    return f"{passed_over[0] if passed_over else ''}odd_{digest}{'.py' if part.endswith('.py') else ''}"


def configuration(include: Sequence[str] = (".",)) -> str:
    """The `pyrightconfig.json` that is put beside the tree, to analyse all of it, or some files.

    Type checking is off and only the two import rules are on. The folder that holds the file is the root, so imports
    resolve from the root, from `src`, and from the importing script's own folder, as when it is run.

    `from package import missing_submodule` is reportAttributeAccessIssue and not asked for: pyright cannot tell a
    missing submodule from an attribute made at run time, and the top-level name is there anyway.
    """
    settings = {
        "include": [*include],
        "exclude": [f"**/{name}" for name in sorted(EXCLUDED)],
        "stubPath": ".researchenv-no-stubs",
        "typeCheckingMode": "off",
        # Reading library sources for their types doubles the time (kvpress with torch: 28 s against 14 s) and changes
        # no import; without it, code behind a library's NoReturn call counts as reachable.
        "useLibraryCodeForTypes": False,
        "enableTypeIgnoreComments": False,
        MISSING: "error",
        MISSING_SOURCE: "error",
    }
    return json.dumps(settings, indent=4)


def blank_suppressions(source: bytes) -> bytes:
    """The source without comments that silence pyright; strings and line numbers stay.

    What cannot be tokenized comes back as it was.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        # Not str.splitlines: it also splits at form feeds and at U+2028, where Python does not.
        lines = list(io.StringIO(source.decode(encoding), newline=""))
        comments = [token for token in _tokens(lines) if token.type == tokenize.COMMENT]
    # TokenError and IndentationError are SyntaxErrors only from Python 3.12 on; wrong encodings are the rest.
    except (tokenize.TokenError, SyntaxError, UnicodeError, LookupError):
        return source
    blanked = False
    for token in comments:
        if _SUPPRESSION.search(token.string):
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = f"{line[:column]}#{line[column + len(token.string) :]}"
            blanked = True
    return "".join(lines).encode(encoding) if blanked else source


def renamed(source: bytes, names: Collection[str], prefix: str) -> bytes:
    """The source with some top-level names that it imports absolutely put behind a prefix, in import statements only.

    What cannot be parsed comes back as it was.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return source
    # Positions in a syntax tree are lines, and bytes of UTF-8 in them.
    lines = [line.encode() for line in io.StringIO(text, newline="")]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    content = b"".join(lines)
    for position in sorted((starts[row - 1] + column for row, column in _imports(tree, names)), reverse=True):
        keyword = _FROM.match(content, position)
        start = keyword.end() if keyword else position
        content = content[:start] + prefix.encode() + content[start:]
    return content.decode().encode(encoding)


def _imports(tree: ast.AST, names: Collection[str]) -> list[tuple[int, int]]:
    """Where some top-level names are imported: of `import …` the name, of `from …` the statement."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases = [alias for alias in node.names if alias.name.partition(".")[0] in names]
            found += [(alias.lineno, alias.col_offset) for alias in aliases]
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] in names:
            found.append((node.lineno, node.col_offset))
    return found


def parse_report(
    output: str, exit_code: int, *, folder: str, paths: Mapping[str, str] | None = None, prefix: str = ""
) -> PyrightReport:
    """Read what `pyright --outputjson` printed.

    Args:
        output: stdout and stderr together.
        exit_code: pyright's.
        folder: absolute path of the analysed folder.
        paths: path under which pyright got a file → the file's own path.
        prefix: what some names were put behind; it is taken away again.

    Raises:
        PyrightError: it failed, or its output is not what this version prints.
    """
    if exit_code not in _EXIT_CODES:
        raise PyrightError(f"pyright exited with code {exit_code}: {_excerpt(output)}")
    start = output.find('{\n    "version"')
    if start < 0:
        raise PyrightError(f"pyright printed no JSON: {_excerpt(output)}")
    try:
        answer, _ = json.JSONDecoder().raw_decode(output, start)
        return PyrightReport(
            version=str(answer["version"]),
            files=int(answer["summary"]["filesAnalyzed"]),
            diagnostics=tuple(_diagnostics(answer["generalDiagnostics"], folder, paths or {}, prefix)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PyrightError(f"pyright's JSON is not understood ({error!r}): {_excerpt(output[start:])}") from error


def heap_exhausted(output: str) -> bool:
    """Whether node printed that its memory limit was reached (node 24; it aborts then, with signal 6)."""
    return "JavaScript heap out of memory" in output


def _diagnostics(
    items: Sequence[dict[str, object]], folder: str, paths: Mapping[str, str], prefix: str
) -> list[Diagnostic]:
    found = []
    for item in items:
        rule = str(item.get("rule", ""))
        if rule not in (MISSING, MISSING_SOURCE):
            # Syntax errors have no rule and are reported whatever the configuration says.
            continue
        message = str(item["message"]).replace(prefix, "")
        match = _MESSAGE.match(message)
        if match is None:
            raise ValueError(f"a message of {rule} names no import: {message!r}")
        path = str(item["file"]).removeprefix(f"{folder}/")
        found.append(
            Diagnostic(
                path=paths.get(path, path),
                line=_line(item["range"]),
                module=match.group(1),
                rule=rule,
                message=message,
            )
        )
    return found


def _line(span: object) -> int:
    if not isinstance(span, dict):
        raise TypeError(f"a range is no object: {span!r}")
    return int(span["start"]["line"]) + 1


def _tokens(lines: list[str]) -> list[tokenize.TokenInfo]:
    iterator = iter(lines)
    return list(tokenize.generate_tokens(lambda: next(iterator, "")))


def _excerpt(text: str) -> str:
    return " ".join(text.split())[:300] or "(nothing)"
