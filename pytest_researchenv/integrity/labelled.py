"""Builds of torch for one kind of device each: their versions have a local part, and PyTorch's own index has them."""

from __future__ import annotations

import re
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from pytest_researchenv._packageindex import PackageIndex


__all__ = ["WHEELS", "all_of", "index_of", "label_of"]

#: Where PyTorch publishes them: all together, and in a folder for each label.
WHEELS = "https://download.pytorch.org/whl"

_LABEL = re.compile(r"(cpu(?:\.cxx11\.abi)?|cu\d{2,3}|rocm\d+(?:\.\d+){0,2}|xpu)(?:\.with\.pypi\.cudnn)?")
_NAMES = frozenset({"fbgemm-gpu", "torch", "torchao", "torchaudio", "torchrec", "torchtext", "torchvision"})


def label_of(name: str, version: str) -> str:
    """What a build of torch's is for, as the folder of its index is called; empty for anything else.

    Args:
        name: normalized name of a distribution.
        version: its version; anything may stand there. Builds of one day are not kept for long, and have none.
    """
    try:
        known = Version(version)
    except InvalidVersion:
        return ""
    match = _LABEL.fullmatch(known.local or "") if name in _NAMES and not known.is_devrelease else None
    return match[1].replace(".cxx11.abi", "-cxx11-abi") if match else ""


def index_of(label: str, like: PackageIndex) -> PackageIndex:
    """The index of a label.

    Args:
        label: what `label_of` gave.
        like: reached in the same way.
    """
    return replace(like, urls=(f"{WHEELS}/{label}/",), local=(), links=(), pages=())


def all_of(like: PackageIndex) -> PackageIndex:
    """The index of all labels together."""
    return replace(like, urls=(f"{WHEELS}/",), local=(), links=(), pages=())
