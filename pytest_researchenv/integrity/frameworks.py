"""The frameworks that a repository is judged by, and what belongs to each."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import final

from pytest_researchenv.integrity.installed import Distribution, Installed, is_code
from pytest_researchenv.integrity.modulefiles import Form, Place
from pytest_researchenv.integrity.ownership import Modules
from pytest_researchenv.integrity.protocol import Entry, Snapshot


__all__ = ["BACKENDS", "PLUGINS", "Frameworks", "core_problem"]

#: Framework → names of its distributions and of those that it is made of; conda's among them.
_FAMILIES = {
    "torch": (
        "functorch",
        "libtorch*",
        "nvidia-*",
        "pytorch",
        "pytorch-*",
        "torch",
        "torchaudio",
        "torchvision",
        "triton",
    ),
    "tensorflow": ("intel-tensorflow*", "keras", "libtensorflow*", "tensorflow", "tensorflow-*", "tf-nightly*"),
    "jax": ("jax", "jax-*", "jaxlib", "jaxlib-*", "nvidia-*"),
}
#: Framework → the module with its compiled core.
_CORE_MODULES = {"torch": "torch", "tensorflow": "tensorflow", "jax": "jaxlib"}
#: Where a core is, in its package's folder and outside: conda and Debian have it with other libraries.
_CORES = {
    "torch": ("lib/libtorch_cpu.so", "lib/libtorch.so", "lib/libcaffe2.so"),
    "tensorflow": ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2", "python/_pywrap_tensorflow_internal.so"),
    "jax": ("libjax_common.so", "xla_extension.so", "_jax.so"),
}
_LIBRARIES = ("lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
#: Least bytes of a core: torch's has 434 MB, jaxlib's 90 MB, the smallest that were ever published some 40 MB.
_LEAST_BYTES = 8 * 1024 * 1024
#: Extension points of frameworks, which import what any distribution names there when they start.
BACKENDS = frozenset({"jax_plugins", "torch.backends"})
#: Those, and others at which code of any distribution is run when what has them is imported or started.
PLUGINS = frozenset({*BACKENDS, "numba_extensions", "pytest11"})
#: Folders of site folders from which frameworks load whatever lies there.
_LOADED = {"jax": "jax_plugins", "tensorflow": "tensorflow-plugins"}
#: Distributions that makers of devices publish for that.
_MAKERS = frozenset(
    {"habana-torch-plugin", "intel-extension-for-pytorch", "torch-mlu", "torch-musa", "torch-npu", "torch-xla"}
)


@final
@dataclass(frozen=True, slots=True)
class Frameworks:
    """Some frameworks.

    Attributes:
        names: the modules that repositories import.
    """

    names: frozenset[str]

    @classmethod
    def of(cls, declared: tuple[str, ...], imported: frozenset[str]) -> Frameworks:
        """Those that a repository declares, or imports."""
        return cls(frozenset(name for name in _FAMILIES if name in declared or name in imported))

    def have(self, one: Distribution) -> bool:
        """Whether a distribution belongs to one of them."""
        patterns = (pattern for name in self.names for pattern in _FAMILIES[name])
        return any(fnmatchcase(one.name, pattern) for pattern in patterns)

    def plugs(self, one: Distribution) -> tuple[str, ...]:
        """The extension points of frameworks that a distribution names code for."""
        known = self.have(one) or one.name in _MAKERS
        return () if known else tuple(sorted(BACKENDS & one.groups.keys()))

    def loads(self, path: str, sites: Collection[str]) -> bool:
        """Whether a framework imports or loads a file when it starts, only since it lies where it does."""
        folders = (f"{site}/{_LOADED[name]}/" for site in sites for name in self.names if name in _LOADED)
        return is_code(path) and path.startswith(tuple(folders))

    def cores(self, modules: Modules) -> Iterator[tuple[str, str, Place]]:
        """Each framework that is found, the module with its core, and where that is."""
        for name in sorted(self.names):
            place = modules.find(_CORE_MODULES[name])
            if place is not None:
                yield name, _CORE_MODULES[name], place


def core_problem(
    framework: str, place: Place, *, prefixes: tuple[str, ...], snapshot: Snapshot, installed: Installed
) -> str:
    """Why what a framework's import leads to has no compiled core; empty when it has one.

    Args:
        framework: its name.
        place: where the module with the core is.
        prefixes: folders that have a `lib` with what its core may be among.
        snapshot: the frozen image.
        installed: what is installed.

    Raises:
        SandboxError: the engine refuses to read.
    """
    if place.form in (Form.SOURCE, Form.BYTECODE, Form.NAMESPACE, Form.ARCHIVE):
        return f"{place.path} is no package with compiled code"
    folder = posixpath.dirname(place.path)
    below = f"{folder}/"
    if any(path.startswith(below) and _is_core(entry) for path, entry in installed.code.items()):
        return ""
    inside = (f"{folder}/{name}" for name in _CORES[framework])
    names = {posixpath.basename(name) for name in _CORES[framework]}
    outside = (f"{prefix}/{library}/{name}" for prefix in prefixes for library in _LIBRARIES for name in sorted(names))
    if any(_is_core(snapshot.entry(path)) for path in (*inside, *outside)):
        return ""
    return f"{folder} has no library of at least {_LEAST_BYTES // 1024**2} MiB"


def _is_core(entry: Entry | None) -> bool:
    return entry is not None and entry.size >= _LEAST_BYTES and entry.head.startswith(b"\x7fELF")
