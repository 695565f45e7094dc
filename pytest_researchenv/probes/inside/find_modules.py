"""Ask this interpreter where it would find some top-level modules, without importing them.

Runs in a throw-away container by the interpreter that is judged: standard library only, Python 3.8 and newer.

    python find_modules.py REQUEST.json

The request holds `nonce`, `names`, `repository` (its folder) and `roots` (folders that are on the path when the
repository is run from its own folder; they are searched last). The answer is one line: the nonce, a space, and a JSON
object.

Finders and installed distributions are other people's code and files. What cannot be asked or read is passed over and
named in the answer, as Python itself works on beside a broken distribution.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES, FileFinder, ModuleSpec, all_suffixes
from importlib.metadata import Distribution, DistributionFinder
from pkgutil import get_importer, iter_modules
from typing import TypeVar
from urllib.parse import unquote, urlsplit


#: Files of one package that are looked at.
_MOST = 1000
#: What was passed over and is named.
_MOST_NAMED = 20

#: What was passed over → what it raised first.
_passed_over: dict[str, str] = {}

_T = TypeVar("_T")


def main(request_path: str) -> None:
    """Print the answer to the request in a file."""
    with open(request_path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be one more import to shadow
        request = json.load(file)
    # The folder of this script must not satisfy an import of "find_modules".
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - likewise
    # Python passes over entries that are no strings, too.
    entries = [entry for entry in sys.path if isinstance(entry, str)]
    sys.path[:] = [entry for entry in entries if os.path.abspath(entry) != here]  # noqa: PTH100 - likewise
    sys.path.extend(root for root in request["roots"] if root not in sys.path)
    owners, editable = _installed(set(request["names"]))
    repository = os.path.realpath(request["repository"])
    found = {name: _guarded(f"module {name}", None, partial(_find, name, repository)) for name in request["names"]}
    answer = {
        "version": sys.version.split()[0],
        "editable": editable,
        "modules": {name: {**module, "owner": owners.get(name, "")} for name, module in found.items() if module},
        "passed_over": [f"{what}: {raised}" for what, raised in _passed_over.items()],
    }
    print(f"\n{request['nonce']} {json.dumps(_text(answer))}", flush=True)


def _guarded(what: str, default: _T, call: Callable[[], _T]) -> _T:
    """What a call gives; when it raises, that is named and the default is given."""
    try:
        return call()
    # SystemExit is no Exception, and a finder may raise it like anything else.
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one of them must not cost all the others
        if len(_passed_over) < _MOST_NAMED:
            _passed_over.setdefault(what, type(error).__name__)
        return default


def _text(value: object) -> object:
    """The value with bytes of paths that are no text as escapes: halves of characters are no JSON."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return {_text(key): _text(item) for key, item in value.items()}
    return value


def _find(name: str, repository: str) -> dict[str, object] | None:
    """What the first finder that knows the module says of it; packages are not imported for that."""
    finder, spec = _spec(name, None)
    files = None if spec is None else _files(spec, repository)
    if spec is None or files is None:
        return None
    places = [str(place) for place in spec.submodule_search_locations or ()]
    return {
        "finder": finder,
        "origin": str(spec.origin or (places[0] if places else "")),
        "files": files,
        "real": [os.path.realpath(file) for file in files],
        "native": any(file.endswith(tuple(EXTENSION_SUFFIXES)) for file in files),
    }


def _spec(name: str, path: list[str] | None) -> tuple[str, ModuleSpec | None]:
    """The first finder that knows the module, by its class, and its answer."""
    for finder in sys.meta_path:
        title = _title(finder)
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else _guarded(f"finder {title}", None, partial(find, name, path))
        if spec is not None:
            return title, spec
    return "", None


def _title(finder: object) -> str:
    return (finder if isinstance(finder, type) else type(finder)).__name__


def _files(spec: ModuleSpec, repository: str) -> list[str] | None:
    """Files that make up a module, as far as they matter; None for a namespace without a single module in it.

    Any folder is a namespace package to Python: a folder of data that has a package's name is no package.
    """
    places = [str(place) for place in spec.submodule_search_locations or ()]
    if spec.origin and spec.has_location:
        inside = [place for place in places if os.path.realpath(place).startswith(f"{repository}/")]
        return [spec.origin, *_modules_below(inside)]
    if spec.loader is not None and not places:
        return []  # built in, frozen, or from a finder that keeps no files
    files = _modules_below(places)
    hooks = [hook for hook in map(get_importer, places) if type(hook) not in (type(None), FileFinder)]
    return files or (_behind(hooks, spec.name, places) if hooks else None)


def _behind(hooks: Iterable[object], name: str, places: list[str]) -> list[str]:
    """Files of a namespace in which only import hooks can look: an archive, or parts of an editable install.

    setuptools' hooks list nothing; they keep what they know in `MAPPING`, dotted name to folder (setuptools 64 to 80).
    """
    known = [getattr(sys.modules.get(hook.__module__), "MAPPING", {}) for hook in hooks]
    mapped = {child for mapping in known for child in mapping if child.startswith(f"{name}.")}
    children = mapped.union(f"{name}.{module.name}" for module in iter_modules(places))
    specs = [_spec(child, places)[1] for child in sorted(children)[:_MOST]]
    return [str(spec.origin) for spec in specs if spec is not None and spec.has_location]


def _modules_below(folders: list[str]) -> list[str]:
    """Files that an import statement could reach, at most `_MOST`; a name that is no identifier is none of them."""
    reachable: list[str] = []
    for folder in folders:
        for parent, children, files in os.walk(folder):
            children[:] = sorted(item for item in children if item.isidentifier())
            modules = (item for item in sorted(files) if item.endswith(tuple(all_suffixes())))
            reachable.extend(f"{parent}/{item}" for item in modules if item.partition(".")[0].isidentifier())
            if len(reachable) >= _MOST:
                return reachable[:_MOST]
    return reachable


def _installed(names: set[str]) -> tuple[dict[str, str], list[str]]:
    """Which distribution owns which of the modules, and the folders of editable installs."""
    owners: dict[str, str] = {}
    editable: list[str] = []
    for distribution in _distributions():
        what = _guarded("a distribution", "distribution ?", partial(_place, distribution))
        nothing: set[str] = set()
        tops = _guarded(what, nothing, partial(_top_levels, distribution))
        title = _guarded(what, what, partial(_named, distribution))
        for name in names.intersection(tops):
            owners.setdefault(name, title)
        editable.extend(_guarded(what, [], partial(_editable, distribution)))
    return owners, editable


def _distributions() -> Iterator[Distribution]:
    """What is installed, as far as each finder lists it before it fails."""
    for finder in sys.meta_path:
        what = f"distributions of {_title(finder)}"
        find = getattr(finder, "find_distributions", None)
        if find is None:
            continue
        nothing: Iterator[Distribution] = iter(())
        found = _guarded(what, nothing, partial(_listed, find))
        while True:
            distribution = _guarded(what, None, partial(next, found, None))
            if distribution is None:
                break
            yield distribution


def _listed(find: Callable[[DistributionFinder.Context], Iterable[Distribution]]) -> Iterator[Distribution]:
    return iter(find(DistributionFinder.Context()))


def _place(distribution: Distribution) -> str:
    # Where it is has no public name.
    return f"distribution {getattr(distribution, '_path', '?')}"


def _named(distribution: Distribution) -> str:
    return str(distribution.metadata["Name"])


def _editable(distribution: Distribution) -> list[str]:
    """The folder of an editable install."""
    direct = json.loads(distribution.read_text("direct_url.json") or "{}")
    return [unquote(urlsplit(direct["url"]).path)] if direct.get("dir_info", {}).get("editable") else []


def _top_levels(distribution: Distribution) -> set[str]:
    """Top-level modules that a distribution says it installs."""
    declared = distribution.read_text("top_level.txt")
    if declared:
        return set(declared.split())
    return {str(file).split("/", 1)[0].split(".", 1)[0] for file in distribution.files or ()}


if __name__ == "__main__":
    main(sys.argv[1])
