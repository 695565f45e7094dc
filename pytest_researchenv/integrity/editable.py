"""Modules that builders of editable installs write: of each, all but some literals is known.

They run at every start, lie in no wheel that anybody publishes, and their RECORD is root's to write. So they are known
by their text: those of setuptools 64 to 84.2, editables (hatchling, PDM, Flit) 0.3 to 0.6, scikit-build-core 0.3 to 1.1
and meson-python 0.13 to 0.22. A text of no known version is what a later one writes, or what somebody edited. It is
left alone where it is made of the words of the known ones of setuptools, and of few more: without it an honest install
would not be found. Those of scikit-build-core and meson-python run build tools, and change with each version:
one that is not known could do anything, and proves nothing against anybody.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from pytest_researchenv._parsing import parsed, written


__all__ = ["Literals", "generated_doubt", "is_generated", "is_redirect", "literals"]

#: What their modules are called, but for those of editables before 0.4, which have an underscore before their project.
_TELLING = re.compile(r"__editable___\w+_finder|_editable_impl_\w+")
_REDIRECT = re.compile(r"_editable_skbc_\w+|_\w+_editable(?:_loader)?")

#: SHA-256 of the finders of setuptools, without their literals.
_FINDERS = frozenset(
    (
        "dcefd64aa76eeadfaf15dbac0e98abb0f977ad0f672ff762fd59b1ccb0ff6727",
        "322d1c8c546fc971072bf348ac77376dc485c490869f48596947d3b60fe30fd1",
        "c1c59c1e87be8e0b38ea9900cb79792cdab4020b8ca2c805eb22c8e39717a2d6",
        "8fb572df2c91f9ff4ad3757ecb5914009b065c576ac05859e6f4a7a8d64334f9",
        "9a385bb6cfc96340c52c620b5f056e7d08dc53f3652fb5d80b5efe04113c2d49",
        "09216f970326c5b6b9f3ca37cdd371d94753b1cdadad524102397b140ca91604",
        "b8f55f799fe65f57cd5d080d5f9998db3043582c2a27907479daa91e4d2edc72",
        "ae6aed08b075fe7f2cbc4d1cd2817f7e08e7deffc0a93243d002d81aa78d4e53",
    )
)
#: SHA-256 of what scikit-build-core and meson-python write before the call that has their literals.
_REDIRECTS = frozenset(
    (
        "9d2f4a3e43193acd46640943d4129f74943701a7b8f8d5724457fb20c1138c76",
        "ab3339d1a7f0a10c568e0abeb97164f2b15cc5aadabc3bcd5999eafb1caa20b3",
        "3aba0356c3d29dee3bbf1817de7b435b9267386896e12429c2a18dde7cd73ecb",
        "488d5982ee22b6300d02a588226a86de9076fdecddbd379cdee469201a06bc22",
        "89122095a00a98b9a7c5db2f841f7fb44e19eef2644a6ee651139f53ad2ae9f0",
        "b34969d0313f6bf66f09116e99f51e915dfaeeac9dcf0e645c2e60d772146604",
        "39c7c1279411faddbb30bc1028515ae21d7b51cf54bafa349ecd1955b4d8a6a6",
        "88bc7e4acdb9583c350115e12619a902e0fa9f76e75d99adc66490a06ed1a374",
        "a30f1e0a455c1be4b54e88e4018c3ce9432a983ebc57dae307787696b6538256",
        "bce93cf3f3a6d6688e4e5d8f8c40c36bd7df420ed9ab9ff992a7a860f4750fd2",
        "54d59a196d79b37923f5111c8a8780b04cc1624980e1ebb08fc4864fb097f455",
        "dc8c9beeddb7c63f19d7567c7b4cc22e4866bfd1fbc0ff96183094f1b504fbd8",
        "ac5bda04856a389d0b713d25d753d52dd4abc752e783ddf611dccc4150418a5e",
        "1dac22cc9aff2a34ee3a36c3e780f446b826ceca9f5c840c1cf7aa036a5b10d9",
        "d2a0fbf908fb1872a2545782b4e0f2b662617dc9162f3f57197661204c4a29db",
        "9077f16d6af9d729e4266825df7454a84a7040a3dfff929ca89f5e04a2add19a",
        "e0dce535aafc92275cc95d109abd3c2a4bc2bd17ccf7094721fcdf949fa623f0",
        "e5a663ca1e6e7e68f0947407a09a02bb0892a570a9c7d10a8e772ef5fe96cf7f",
        "c3b7e8e976ba45be387c5a5f4e839b52a7c2308cffd997805c613e1ba4209dae",
        "0cb25e4fe9aa1e8362d2a2590fa2ac8d3695906b3ed4c29dc4232551438cae55",
        "5ea305f153e8af2fe3934a2718ef213b708ff8e18dcee0d3c26251a3e2eccd0f",
        "e27774947151c1281fea3c9f5e99c183f4f302f36d9faab5c65a0e2798dbef2f",
        "84b62f6da3cabd458302ff633c96dabdf5b876ad293caf555afeafd62e763773",
        "3d1a8726bae417375bd0dedfaab170ac02080b0f96de7f9fbcb8aca72a44fc27",
    )
)

#: The literals of setuptools.
_LITERAL = re.compile(
    r"^(?P<before>MAPPING(?:: dict\[str, str\])? = |NAMESPACES(?:: dict\[str, list\[str\]\])? = |PATH_PLACEHOLDER = )"
    r"(?P<value>.*?)(?P<after>(?: \+ \"\.__path_hook__\")?)$",
    re.MULTILINE,
)
#: The call with the literals of scikit-build-core and meson-python, at the end, and what is after the literals: where
#: that is not there, a pattern would look through all of the text from each place where it might begin.
_CALLS = (
    (
        re.compile(
            r"\ndef init\(\):\n    finder = MesonpyMetaFinder\((?P<value>.*)\)"
            r"\n    sys\.meta_path\.insert\(0, finder\)\n    sys\.path_hooks\.insert\(0, finder\._path_hook\)\s*",
            re.DOTALL,
        ),
        ")\n    sys.meta_path.insert(0, finder)\n    sys.path_hooks.insert(0, finder._path_hook)",
    ),
    (re.compile(r"\n(?:def entrypoint\(\) -> None:\n    )?install(?:_inplace)?\((?P<value>.*)\)\s*", re.DOTALL), ")"),
)
_MAPS = re.compile(r"F\.map_module\((?P<value>.*)\)")
_EDITABLES = ["from editables.redirector import RedirectingFinder as F", "F.install()"]

#: Modules that something at start tries to import, whether or not they are there.
_TRIED = frozenset({"apport_python_hook", "sitecustomize", "usercustomize"})
_MOST_LETTERS = 1024 * 1024
#: What a later finder may import, and what of it.
_IMPORTED = {
    "__future__": frozenset({"annotations"}),
    "importlib.machinery": frozenset({"ModuleSpec", "PathFinder", "all_suffixes"}),
    "importlib.util": frozenset({"spec_from_file_location"}),
    "itertools": frozenset({"chain"}),
    "pathlib": frozenset({"Path"}),
}
_MAPS_OF_MODULES = ("MAPPING", "NAMESPACES")
_LITERALS = (ast.Constant, ast.Dict, ast.List, ast.expr_context)
#: Builtins that it may use, and attributes of anything; those of its own that begin with an underscore apart.
_BUILTINS = frozenset(
    (
        *("ImportError", "None", "any", "all", "bool", "classmethod", "dict", "enumerate", "filter", "isinstance"),
        *(
            "len",
            "list",
            "map",
            "next",
            "property",
            "reversed",
            "set",
            "sorted",
            "staticmethod",
            "str",
            "tuple",
            "type",
        ),
    )
)
_ATTRIBUTES = frozenset(
    (
        *("append", "endswith", "exists", "find_module", "find_spec", "get", "is_dir", "is_file", "items", "join"),
        *(
            "joinpath",
            "keys",
            "meta_path",
            "name",
            "parent",
            "parts",
            "partition",
            "path",
            "path_hooks",
            "removeprefix",
        ),
        *("removesuffix", "replace", "rpartition", "split", "startswith", "stem", "strip"),
        "submodule_search_locations",
        *("suffix", "values", "with_name", "with_suffix"),
    )
)


@dataclass(frozen=True, slots=True)
class Literals:
    """What a module of known text says by itself.

    Attributes:
        builder: what wrote it.
        values: its literals; of editables a name and a path each.
    """

    builder: str
    values: list[object]

    @property
    def first(self) -> bool:
        """Whether it has its finder asked before all others."""
        return self.builder == "scikit-build-core or meson-python"


def is_generated(name: str) -> bool:
    """Whether a module has a name that builders of editable installs, and hardly anybody else, give to theirs."""
    return _TELLING.fullmatch(name) is not None or is_redirect(name)


def is_redirect(name: str) -> bool:
    """Whether it is one that scikit-build-core and meson-python give."""
    return _REDIRECT.fullmatch(name) is not None


def generated_doubt(source: bytes, is_anothers: Callable[[str], bool] = lambda _: False) -> str | None:
    """Why a module is none that a known version of a builder writes; empty when it is, None when it may be later's.

    Args:
        source: all of it.
        is_anothers: whether a top-level module is another's. What is asked before all other finders may not have such.
    """
    try:
        text = source.decode()
    except ValueError:
        return "it is no text"
    if len(text) > _MOST_LETTERS:
        return f"it has {len(text)} letters"
    found = literals(text)
    if found is None:
        if tried := next((name for name in sorted(_TRIED) if name in text), ""):
            return f"it names {tried}"
        tree = parsed(text)
        return _strange_use(tree) or None if tree else "it is no Python source"
    values, first = found.values, found.first
    if not first and any(isinstance(value, str) and "/" in value for value in values):
        return "it puts a folder on the path"
    names = {name.partition(".")[0] for name in _keys(values)}
    taken = min((name for name in names if name in _TRIED or (first and is_anothers(name))), default="")
    return f"it leads to a {taken} of its own" if taken else ""


def _strange_use(tree: ast.Module) -> str:
    """What a later finder uses that none of the known ones needs; empty when nothing."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("_")}
    maps = {name: node for node in reversed(tree.body) if (name := _mapped(node))}
    nodes = [node for part in tree.body if part not in maps.values() for node in ast.walk(part)]
    words = (_strange_word(node, own) or _strange_deed(node) for node in nodes)
    return next((f"it uses {word}" for word in words if word), "")


def _mapped(node: ast.stmt) -> str:
    """What a statement that says in literals where modules are is called: others look there. Empty for any other."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            literal = value is not None and all(isinstance(part, _LITERALS) for part in ast.walk(value))
            return name if literal and name in _MAPS_OF_MODULES else ""
    return ""


def _strange_word(node: ast.AST, own: Collection[str]) -> str:
    """A name that none of the known ones has; its own, with an underscore, are any."""
    match node:
        case ast.Import(names=names):
            return next((name.name for name in names if name.name != "sys" or name.asname), "")
        case ast.ImportFrom(module=module, names=names):
            allowed = _IMPORTED.get(str(module), frozenset())
            return next((f"{module}.{name.name}" for name in names if name.name not in allowed), "")
        case ast.Attribute(attr=name):
            return "" if name in _ATTRIBUTES or name in own else name
        case ast.Name(id=name):
            return name if hasattr(builtins, name) and name not in _BUILTINS else ""
    return ""


def _strange_deed(node: ast.AST) -> str:
    """Something that a later finder would do with known names, and that none of the known ones does."""
    word = ""
    match node:
        # Of a text it takes two arguments; that of a path takes one, and moves the file.
        case ast.Call(func=ast.Attribute(attr="replace"), args=args) if len(args) < 2:  # noqa: PLR2004 - see above
            word = "replace"
        case ast.Call(func=ast.Attribute(attr="append", value=ast.Attribute(attr="path")), args=args):
            word = "" if [written(each) for each in args] == ["PATH_PLACEHOLDER"] else "sys.path"
        case ast.Attribute(ctx=ast.Store(), attr=name):
            word = "" if name == "submodule_search_locations" else name
        case ast.Subscript(ctx=ast.Store()) | ast.AugAssign() | ast.Delete() | ast.Global() | ast.Lambda():
            word = type(node).__name__.lower()
        case ast.Name(id=name, ctx=ast.Store()):
            word = f"another {name}" if name in _MAPS_OF_MODULES else ""
        case ast.Constant(value=str(text)):
            word = "a path" if "/" in text else ""
    return word


def literals(text: str) -> Literals | None:
    """The literals of a module of known text; None when it is not known."""
    try:
        if _digest(_LITERAL.sub(r"\g<before>\g<after>", text)) in _FINDERS:
            return Literals("setuptools", [ast.literal_eval(match["value"]) for match in _LITERAL.finditer(text)])
        bare = text.rstrip()
        for call in filter(None, (pattern.search(text) for pattern, end in _CALLS if bare.endswith(end))):
            if call.end() == len(text) and _digest(text[: call.start()]) in _REDIRECTS:
                return Literals("scikit-build-core or meson-python", ast.literal_eval(f"[{call['value']}]"))
        lines = text.rstrip("\n").split("\n")
        maps = [_MAPS.fullmatch(line) for line in lines[2:]]
        if lines[:2] == _EDITABLES and all(maps):
            # A name and a path each.
            return Literals("editables", [ast.literal_eval(f"[{match['value']}]") for match in maps if match])
    # What is no literal, and what is made to confuse a parser.
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()


def _keys(values: Iterable[object]) -> Iterator[str]:
    """The names of modules among literals: a finder has them as keys or in a set, or before their path."""
    for value in values:
        if isinstance(value, dict | set | frozenset):
            yield from (key for key in value if isinstance(key, str))
        elif isinstance(value, list):
            yield from value[:1]
