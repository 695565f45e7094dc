"""One repository without an agent: the published harness's job and ours, side by side, on the same machine.

The published harness is run from a checkout of it that the user has; nothing of it is changed, and nothing of it is
part of this project. Its `run_one_job.py --skip-agent` and a whole pyramid of ours with the agent `noop` are given the
same tree of kvpress, in turn, in containers from the same base image. What its scripts call is added to that: rsync,
and Node, which pyright would otherwise fetch anew in each job, so that its figure is smaller than the real one. It
clones by https what is read here from a folder, by Git's own `insteadOf`.

    python -m benchmarks.published_harness CHECKOUT [--times N]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from docker import DockerClient

from benchmarks.sessions import PYTEST
from pytest_researchenv._cache import cache_folder
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.source import fetch
from pytest_researchenv.suite import find_suite, load_suite


_ADDRESS = "https://github.com/NVIDIA/kvpress"
_REPOSITORY = "kvpress"
#: Where the published harness mounts the job's folder.
_MOUNTED = "/data/results"
#: What of this host's environment containers of the published harness need to reach package indexes.
_CARRIED = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")
_TRUST = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


def image_for(client: DockerClient, name: str) -> str:
    """Have the base image with what the published scripts call besides."""
    base = ensure_base_image(client, owner=Owner.current("benchmark"), say=print).image
    container = client.containers.create(
        base,
        ["sh", "-c", "apt-get update && apt-get install --yes --no-install-recommends rsync nodejs"],
        labels={"researchenv.benchmark": name},
    )
    try:
        container.start()
        if code := container.wait()["StatusCode"]:
            raise RuntimeError(f"apt-get ended with code {code}:\n{container.logs(tail=20).decode()}")
        return str(container.commit(changes=["CMD []", "ENTRYPOINT []"]).id)
    finally:
        container.remove(force=True, v=True)


def _environment(job: Path) -> Path:
    """Write what containers of the published harness are told: where the tree is, and how indexes are reached."""
    told = {name: os.environ[name] for name in _CARRIED if name in os.environ}
    # Newer distributions than the published image's let pip install nothing without it.
    told["PIP_BREAK_SYSTEM_PACKAGES"] = "1"
    authority = os.environ.get("SSL_CERT_FILE", "")
    if authority:
        shutil.copy(authority, job / "ca.pem")
        told |= dict.fromkeys(_TRUST, f"{_MOUNTED}/ca.pem")
    settings = {f"url.file://{_MOUNTED}/tree.git.insteadOf": _ADDRESS, "safe.directory": "*"}
    told["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        told |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    file = job.parent / "environment"
    file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
    return file


def theirs(checkout: Path, tree: Path, image: str) -> tuple[float, Mapping[str, object]]:
    """Run the published job; returns its wall time and what it says of itself."""
    with tempfile.TemporaryDirectory() as temporary:
        job = Path(temporary, "job")
        job.mkdir()
        subprocess.run(["git", "clone", "--quiet", "--bare", str(tree), str(job / "tree.git")], check=True)
        commit = subprocess.run(
            ["git", "-C", str(tree), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        command = [
            *(sys.executable, "-m", "m2.run_one_job", "--image", image, "--skip-agent"),
            *("--job-id", "kvpress", "--run-id", f"benchmark-{uuid.uuid4().hex[:8]}", "--baseline", "codex"),
            *("--repo-url", _ADDRESS, "--commit-sha", commit, "--hardware-bucket", "cpu", "--network", "bridge"),
            *("--host-job-dir", str(job), "--harness-dir", str(checkout)),
            *("--secrets-env-file", str(_environment(job))),
        ]
        began = time.perf_counter()
        done = subprocess.run(command, check=False, cwd=checkout, capture_output=True, text=True)
        took = time.perf_counter() - began
        if done.returncode or not (job / "job_summary.json").exists():
            raise RuntimeError(f"the published job ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        return took, json.loads((job / "job_summary.json").read_text())


def ours() -> tuple[float, str]:
    """Judge all tiers of an environment that nobody built, in a new folder; returns the wall time, and the outcome."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [*PYTEST, "-q", "-c", os.devnull]
        began = time.perf_counter()
        done = subprocess.run(
            [
                *(*command, f"--rootdir={temporary}", "--researchenv-suite=quickstart", "--researchenv-agent=noop"),
                *("-k", f"{_REPOSITORY} and not integrity", "--researchenv-keep=none"),
            ],
            check=False,
            cwd=temporary,
            capture_output=True,
            text=True,
        )
        took = time.perf_counter() - began
        if done.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        return took, done.stdout.strip().splitlines()[-1]


def _parts(summary: Mapping[str, object]) -> str:
    times = summary["timestamps"]
    if not isinstance(times, dict):
        raise TypeError(f"timestamps are {times!r}")
    steps = {"clone": ("clone_start", "clone_end"), "all stages": ("runall_start", "runall_end")}
    return ", ".join(f"{name} {times[last] - times[first]:.1f} s" for name, (first, last) in steps.items())


def main() -> None:
    """Run both in turn, and print what each took."""
    parser = argparse.ArgumentParser(description=sys.modules[__name__].__doc__)
    parser.add_argument("checkout", type=Path, help="folder with a checkout of the published harness")
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    repositories = load_suite(find_suite("quickstart")).repositories
    repository = next(one for one in repositories if one.slug == _REPOSITORY)
    tree = fetch(repository, cache=cache_folder())
    client = connect()
    image = image_for(client, "published-harness")
    took: dict[str, list[float]] = {"theirs": [], "ours": []}
    try:
        ours()  # What the machine lacks (tool volumes) is made before anything is measured.
        for _ in range(arguments.times):
            seconds, summary = theirs(arguments.checkout.resolve(), tree.root, image)
            took["theirs"].append(seconds)
            status = summary["status"]
            stages = status["runall_stage_statuses"] if isinstance(status, dict) else ""
            print(f"theirs {seconds:6.1f} s ({_parts(summary)}; {stages})")
            seconds, outcome = ours()
            took["ours"].append(seconds)
            print(f"ours   {seconds:6.1f} s ({outcome})")
    finally:
        client.images.remove(image, force=True)
    medians = {who: statistics.median(seconds) for who, seconds in took.items()}
    print(f"median: theirs {medians['theirs']:.1f} s, ours {medians['ours']:.1f} s: ", end="")
    print(f"{medians['ours'] / medians['theirs']:.2f} of theirs")


if __name__ == "__main__":
    main()
