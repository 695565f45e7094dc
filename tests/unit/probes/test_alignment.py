"""Rules of reading a framework's answer, and of which driver and device a framework fits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv.probes import alignment
from pytest_researchenv.probes.alignment import Answer, cuda_support, expected, kernel_support, read_answer


NONCE = "00ff00ff00ff00ff"
SCRIPT = Path(alignment.__file__).with_name("inside") / "alignment.py"

#: As much of torch as the script uses, in plain Python.
STAND_IN = """
version = type("version", (), {"cuda": None})
float32 = None
__version__ = "0.0.1"

class cuda:
    device_count = staticmethod(lambda: 0)
    is_available = staticmethod(lambda: False)
    get_arch_list = staticmethod(list)

class device:
    def __init__(self, kind, number=None):
        self.type = kind
    def __str__(self):
        return self.type

class tensor:
    def __init__(self, rows, dtype=None, device=None):
        self.rows, self.device = rows, device
    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        return tensor([[sum(x * y for x, y in zip(r, c)) for c in columns] for r in self.rows], None, self.device)
    def __add__(self, other):
        return tensor([[x + y for x, y in zip(*pair)] for pair in zip(self.rows, other.rows)], None, self.device)
    def cpu(self):
        return self
    def tolist(self):
        return self.rows
"""


def line(nonce: str = NONCE, **said: object) -> str:
    """A line of an answer."""
    return f"{nonce} {json.dumps(said)}\n"


def test_script_and_host_compute_the_same_independently(tmp_path: Path) -> None:
    """The script's matrices and the host's are two implementations of one description."""
    (tmp_path / "torch.py").write_text(STAND_IN, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-B", SCRIPT, "torch", NONCE, "cpu"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    answer = read_answer(done.stdout, NONCE)
    assert (answer.stage, answer.version, answer.devices) == ("done", "0.0.1", ())
    assert list(answer.values) == [expected(NONCE, 0)]


def test_every_nonce_and_every_device_has_its_own_value() -> None:
    """What was computed once cannot be replayed, and one device cannot stand in for another."""
    values = [expected(nonce, number) for nonce in (NONCE, "00ff00ff00ff00fe") for number in (0, 3)]

    assert all(a != b for i, a in enumerate(values) for b in values[:i])
    assert all(0 <= entry < 2**14 for value in values for row in value for entry in row)


def test_lines_without_the_nonce_are_not_read() -> None:
    """Whatever else a framework prints, and whatever was forged without the nonce, is no answer."""
    text = "warming up\n" + line("f" * 16, stage="done", version="9") + line(stage="import") + '{"stage": "done"}\n'

    assert read_answer(text, NONCE) == Answer(stage="import")


def test_later_lines_add_to_earlier_ones() -> None:
    """What was said before a crash is kept."""
    text = line(stage="look", version="2.13.0") + "noise" * 10 + "\n" + line(stage="compute", devices=["NVIDIA A100"])

    assert read_answer(text, NONCE) == Answer(stage="compute", version="2.13.0", devices=("NVIDIA A100",))


@pytest.mark.parametrize(
    "rest",
    [
        "not json",
        "[1, 2]",
        '{"stage": 7, "devices": "NVIDIA", "capabilities": {"a": 1}, "built_cuda": 12, "values": null}',
        "[" * 100_000,
        '{"stage": "done", "version": "' + "x" * 2_000_000 + '"}',
        '{"version": ' + "9" * 10_000 + "}",
    ],
    ids=["text", "list", "types", "depth", "length", "digits"],
)
def test_an_answer_of_the_wrong_shape_says_nothing(rest: str) -> None:
    """It comes from an environment that an agent made."""
    assert read_answer(f"{NONCE} {rest}\n", NONCE) == Answer()


@pytest.mark.parametrize(
    ("built", "driver", "support"),
    [
        ("12.2", (12, 2), "same version"),
        ("11.8", (12, 2), "backward compatibility"),
        ("12.6", (12, 2), "minor version compatibility"),
        ("13.0", (12, 9), ""),
        ("10.2", (10, 1), ""),
        ("12.5.1", (12, 5), "same version"),
        (None, (12, 2), None),
        ("none", (12, 2), None),
    ],
)
def test_driver_and_binary_agree_by_nvidias_rules(
    built: str | None, driver: tuple[int, int], support: str | None
) -> None:
    """Older runs on newer; newer minors run on the same major from 11 on; newer majors do not."""
    assert cuda_support(built, driver) == support


@pytest.mark.parametrize(
    ("architectures", "capability", "entry"),
    [
        ("sm_70 sm_80 sm_90", (8, 0), "sm_80"),
        ("sm_70 sm_80 sm_90", (8, 9), "sm_80"),
        ("sm_80 sm_86", (8, 0), "sm_80"),
        ("sm_86", (8, 0), ""),
        ("sm_50 sm_60", (7, 0), ""),
        ("sm_50 compute_60", (7, 0), "compute_60"),
        ("compute_90", (8, 0), ""),
        ("sm_90a", (9, 0), "sm_90a"),
        ("sm_100a", (10, 3), ""),
        ("sm_100f", (10, 3), "sm_100f"),
        ("compute_90a", (10, 0), ""),
        ("sm_75 sm_120", (12, 1), "sm_120"),
        ("gfx90a whatever", (9, 0), ""),
        ("", (8, 0), ""),
    ],
)
def test_kernels_run_by_nvidias_rules(architectures: str, capability: tuple[int, int], entry: str) -> None:
    """Machine code within its major version, from its minor up; intermediate code on anything not older."""
    assert kernel_support(tuple(architectures.split()), capability) == entry
