"""The quickstart's probes notice when the repository's code does not do its work: long proofs, on real environments.

Each recipe is sabotaged after its installation. Tracked files would be put back, so what is changed is a dependency, or
a copy of the package in site-packages, which comes before the editable installation.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from pytest_researchenv.model import Cause, Verdict


pytestmark = pytest.mark.slow

QUICKSTART = Path(__file__).parents[2] / "suites/quickstart"
LIBRARIES = "$environment/lib/python3.*/site-packages"

Judge = Callable[[str, str], dict[str, str]]


@pytest.fixture
def judge(tmp_path: Path, docker_client: DockerClient) -> Iterator[Judge]:
    """Judge C1 of a quickstart repository whose recipe ends in a sabotage; give back the stored result."""
    results = tmp_path / "results"

    def run(name: str, sabotage: str) -> dict[str, str]:
        suite = tmp_path / "suite"
        suite.mkdir()
        for file in ("suite.toml", "test_pyramid.py"):
            shutil.copy(QUICKSTART / file, suite)
        shutil.copytree(QUICKSTART / name, suite / name)
        oracle = suite / name / "oracle.sh"
        installed, report, arguments = oracle.read_text(encoding="utf-8").rpartition("\nreport ")
        oracle.write_text(f"{installed}\n{sabotage}\n{report}{arguments}", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(suite), "-k", "c1"]
        options = [
            "--researchenv-suite",
            str(suite),
            "--researchenv-agent=oracle",
            "--researchenv-results",
            str(results),
        ]
        done = subprocess.run([*command, *options], cwd=tmp_path, check=False, capture_output=True, text=True)
        stored = next(results.rglob("C1-001.json"), None)
        assert stored, done.stdout + done.stderr
        return dict(json.loads(stored.read_text(encoding="utf-8")))

    yield run
    for record in results.rglob("environment.json"):
        docker_client.images.remove(json.loads(record.read_text(encoding="utf-8"))["image"], force=True)


@pytest.mark.parametrize(
    ("name", "dependency"),
    [("kvpress", "fire"), ("lettucedetect", "sklearn"), ("long-context-attention", "einops")],
)
def test_a_missing_dependency_fails(judge: Judge, name: str, dependency: str) -> None:
    """A package that the entry point needs and that is not there is named."""
    result = judge(name, f"rm -r {LIBRARIES}/{dependency}")

    assert (result["verdict"], result["cause"]) == (Verdict.FAILED, Cause.EXIT_CODE)
    assert result["decisive"] == f"ModuleNotFoundError: No module named '{dependency}'"


@pytest.mark.parametrize(
    ("name", "package", "file", "change", "seen"),
    [
        pytest.param(
            "kvpress",
            "kvpress",
            "presses/scorer_press.py",
            r"s/if self.compression_ratio == 0:/if True:/",
            "kept_with_press is 1.0, not 0.5",
            id="kvpress-compresses-nothing",
        ),
        pytest.param(
            "lettucedetect",
            "lettucedetect",
            "models/trainer.py",
            r"s/self.optimizer.step()/pass/",
            "less than 0.9",
            id="lettucedetect-learns-nothing",
        ),
        pytest.param(
            "lettucedetect",
            "lettucedetect",
            "detectors/transformer.py",
            r"/def _predict_single/a \        return []",
            "spans is 0, not 1",
            id="lettucedetect-finds-nothing",
        ),
        pytest.param(
            "long-context-attention",
            "yunchang",
            "kernels/attention.py",
            r"s/is_causal=causal/is_causal=False/",
            "more than 0.01",
            id="yunchang-looks-ahead",
        ),
    ],
)
def test_work_that_is_not_done_is_noticed(  # noqa: PLR0917 - one parameter a column
    judge: Judge, name: str, package: str, file: str, change: str, seen: str
) -> None:
    """An entry point that ends well without its result fails for want of evidence, which says what was seen instead."""
    copied = f"cp -r {package} {LIBRARIES}/\nsed -i '{change}' {LIBRARIES}/{package}/{file}"

    result = judge(name, copied)

    assert (result["verdict"], result["cause"]) == (Verdict.FAILED, Cause.NO_EVIDENCE)
    assert seen in result["reason"]
