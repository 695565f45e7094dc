"""kill -9 of the controller, a worker, a gateway or the engine, at random moments of a run on real containers.

Each injection has a run of its own. After it the next session does what is missing: no record that was there is lost or
changed, nothing of the dead session is left within a minute, and nothing is built twice.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from docker.errors import APIError

from tests.integration.faults.place import DEADLINE_S, FaultPlace
from tests.integration.faults.surviving import SWEEP_S, Before, Survived, goes_on
from tests.integration.second import SecondEngine


_log = logging.getLogger(__name__)

#: How many injections are made for every change, and by the long proof, unless RESEARCHENV_KILLS says otherwise.
_FEW = 10
_MANY = 200

#: A session builds and judges for so long, about, in seconds: moments are drawn from it. Every fourth one is struck
#: while it starts.
_WORK_S = 8.0
_EARLY = 4

_WORKERS = {"controller": (), "controller of workers": ("-n", "2"), "worker": ("-n", "2"), "gateway": (), "engine": ()}


def _controller(process: subprocess.Popen[str], second: SecondEngine) -> bool:
    del second
    process.kill()
    return True


def _worker(process: subprocess.Popen[str], second: SecondEngine) -> bool:
    del second
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if b"readline" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    if not workers:
        return False
    os.kill(random.SystemRandom().choice(workers), signal.SIGKILL)
    return True


def _gateway(process: subprocess.Popen[str], second: SecondEngine) -> bool:
    del process
    with closing(second.client()) as client:
        found = [item["Id"] for item in client.api.containers() if "inside.start" in item["Command"]]
        for identifier in found:
            with suppress(APIError):
                client.api.kill(identifier)
    return bool(found)


def _engine(process: subprocess.Popen[str], second: SecondEngine) -> bool:
    del process
    second.signal(signal.SIGKILL)
    time.sleep(random.SystemRandom().uniform(0, 2))
    second.start()
    return True


_STRIKES: dict[str, Callable[[subprocess.Popen[str], SecondEngine], bool]] = {
    "controller": _controller,
    "controller of workers": _controller,
    "worker": _worker,
    "engine": _engine,
    "gateway": _gateway,
}


def _inject(place: FaultPlace, second: SecondEngine, victim: str, moment_s: float, *, early: bool) -> Survived | None:
    """Strike once, and let the next session go on.

    Returns:
        What came of it; None where there was nothing to strike.
    """
    before = Before(second)
    arguments = _WORKERS[victim]
    with place.session(*arguments, GATEWAY="1" if victim == "gateway" else "") as process:
        deadline = time.monotonic() + DEADLINE_S
        if not early:
            place.await_line("building one", process)
        time.sleep(moment_s)
        while not (struck := process.poll() is None and _STRIKES[victim](process, second)):
            if process.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        printed, _ = process.communicate(timeout=DEADLINE_S)
    if struck and (place.folder / "out.xml").exists():
        assert "failure" not in place.outcomes().values(), printed
    assert max(place.done().values(), default=0) <= 1, printed
    survived = goes_on(place, second, before, *arguments)
    with closing(second.client()) as client:
        for image in place.images():
            client.images.remove(image, force=True)
    return survived if struck else None


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(_FEW, id="ten"),
        pytest.param(int(os.environ.get("RESEARCHENV_KILLS", _MANY)), id="many", marks=pytest.mark.slow),
    ],
)
def test_random_kills_lose_leak_and_repeat_nothing(
    tmp_path: Path, second: SecondEngine, request: pytest.FixtureRequest, wanted: int
) -> None:
    """No record is lost, nothing is left once the next session has begun, and nothing is built or judged twice."""
    struck: Counter[str] = Counter()
    survived: list[Survived] = []
    number = 0
    while len(survived) < wanted or set(struck) != set(_STRIKES):
        victim = list(_STRIKES)[number % len(_STRIKES)]
        number += 1
        assert number <= 3 * wanted, "sessions end before they are struck"
        folder = tmp_path / str(number)
        folder.mkdir()
        place = FaultPlace(folder, docker_host=second.url)
        moment = random.SystemRandom().uniform(0, _WORK_S)
        if found := _inject(place, second, victim, moment, early=random.SystemRandom().randrange(_EARLY) == 0):
            struck[victim] += 1
            survived.append(found)
            _log.info("%s of %s: %s, swept after %.1f s", len(survived), wanted, victim, found.swept_s)
    sweeps = [one.swept_s for one in survived]
    # Not by `record_property`, which warns with the family of JUnit that pytest writes.
    request.node.user_properties += [
        ("kill -9 injections", ", ".join(f"{count} {victim}" for victim, count in sorted(struck.items()))),
        ("records lost", sum(one.lost for one in survived)),
        ("things left after the sweep", sum(one.leaked for one in survived)),
        ("environments built or judged twice", sum(one.twice for one in survived)),
        (
            "sweep after the next start, in seconds",
            f"median {statistics.median(sweeps):.1f}, longest {max(sweeps):.1f} (at most {SWEEP_S:.0f})",
        ),
    ]
