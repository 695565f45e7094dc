"""Whether the code of distributions is what was installed, by their own records."""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import final

from pytest_researchenv._parsing import parsed, written
from pytest_researchenv.integrity.frameworks import Frameworks
from pytest_researchenv.integrity.installed import Distribution, Installed, Style, is_code, is_module, is_program
from pytest_researchenv.integrity.protocol import Entry, Kind
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable


__all__ = ["EMPTY", "SPARE", "change_findings", "is_spare", "listed", "sign_of"]

#: Files that one finding names.
_NAMED = 5
#: Digest of an empty file.
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#: Folders that people delete to save room, and that no program needs.
SPARE = frozenset({"benchmarks", "examples", "test", "testing", "tests"})
#: Folders right in a site folder that badly made wheels bring along: whichever is uninstalled takes them with it.
_STRAY = frozenset({"demo", "demos", "doc", "docs", "example", "scripts", "tools"})
#: What packages that share a namespace each have as its `__init__.py`: the same holds for it, and Python needs none.
_NAMESPACES = (
    "",
    "__path__ = __import__('pkgutil').extend_path(__path__, __name__)",
    '__path__ = __import__("pkgutil").extend_path(__path__, __name__)',
    "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)",
    "from pkgutil import extend_path\n\n__path__ = extend_path(__path__, __name__)",
    "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)",
    "__import__('pkg_resources').declare_namespace(__name__)",
    '__import__("pkg_resources").declare_namespace(__name__)',
    "import pkg_resources\npkg_resources.declare_namespace(__name__)",
)
_SHARED = frozenset(
    hashlib.sha256(f"{text}{end}".encode()).hexdigest() for text in _NAMESPACES for end in ("", "\n", "\r\n")
)
#: What parsers (PLY) write beside themselves when they are used, and what such a table may call.
_TABLE = re.compile(r".*/_?(?:lex|yacc|parse)tab\.py", re.DOTALL)
_CALLED = frozenset({"set", "zip", "_lr_action_items.items", "_lr_goto_items.items"})
_OF_TABLE = (
    *(
        ast.Module,
        ast.Expr,
        ast.Constant,
        ast.Name,
        ast.expr_context,
        ast.Assign,
        ast.Delete,
        ast.For,
        ast.If,
        ast.Pass,
    ),
    *(ast.Compare, ast.cmpop, ast.UnaryOp, ast.unaryop, ast.Subscript, ast.Dict, ast.List, ast.Set, ast.Tuple),
)
#: What is compiled when it is used first, from sources that lie beside it or in a folder for that.
_COMPILED = re.compile(r".*/_?generated/[^/]*", re.DOTALL)
_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cxx", ".f", ".f90", ".pyx")
#: What manuals say how to set links to.
_LIBRARY = re.compile(r".*/lib[^/]*\.so[.0-9]*", re.DOTALL)
_INTERPRETER = re.compile(r"#! ?(\S+/)python[0-9.]*")
_THROUGH_SHELL = re.compile(r"#!/bin/sh\n'''exec' \"?(\S+/)python[0-9.]*\"? \"\$0\" \"\$@\"\n' '''\n")

#: What the end of a script that installers write is made of.
_OF_MAIN = (
    *(ast.If, ast.Assign, ast.Expr, ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant),
    *(ast.Compare, ast.cmpop, ast.UnaryOp, ast.unaryop, ast.expr_context),
)


def change_findings(
    installed: Installed, frameworks: Frameworks, prefix: str
) -> Iterator[tuple[Distribution, Finding]]:
    """Accuse what differs from its record, and what no record lists.

    Args:
        installed: what is installed.
        frameworks: those that the repository is judged by.
        prefix: `sys.prefix` of the interpreter.

    Yields:
        Whose code it is, and the finding.

    Raises:
        SandboxError: the engine refuses to read.
    """
    known = _Digests(installed, frameworks)
    for one in installed.distributions:
        sign = sign_of(one, frameworks)
        differing = sorted(_differing(one, installed, frameworks, prefix, known))
        if differing:
            yield one, Finding(sign, str(one), "the files that were installed", listed("other files", differing))
        if missing := sorted(_missing(one, installed, every=sign is Sign.FRAMEWORK)):
            said = listed("files that are not there", missing)
            yield one, Finding(sign, str(one), "the files that were installed", said)
    homes = _homes(installed)
    added: dict[Distribution, list[str]] = {}
    for path, one in _added(installed, homes, frameworks):
        added.setdefault(one, []).append(path)
    for one, paths in added.items():
        said = listed("files that no record lists", sorted(paths))
        yield one, Finding(sign_of(one, frameworks), str(one), "no other code than was installed", said)
    yield from _unchecked(installed, homes, frameworks)


def sign_of(one: Distribution, frameworks: Frameworks) -> Sign:
    """What a changed distribution is a sign of."""
    return Sign.FRAMEWORK if frameworks.have(one) else Sign.DISTRIBUTION


def is_spare(name: str, digest: str) -> bool:
    """Whether nobody misses a file of a distribution.

    Args:
        name: its path in the distribution's site folder.
        digest: SHA-256 in hexadecimal of what it should be.
    """
    parts = name.split("/")
    return digest in _SHARED or parts[0] in _STRAY or not SPARE.isdisjoint(parts)


def listed(what: str, paths: list[str]) -> str:
    """Name some of many paths."""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{what}: {', '.join(map(printable, paths[:_NAMED]))}{more}"


# --- what differs -----------------------------------------------------------------------------------------


@final
class _Digests:
    """What distributions say of files; worked out once for each, since any number of them may list the same."""

    def __init__(self, installed: Installed, frameworks: Frameworks) -> None:
        self._installed = installed
        self._frameworks = frameworks
        self._families: dict[Distribution, bool] = {}
        self._known: dict[tuple[str, bool], frozenset[str]] = {}

    def of(self, path: str, *, family: bool) -> frozenset[str]:
        """The digests that distributions list a file with; of a framework's, what its family says."""
        if (path, family) not in self._known:
            owners = (one for one in self._installed.owners(path) if not family or self._is_family(one))
            self._known[path, family] = frozenset(one.files[path] for one in owners) - {""}
        return self._known[path, family]

    def _is_family(self, one: Distribution) -> bool:
        if one not in self._families:
            self._families[one] = self._frameworks.have(one)
        return self._families[one]


def _differing(
    one: Distribution, installed: Installed, frameworks: Frameworks, prefix: str, known: _Digests
) -> Iterator[str]:
    family = frameworks.have(one)
    for path, digest in one.files.items():
        if not _is_looked_at(one, path, installed, family=family):
            continue
        allowed = known.of(path, family=family)
        if not allowed:
            # An installer keeps the rows of a wheel's own RECORD, and a badly made one lacks some; no framework's does.
            if digest == "" and family and one.style is Style.WHEEL and is_module(path) and installed.at(path):
                yield path
            continue
        entry = installed.at(path)
        if entry is None or (entry.kind is Kind.FILE and (not entry.sha256 or entry.sha256 in allowed)):
            continue
        if not is_program(path) or not _is_entry_script(entry, prefix, _commanded(one, installed)):
            yield path


def _is_looked_at(one: Distribution, path: str, installed: Installed, *, family: bool) -> bool:
    """Whether a file that a distribution lists is compared: code that the base image does not have as it is."""
    if any(path.startswith(f"{site}/") for site in installed.sites):
        program = family and is_program(path)
        return (is_code(path) or program) and installed.is_touched(path)
    if one.style is Style.CONDA:
        return family and is_code(path)
    return is_program(path) and f"{one.path}/RECORD" in installed.touched


def _commanded(one: Distribution, installed: Installed) -> frozenset[str]:
    """The modules of a distribution's commands, by entry points that are as it lists them."""
    path = f"{one.path}/entry_points.txt"
    entry = installed.at(path)
    if entry is None or entry.sha256 != one.files.get(path):
        return frozenset()
    return frozenset().union(*(one.groups.get(name, ()) for name in ("console_scripts", "gui_scripts")))


def _is_entry_script(entry: Entry, prefix: str, modules: frozenset[str]) -> bool:
    """Whether a command does what its entry point says: only where its interpreter is was rewritten.

    Environments that are moved have all of theirs rewritten.
    """
    text = entry.text
    start = _THROUGH_SHELL.match(text) or _INTERPRETER.match(text)
    if start is None or start[1] != f"{prefix}/bin/":
        return False
    tree = parsed(text)
    allowed = {"re", "sys", *modules}
    for node in tree.body if tree else [ast.Pass()]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            if not allowed.issuperset(map(str, names)):
                return False
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) and not _is_main(node):
            return False
    return True


def _is_main(node: ast.stmt) -> bool:
    """Whether a statement is the one that installers end their scripts with: it strips a suffix and exits."""
    if not isinstance(node, ast.If) or not all(isinstance(part, _OF_MAIN) for part in ast.walk(node)):
        return False
    assigned = (part.targets for part in ast.walk(node) if isinstance(part, ast.Assign))
    if any(written(target) != "sys.argv[0]" for targets in assigned for target in targets):
        return False
    called = [last for call in ast.walk(node) if isinstance(call, ast.Call) and (last := written(call.func))]
    known = {"re.sub", "sys.exit", "sys.argv[0].endswith", "sys.argv[0].removesuffix"}
    names = [name for name in called if name not in known]
    return len(names) <= 1 and "sys.exit" in called and all(name.replace(".", "").isidentifier() for name in names)


def _missing(one: Distribution, installed: Installed, *, every: bool) -> Iterator[str]:
    """Code that a distribution lists and that is not there; nothing of one of which nothing is left.

    Args:
        one: the distribution.
        installed: what is installed.
        every: whether libraries count, too. Where a source is not there, others of its package do something else.
    """
    if not any(is_code(path) and path in installed.code for path in one.files):
        return
    record = f"{one.path}/RECORD" if one.style is Style.WHEEL else one.path
    for path, digest in one.files.items():
        counts = is_code(path) if every else path.endswith(".py") and one.style is Style.WHEEL
        site = next((site for site in installed.sites if path.startswith(f"{site}/")), "")
        if not counts or not digest or not site or is_spare(path.removeprefix(f"{site}/"), digest):
            continue
        if (path in installed.touched or record in installed.touched) and installed.at(path) is None:
            yield path


# --- what was added ---------------------------------------------------------------------------------------


def _homes(installed: Installed) -> dict[str, Distribution]:
    """Folder of a site folder → a distribution that has code in it."""
    homes: dict[str, Distribution] = {}
    for one in installed.distributions:
        for path in filter(is_code, one.files):
            site = next((site for site in installed.sites if path.startswith(f"{site}/")), "")
            folder = posixpath.dirname(path)
            while site and len(folder) > len(site) and folder not in homes:
                homes[folder] = one
                folder = posixpath.dirname(folder)
    return homes


def _added(
    installed: Installed, homes: Mapping[str, Distribution], frameworks: Frameworks
) -> Iterator[tuple[str, Distribution]]:
    claimed = {(one.site, name) for one in installed.distributions for name in one.modules}
    for path in installed.code:
        if path not in installed.touched or installed.owners(path) or not is_code(path):
            continue
        one = _home(path, homes)
        if one is None or _is_claimed(path, claimed, installed.sites) or installed.egg(path):
            continue
        if not frameworks.have(one) and not _matters(path, installed):
            continue
        if _LIBRARY.fullmatch(path) and installed.leads_to_known(path):
            continue
        yield path, one


def _home(path: str, homes: Mapping[str, Distribution]) -> Distribution | None:
    """The distribution whose folder a file is in."""
    folder = posixpath.dirname(path)
    while folder != "/":
        if folder in homes:
            return homes[folder]
        folder = posixpath.dirname(folder)
    return None


def _is_claimed(path: str, claimed: Iterable[tuple[str, str]], sites: tuple[str, ...]) -> bool:
    """Whether a distribution that lists no files names the module that a file is in."""
    for site in sites:
        if path.startswith(f"{site}/"):
            return (site, path.removeprefix(f"{site}/").partition("/")[0].partition(".")[0]) in claimed
    return False


def _matters(path: str, installed: Installed) -> bool:
    """Whether code in the folder of a distribution that is no framework would be used without its authors' doing."""
    if path.endswith(".py"):
        return _TABLE.fullmatch(path) is None or not _is_table(installed.content(path))
    if path.endswith(".pyc"):
        return path.removesuffix("c") not in installed.code
    folder, name = posixpath.split(path)
    stem = name.partition(".")[0]
    if any(installed.owners(f"{folder}/{stem}{ending}") for ending in (".py", "/__init__.py")):
        return True
    own = stem.startswith("lib") and stem.removeprefix("lib").startswith(posixpath.basename(folder))
    compiled = any(installed.owners(f"{folder}/{stem}{ending}") for ending in _SOURCES)
    return not (own or compiled or _COMPILED.fullmatch(path))


def _is_table(entry: Entry | None) -> bool:
    """Whether a source holds data, and does nothing but to sort it."""
    tree = parsed((entry.content if entry else None) or b"import")
    return tree is not None and all(map(_is_of_table, ast.walk(tree)))


def _is_of_table(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return written(node.func) in _CALLED and not node.keywords
    if isinstance(node, ast.Attribute):
        return written(node) in _CALLED
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        # What is called must be what it is called.
        return node.id.startswith("_") and not node.id.startswith("__")
    return isinstance(node, _OF_TABLE)


# --- bytecode ---------------------------------------------------------------------------------------------


def _unchecked(
    installed: Installed, homes: Mapping[str, Distribution], frameworks: Frameworks
) -> Iterator[tuple[Distribution, Finding]]:
    """Accuse bytecode that says that nobody should compare it with its source. No installer makes such."""
    found: dict[Distribution, list[str]] = {}
    for path in installed.unchecked:
        one = _home(posixpath.dirname(path), homes)
        recorded: Callable[[Distribution], bool] = lambda owner: bool(owner.files[path])  # noqa: E731,B023 - used here
        if path in installed.touched and one is not None and not any(map(recorded, installed.owners(path))):
            found.setdefault(one, []).append(path)
    for one, paths in found.items():
        said = listed("bytecode that is never compared with its source", sorted(paths))
        yield one, Finding(sign_of(one, frameworks), str(one), "the code of its sources runs", said)
