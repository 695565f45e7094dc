"""Rules of what `researchenv reap` says, with an engine that is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from requests.exceptions import ReadTimeout

from pytest_researchenv.cli import main
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import CACHE_FILES, Reaped


class Engine:
    """Keeps packages in two volumes; client and its `api` in one."""

    def __init__(self, measured: Callable[[], Mapping[str, Any]]) -> None:
        self.api = self
        self.df = measured

    def volumes(self, **_: object) -> Mapping[str, Any]:
        """Those of this host."""
        labels = Owner.current("tests").labels(CACHE_FILES, cache="key")
        return {"Volumes": [{"Name": name, "Labels": labels} for name in ("one", "two")]}

    def close(self) -> None:
        """Be let go of."""


def _silent() -> Mapping[str, Any]:
    raise ReadTimeout("Read timed out")


def _half() -> Mapping[str, Any]:
    return {"Volumes": [{"Name": "one", "UsageData": None}, {"Name": "two", "UsageData": {"Size": 3 * 1024**3}}]}


def _reap(monkeypatch: pytest.MonkeyPatch, measured: Callable[[], Mapping[str, Any]], *options: str) -> int:
    monkeypatch.setattr("pytest_researchenv.reaping.connect", lambda: Engine(measured))
    monkeypatch.setattr("pytest_researchenv.reaping.reap", lambda *_, **__: Reaped(containers=["old"]))
    return main(["reap", *options])


def test_what_was_removed_is_told_where_caches_cannot_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine measures everything that it stores, which may take longer than anybody waits."""
    assert _reap(monkeypatch, _silent) == 0
    printed = capsys.readouterr().out
    assert "containers: 1 removed (old)" in printed
    assert "package caches: cannot measure package caches: Read timed out" in printed

    assert _reap(monkeypatch, _silent, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["containers"], told["cached_bytes"]) == (["old"], None)


def test_a_volume_that_the_engine_did_not_measure_counts_as_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are counted."""
    assert _reap(monkeypatch, _half) == 0
    assert "package caches: 3.0 GiB kept" in capsys.readouterr().out
