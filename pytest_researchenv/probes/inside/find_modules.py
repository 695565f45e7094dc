"""Ask this interpreter where it would find some top-level modules, without importing them.

Runs in a throw-away container by the interpreter that is judged: standard library only, Python 3.8 and newer.

    python find_modules.py REQUEST.json

The request holds `nonce`, `names`, `repository` (its folder) and `roots` (folders that are on the path when the
repository is run from its own folder; they are searched last). The answer is one line: the nonce, a space, and a JSON
object.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES, FileFinder, ModuleSpec, all_suffixes
from importlib.metadata import Distribution, distributions
from pkgutil import get_importer, iter_modules
from urllib.parse import unquote, urlsplit


#: Files of one package that are looked at.
_MOST = 1000


def main(request_path: str) -> None:
    """Print the answer to the request in a file."""
    with open(request_path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be one more import to shadow
        request = json.load(file)
    # The folder of this script must not satisfy an import of "find_modules".
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - likewise
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100 - likewise
    sys.path.extend(root for root in request["roots"] if root not in sys.path)
    owners, editable = _installed(set(request["names"]))
    found = {name: _find(name, os.path.realpath(request["repository"])) for name in request["names"]}
    answer = {
        "version": sys.version.split()[0],
        "editable": editable,
        "modules": {name: {**module, "owner": owners.get(name, "")} for name, module in found.items() if module},
    }
    print(f"\n{request['nonce']} {json.dumps(answer)}", flush=True)


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
        spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return (finder if isinstance(finder, type) else type(finder)).__name__, spec
    return "", None


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
    """Files that an import statement could reach, at most `_MOST`."""
    reachable: list[str] = []
    for folder in folders:
        for parent, children, files in os.walk(folder):
            children[:] = sorted(item for item in children if item.isidentifier())
            reachable.extend(f"{parent}/{item}" for item in sorted(files) if item.endswith(tuple(all_suffixes())))
            if len(reachable) >= _MOST:
                return reachable[:_MOST]
    return reachable


def _installed(names: set[str]) -> tuple[dict[str, str], list[str]]:
    """Which distribution owns which of the modules, and the folders of editable installs."""
    owners: dict[str, str] = {}
    editable: list[str] = []
    for distribution in distributions():
        title = str(distribution.metadata["Name"])
        for name in names.intersection(_top_levels(distribution)):
            owners.setdefault(name, title)
        direct = json.loads(distribution.read_text("direct_url.json") or "{}")
        if direct.get("dir_info", {}).get("editable"):
            editable.append(unquote(urlsplit(direct["url"]).path))
    return owners, editable


def _top_levels(distribution: Distribution) -> set[str]:
    """Top-level modules that a distribution says it installs."""
    declared = distribution.read_text("top_level.txt")
    if declared:
        return set(declared.split())
    return {str(file).split("/", 1)[0].split(".", 1)[0] for file in distribution.files or ()}


if __name__ == "__main__":
    main(sys.argv[1])
