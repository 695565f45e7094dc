"""What a verdict rests on, beside the environment: a digest that changes when the tier would be judged differently."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Repository, Tier
from pytest_researchenv.suite import imported_modules, resolve_probe


__all__ = ["tier_basis"]


def tier_basis(repository: Repository, tier: Tier, *, accelerator: Accelerator, settings: Mapping[str, float]) -> str:
    """Return the digest of a tier's part of `repo.toml`, its probe script and its shared modules, and the settings.

    Args:
        repository: what was judged.
        tier: which tier of it.
        accelerator: what it ran on.
        settings: what of the session's settings decides it.

    Raises:
        SuiteError: its probe script is missing.
    """
    spec = repository.tiers[tier]
    scripts = (resolve_probe(repository, tier), *imported_modules(repository, tier)) if spec.probe else ()
    parts = (
        spec,
        repository.imports,
        repository.frameworks,
        repository.root_on_path,
        [repository.assets[name] for name in spec.assets],
        accelerator,
        sorted(settings.items()),
        *(("needs_cuda",) if spec.needs_cuda else ()),
    )
    text = " ".join(map(repr, parts)).encode()
    return hashlib.sha256(b"\0".join((text, *(script.read_bytes() for script in scripts)))).hexdigest()
