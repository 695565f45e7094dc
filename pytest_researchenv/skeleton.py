"""A commented skeleton of a repository's description, from a look at its checkout."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pytest_researchenv._gitrefs import head_commit, latest_commit
from pytest_researchenv._suite_problems import repository_problems
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.inspection import Inspection, inspect_tree
from pytest_researchenv.model import GitSource, PathSource, Repository, Source
from pytest_researchenv.source import fetch


__all__ = ["write_skeleton"]

_LISTED = 8

_ORACLE = """\
# A known-good recipe for {name}, run by bash in the repository's folder as root.{canary}
environment=/opt/venv/{slug}

# uv reads its own variables only, and separates by commas what pip separates by spaces.
if [[ -n "${{PIP_FIND_LINKS:-}}" && -z "${{UV_FIND_LINKS:-}}" ]]; then
    export UV_FIND_LINKS="${{PIP_FIND_LINKS// /,}}"
fi
export UV_NO_CACHE=1

uv venv --python python3 "$environment"
export VIRTUAL_ENV="$environment"
{install}
report "$environment/bin/python" uv "$environment"
"""


def write_skeleton(address: str, suite: Path, *, commit: str = "", cache: Path, canary: str = "") -> Path:
    """Write `repo.toml` and `oracle.sh` for a repository into a new folder of a suite.

    Args:
        address: URL of a Git repository, or path of a folder; a checkout with an `origin` becomes a Git source.
        suite: the suite's folder.
        commit: the commit to pin; empty for the newest of a URL and the checked-out one of a folder.
        cache: folder that keeps fetched trees.
        canary: text that each recipe of the suite holds.

    Returns:
        The new folder.

    Raises:
        ConfigurationError: the folder is there already, or the name cannot be one.
        SourceError: the repository cannot be read.
    """
    source, name = _source(address, commit)
    # It becomes a folder, and a word of the recipe.
    if not re.fullmatch(r"(?:[\w.-]+/)?\w+(?:[.-]+\w+)*", name, re.ASCII):
        raise ConfigurationError(
            f"{name!r} can be no repository's name: use an address that ends in OWNER/NAME, in letters and digits with "
            "single '.', '_' or '-' between"
        )
    for problem in repository_problems(suite / "repo.toml", Repository(name, source)):
        if problem.key == "name":
            raise ConfigurationError(problem.text)
    slug = name.rpartition("/")[2]
    folder = suite / slug.lower()
    if folder.exists():
        raise ConfigurationError(f"{folder} is there already: remove it, or edit what it holds")
    with tempfile.TemporaryDirectory(prefix="researchenv-") as elsewhere:
        # A relative path counts from the new folder, which is not there yet.
        tree = fetch(Repository(name, source, folder=elsewhere), cache=cache)
        seen = inspect_tree(tree.root, tree.files)
    folder.mkdir(parents=True)
    (folder / "repo.toml").write_text("\n".join(_description(name, source, seen)) + "\n", encoding="utf-8")
    recipe = _ORACLE.format(
        name=name, slug=slug.lower(), install=_install(seen), canary=f"\n#\n# {canary}" if canary else ""
    )
    (folder / "oracle.sh").write_text(recipe, encoding="utf-8")
    return folder


def _source(address: str, commit: str) -> tuple[Source, str]:
    path = Path(address).expanduser()
    if path.is_dir():
        origin, head = head_commit(path)
        if origin and (commit or head):
            return _pinned(origin, commit or head), _name(origin)
        if commit:
            raise ConfigurationError(f"{address} has no `origin` from which {commit} could be had: leave --commit out")
        return PathSource(str(path.resolve())), path.resolve().name
    if not re.match(r"[a-z+]+://|[\w.-]+@[\w.-]+:", address):
        raise ConfigurationError(f"{address!r} is neither a folder nor the URL of a Git repository")
    return _pinned(address, commit or latest_commit(address)), _name(address)


def _pinned(url: str, commit: str) -> GitSource:
    # A token is for git's credential helpers, and not for everybody who reads the suite.
    url = re.sub(r"^(https?://)[^/@]*@", r"\1", url)
    try:
        return GitSource(url, commit)
    except ValueError as error:
        raise ConfigurationError(f"{url} cannot be pinned: {error}; give the full hash by --commit") from error


def _name(url: str) -> str:
    parts = [part for part in re.split(r"[/:]", url.removesuffix("/").removesuffix(".git")) if part]
    return "/".join(parts[-2:])


def _description(name: str, source: Source, seen: Inspection) -> Iterator[str]:
    yield f"name = {_quoted(name)}"
    yield 'domain = ""  # the research area'
    if seen.python:
        yield f"python = {_quoted(seen.python)}"
    else:
        yield '# python = ">=3.10"  # nothing is declared: what does the README say?'
    yield f"frameworks = {_list(seen.frameworks)}  # what C2 asks for its devices"
    yield from _hints("native_extensions", seen.compiled, "files that want a compiler were found; name what is built")
    if seen.auxiliary:
        yield f"auxiliary_tooling = {_list(seen.auxiliary)}"
    if not seen.packaged:
        yield "# It has no packaging files. Is it run from its root? Then PYTHONPATH has to name it:"
        yield "# root_on_path = true"
    yield from ("", "[source]", *_source_lines(source, seen))
    if seen.pins:
        yield from ("", "[pins]", *(f"{_quoted(package)} = {_quoted(pin)}" for package, pin in seen.pins.items()))
    yield from (
        "",
        "[imports]",
        f"# C0 counts {seen.imports} distinct imported top-level names.",
        "# [imports.unsatisfiable]",
        '# some_module = "why no environment can or need satisfy it"',
        "",
        "[tiers.C0]",
    )
    yield from _launched(seen)


def _source_lines(source: Source, seen: Inspection) -> Iterator[str]:
    if isinstance(source, GitSource):
        yield f"git = {_quoted(source.git)}"
        yield f"commit = {_quoted(source.commit)}"
        if seen.versions_from_tags:
            yield '# tag = "v1.2.3"  # its version comes from tags: name the nearest one'
        if seen.submodules:
            yield f"# submodules = true  # it has some: {_listed(seen.submodules)}"
        if seen.lfs:
            yield "# Files in Git LFS stay pointers."
    elif isinstance(source, PathSource):
        yield f"path = {_quoted(source.path)}"


def _launched(seen: Inspection) -> Iterator[str]:
    entries = _listed(seen.entries[:_LISTED]) or "none found"
    yield from ("", f"# Scripts that can be run: {entries}")
    yield from _counted("names CUDA without asking for it", seen.hard_cuda)
    yield from _counted("may download from a hub, which a probe cannot", seen.hub)
    argv = _list(["{python}", seen.entries[0] if seen.entries else "run.py"])
    reason = '"its probe is not written yet"'
    yield from ("", "# CPU execution. Replace `pending` by a command (or a probe script) and what must be seen.")
    yield from ("[tiers.C1]", f"pending = {reason}", f"# argv = {argv}", "# timeout_s = 300")
    yield from ("# [tiers.C1.evidence]", '# files = [{ path = "{out}/model.pt", min_bytes = 1000 }]')
    yield from ("", "[tiers.C2]", "", "# Single-GPU execution: the same with {device}.")
    yield from ("[tiers.C3]", f"pending = {reason}", "", "[tiers.C4]")
    if seen.parallel:
        yield f"# It uses {', '.join(seen.parallel)}: collective, placement or independent?"
        yield f"pending = {reason}"
        yield "# [tiers.C4.evidence]"
        yield '# parallel = "collective"'
    else:
        yield "supported = false"
        yield 'skip_reason = "no code for several devices was found"'
    yield from ("", "[tiers.C5]", "", "# How `researchenv prove` breaks the good environment, and which tiers notice.")
    yield from ("# [sabotage.package]", '# target = "numpy"', '# tiers = ["C0", "C1"]')


def _hints(key: str, paths: tuple[str, ...], text: str) -> Iterator[str]:
    if paths:
        more = f" and {len(paths) - _LISTED} more" if len(paths) > _LISTED else ""
        yield f"# {text}: {_listed(paths[:_LISTED])}{more}"
        yield f"{key} = []"


def _counted(text: str, places: Mapping[str, int]) -> Iterator[str]:
    if places:
        most = sorted(places, key=lambda path: (-places[path], path))[:_LISTED]
        yield f"# {text}: {_listed(f'{path} ({places[path]})' for path in most)}"


def _listed(paths: Iterable[str]) -> str:
    """Paths as a comment may hold them: a line break in a name must not end it."""
    return ", ".join(path if path.isprintable() else repr(path) for path in paths)


def _install(seen: Inspection) -> str:
    lines = [f"uv pip install {shlex.quote(name + seen.pins.get(name, ''))}" for name in seen.frameworks]
    lines.append("uv pip install --editable ." if seen.packaged else "# uv pip install -r requirements.txt")
    return "\n" + "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, items))}]"
