"""What can be read of a checkout without running any of it: hints for whoever describes a repository.

Everything here is a guess from text. Nothing of the tree is executed or imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import tomli
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from pytest_researchenv._gitsubmodules import submodule_folders
from pytest_researchenv._parsing import last_name, parsed
from pytest_researchenv._suite_problems import FRAMEWORKS
from pytest_researchenv.probes.imports import scan_files


__all__ = ["Inspection", "inspect_tree"]

#: Packages whose presence says how a repository trains or logs; worth a pin or a note.
_NOTEWORTHY = (
    *FRAMEWORKS,
    "torchvision",
    "torchaudio",
    "transformers",
    "diffusers",
    "accelerate",
    "lightning",
    "numpy",
)
_AUXILIARY = ("wandb", "tensorboard", "mlflow", "hydra", "deepspeed", "submitit", "gradio")

_COMPILED = (".cu", ".cuh", ".cpp", ".cc", ".c", ".pyx", ".rs")
_LONGEST_BYTES = 2 * 1024**2

_PARALLEL = {
    "torch.distributed": re.compile(r"\btorch\.distributed\b|\bdist\.init_process_group\b"),
    "accelerate": re.compile(r"\baccelerate\b"),
    "lightning": re.compile(r"\b(pytorch_)?lightning\b"),
    "deepspeed": re.compile(r"\bdeepspeed\b"),
}
_HARD_CUDA = re.compile(r"\.cuda\(|['\"]cuda(:\d+)?['\"]|backend\s*=\s*['\"]nccl['\"]")
_HUB = re.compile(r"\bfrom_pretrained\(|\bhf_hub_download\(|\bsnapshot_download\(|\bload_dataset\(|\btorch\.hub\.")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was seen.

    Attributes:
        python: declared Python specifier; empty when none is declared.
        pins: noteworthy packages → declared specifier.
        frameworks: those of `FRAMEWORKS` that are imported.
        imports: distinct imported top-level names, as C0 counts them.
        packaged: whether it can be installed: it has a pyproject.toml with a build system or a project, or a setup.py.
        compiled: files that a compiler wants, sorted.
        auxiliary: loggers and launchers that are imported.
        entries: scripts that are run, with those at the top first.
        parallel: what it uses for several devices.
        hard_cuda: lines that name CUDA without asking whether it is there: path → count.
        hub: lines that may download from a hub: path → count.
        versions_from_tags: whether its version is derived from Git tags.
        submodules: paths of submodules.
        lfs: whether files are kept in Git LFS.
    """

    python: str = ""
    pins: Mapping[str, str] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()
    imports: int = 0
    packaged: bool = False
    compiled: tuple[str, ...] = ()
    auxiliary: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    hard_cuda: Mapping[str, int] = field(default_factory=dict)
    hub: Mapping[str, int] = field(default_factory=dict)
    versions_from_tags: bool = False
    submodules: tuple[str, ...] = ()
    lfs: bool = False


def inspect_tree(root: Path, files: Iterable[str]) -> Inspection:
    """Look through a tree.

    Args:
        root: its folder.
        files: paths that belong to it, relative to the root and `/`-separated.
    """
    paths = sorted(files)
    scan = scan_files(root, paths)
    project = _toml(root / "pyproject.toml")
    setup = _setup_arguments(_text(root / "setup.py"))
    sources = {path: _text(root / path) for path in scan.files}
    text = "\n".join(sources.values())
    return Inspection(
        python=_python(project, setup),
        pins=_pins(_requirements(root, paths, project, setup)),
        frameworks=tuple(name for name in FRAMEWORKS if name in scan.importers),
        imports=len(scan.names),
        packaged="build-system" in project or "project" in project or "setup.py" in paths,
        compiled=tuple(path for path in paths if path.endswith(_COMPILED)),
        auxiliary=tuple(name for name in _AUXILIARY if name in scan.importers),
        entries=_entries(sources),
        parallel=tuple(name for name, pattern in _PARALLEL.items() if pattern.search(text)),
        hard_cuda=_matches(sources, _HARD_CUDA),
        hub=_matches(sources, _HUB),
        versions_from_tags=bool(re.search(r"setuptools[-_]scm|versioneer|hatch-vcs", _text(root / "pyproject.toml")))
        or "use_scm_version" in _text(root / "setup.py"),
        submodules=submodule_folders(root),
        lfs="filter=lfs" in _text(root / ".gitattributes"),
    )


def _text(path: Path) -> str:
    """A file's text; nothing where it is missing, a link, or too long to be source code."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_BYTES:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomli.loads(_text(path))
    except (ValueError, RecursionError):  # Numbers that are too long are no TOMLDecodeError.
        return {}


def _table(value: object, *keys: str) -> dict[str, object]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _setup_arguments(source: str) -> dict[str, object]:
    """The literal arguments of `setup(…)`; what is computed is left out."""
    tree = parsed(source)
    if tree is None:
        return {}
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node) == "setup":
            for keyword in node.keywords:
                try:
                    found[keyword.arg or ""] = ast.literal_eval(keyword.value)
                except (ValueError, TypeError, RecursionError, MemoryError):
                    continue
    return found


def _python(project: Mapping[str, object], setup: Mapping[str, object]) -> str:
    poetry = _table(project, "tool", "poetry", "dependencies").get("python")
    candidates = (_table(project, "project").get("requires-python"), setup.get("python_requires"), poetry)
    for candidate in candidates:
        if isinstance(candidate, str) and (specifier := _specifier(candidate)):
            return specifier
    return ""


def _specifier(text: str) -> str:
    """A PEP 440 specifier; Poetry's `^3.8` becomes `>=3.8,<4`."""
    if found := re.fullmatch(r"\^(\d{1,9})(\.[\d.]+)?", text.strip()):
        text = f">={found[1]}{found[2] or ''},<{int(found[1]) + 1}"
    try:
        return str(SpecifierSet(text)) and text.strip()
    except ValueError:  # An InvalidSpecifier, or a number that is too long.
        return ""


def _requirements(
    root: Path, paths: Iterable[str], project: Mapping[str, object], setup: Mapping[str, object]
) -> Iterator[str]:
    for listed in (_table(project, "project").get("dependencies"), setup.get("install_requires")):
        if isinstance(listed, list):
            yield from (item for item in listed if isinstance(item, str))
    for name, value in _table(project, "tool", "poetry", "dependencies").items():
        if isinstance(value, str):
            yield f"{name}{'' if value == '*' else _specifier(value) or f'=={value}'}"
    for path in paths:
        if "/" not in path and re.fullmatch(r"requirements.*\.txt", path):
            yield from (line.partition("#")[0].strip() for line in _text(root / path).splitlines())


def _pins(requirements: Iterable[str]) -> dict[str, str]:
    pins: dict[str, str] = {}
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        name = requirement.name.lower().replace("_", "-")
        if name in _NOTEWORTHY and str(requirement.specifier):
            pins.setdefault(name, str(requirement.specifier))
    return pins


def _entries(sources: Mapping[str, str]) -> tuple[str, ...]:
    """Scripts with a main block, those at the top and those with options first; tests and set-up left out."""
    scripts = [
        path
        for path, source in sources.items()
        if re.search(r"^if __name__ == ['\"]__main__['\"]", source, re.MULTILINE)
        and not re.search(r"(^|/)(tests?|docs)/|(^|/)(test_|setup\.py|conftest\.py)", path)
    ]
    return tuple(
        sorted(scripts, key=lambda path: (len(PurePosixPath(path).parts), "argparse" not in sources[path], path))
    )


def _matches(sources: Mapping[str, str], pattern: re.Pattern[str]) -> dict[str, int]:
    counts = {path: len(pattern.findall(source)) for path, source in sources.items()}
    return {path: count for path, count in counts.items() if count}
