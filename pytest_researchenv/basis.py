"""What a verdict rests on, beside the environment: a digest that changes when the tier would be judged differently."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from pytest_researchenv._code import code_of
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Repository, Tier
from pytest_researchenv.suite import resolve_probe, shared_modules


__all__ = ["audit_basis", "tier_basis"]


def tier_basis(repository: Repository, tier: Tier, *, accelerator: Accelerator, settings: Mapping[str, float]) -> str:
    """Return the digest of a tier's part of `repo.toml`, of its probe's code with what that uses, and of the settings.

    Args:
        repository: what was judged.
        tier: which tier of it.
        accelerator: what it ran on.
        settings: what of the session's settings decides it.

    Raises:
        SuiteError: its probe script is missing.
    """
    spec = repository.tiers[tier]
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
    shared = {file.stem: file for file in shared_modules(repository)}
    code = code_of(resolve_probe(repository, tier), shared) if spec.probe else {}
    return hashlib.sha256(b"\0".join((text, *(code[name] for name in sorted(code))))).hexdigest()


def audit_basis(repository: Repository) -> str:
    """Return the digest of what the audit's findings rest on: the checks' code, and what the repository imports."""
    text = repr((repository.imports, repository.frameworks, repository.root_on_path, repository.workdir))
    return hashlib.sha256(f"{_checks()} {text}".encode()).hexdigest()


@cache
def _checks() -> str:
    folder = resources.files("pytest_researchenv.integrity")
    sources = sorted((file.name, file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".py"))
    return hashlib.sha256(repr(sources).encode()).hexdigest()
