"""Every result says what it came from, and can be told from an edited one."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_researchenv import provenance
from pytest_researchenv.model import Examination, Tier, TierResult, Verdict
from pytest_researchenv.packedlogs import open_log
from pytest_researchenv.provenance import digest_of, harness_identity, records_in, seal_of
from pytest_researchenv.store import Attempt
from tests.unit.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with nothing in it."""
    return Lab(tmp_path)


def _probed(lab: Lab) -> tuple[TierResult, Path]:
    judged = lab.session().judge("fake", lab.repository, Tier.C1)
    assert judged.folder is not None
    return judged.result, judged.folder


def test_a_result_says_what_was_judged_and_by_what(lab: Lab) -> None:
    """Snapshot, base image, harness, accelerator, settings, the log's digest and the seal."""
    result, folder = _probed(lab)
    environment = json.loads((folder / "environment.json").read_text())

    assert (result.snapshot, result.base_image) == (environment["image"], environment["base_image"])
    assert result.harness == harness_identity()
    assert (result.accelerator, result.settings) == ("cpu", {"c0_max_missing": 0.0})
    assert result.log_digest == hashlib.sha256(b"probing\n").hexdigest() == digest_of(folder / result.log)
    assert result.seal == seal_of(json.loads((folder / "C1-001.json").read_text()))


def test_an_error_says_so_too(lab: Lab) -> None:
    """A record of trouble is sealed like any other."""
    lab.probe.breaks = True
    with pytest.raises(RuntimeError):
        _probed(lab)

    record = json.loads((lab.folder / "attempt-001/C1-001.json").read_text())
    assert record["seal"] == seal_of(record)
    assert record["log_digest"] == digest_of(lab.folder / "attempt-001/C1-001.log")


def test_the_seal_of_an_audit_covers_all_of_it(lab: Lab) -> None:
    """Also what is no part of its result."""
    folder = lab.session().judge("fake", lab.repository, Examination.INTEGRITY).folder
    assert folder is not None
    record = json.loads((folder / "integrity-001.json").read_text())

    assert record["result"]["seal"] == seal_of(record)
    assert seal_of({**record, "interpreter": "a wrapper"}) != seal_of(record)


def test_an_environment_holds_digests_of_what_was_recorded(lab: Lab) -> None:
    """Of all that is recorded before it, and of nothing that comes later."""
    _, folder = _probed(lab)
    record = json.loads((folder / "environment.json").read_text())

    assert {"attempt.json", "report.json", "transcript.log"} <= set(record["records"])
    assert record["records"].items() <= records_in(folder, but="environment.json").items()
    assert not {"environment.json", "C1-001.json"} & set(record["records"])
    assert record["seal"] == seal_of(record)


def test_a_verdict_is_on_disk_before_its_log_is_closed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies in between leaves the verdict, with the digest of the log as it is then."""
    whole = Attempt.log

    @contextlib.contextmanager
    def dying(self: Attempt, path: Path) -> Iterator[Callable[[bytes], None]]:
        with whole(self, path) as append:
            yield append
            if path.name == "C1-001.log":
                raise KeyboardInterrupt

    monkeypatch.setattr(Attempt, "log", dying)
    with pytest.raises(KeyboardInterrupt):
        _probed(lab)

    folder = lab.folder / "attempt-001"
    record = json.loads((folder / "C1-001.json").read_text())
    assert record["verdict"] == Verdict.PASSED
    assert record["log_digest"] == digest_of(folder / "C1-001.log")


def test_a_log_is_digested_as_it_is_in_the_end(lab: Lab) -> None:
    """What is held back until a log is closed counts as well."""
    judge = lab.probe.judge

    def loud(task: object) -> TierResult:
        result = judge(task)  # type: ignore[arg-type] # the harness's own
        for _ in range(40):
            task.log(b"x" * 2**20)  # type: ignore[attr-defined] # likewise
        return result

    lab.probe.judge = loud  # type: ignore[method-assign] # one test's own probe
    result, folder = _probed(lab)

    with open_log(folder / result.log) as file:
        assert len(file.read()) > 32 * 2**20
    assert result.log_digest == digest_of(folder / result.log)


def test_the_harness_is_its_version_and_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any changed file makes it another; suites, caches and hidden files are none of its code."""
    name, digest = harness_identity().split()
    assert (name, len(digest)) == (version("pytest-researchenv"), 64)

    def of(folder: Path) -> str:
        monkeypatch.setattr(provenance, "_PACKAGE", folder)
        return harness_identity.__wrapped__()

    (tmp_path / "probes").mkdir()
    (tmp_path / "probes/c1.py").write_text("judge\n")
    before = of(tmp_path)
    for ignored in ("suites/x.toml", "fixtures/x.py", "probes/__pycache__/c1.pyc", ".hidden"):
        (tmp_path / ignored).parent.mkdir(exist_ok=True)
        (tmp_path / ignored).write_text("x")
    assert of(tmp_path) == before
    (tmp_path / "probes/c1.py").write_text("pass everything\n")
    assert of(tmp_path) != before


def test_a_seal_is_the_same_however_the_record_is_written() -> None:
    """Order and layout are no part of it; every value is."""
    record = {"b": [1, 2.0, None], "a": "é", "seal": "x"}

    assert seal_of(record) == seal_of(json.loads(json.dumps(dict(sorted(record.items())), indent=3)))
    assert seal_of(record) == seal_of({**record, "seal": "y"})
    assert seal_of(record) != seal_of({**record, "b": [1, 2, 0]})
