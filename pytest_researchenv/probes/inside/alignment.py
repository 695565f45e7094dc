"""Ask a framework what it sees, and let it compute something on each device.

Runs by the interpreter that is judged: standard library and the framework only, Python 3.8 and newer.

    python alignment.py FRAMEWORK NONCE DEVICE

FRAMEWORK is torch, tensorflow or jax; DEVICE is cpu or cuda. Every line of the answer is the nonce (16 hexadecimal
digits), a space and a JSON object; later objects add to earlier ones. `stage` says what is about to be done, so that a
crash is known by the last line.

What is computed: a generator x -> (1103515245 x + 12345) mod 2^31, started at the nonce plus the device's number, each
time gives the entry (x >> 16) mod 16. The first 32*32 entries are the matrix A, row by row, the next are B; the value
is A B + A. All numbers on the way are integers below 2^14, so that every float format that frameworks multiply in (TF32
and bfloat16 with float32 sums included) is exact.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import importlib
import json
import os.path
import sys
from typing import Any


SIZE = 32


def main(framework: str, nonce: str, device: str) -> None:
    """Print the answer."""

    def say(**answer: object) -> None:
        print(f"\n{nonce} {json.dumps(answer)}", flush=True)

    # This script's folder must not satisfy an import.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be one more import to shadow
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100 - likewise
    say(stage="import")
    library = importlib.import_module(framework)
    kinds: dict[str, type[Framework]] = {"torch": Torch, "tensorflow": Tensorflow, "jax": Jax}
    asked = kinds[framework](library, device)
    say(stage="look", version=str(library.__version__))
    say(stage="compute", **asked.look())
    values = [asked.compute(number, *operands(int(nonce, 16) + number)) for number in range(asked.count)]
    say(stage="done", values=values)


def operands(seed: int) -> tuple[list[list[float]], list[list[float]]]:
    """The matrices A and B for a seed."""
    entries = []
    for _ in range(2 * SIZE * SIZE):
        seed = (1103515245 * seed + 12345) % 2**31
        entries.append(float(seed >> 16 & 15))
    rows = [entries[start : start + SIZE] for start in range(0, len(entries), SIZE)]
    return rows[:SIZE], rows[SIZE:]


class Framework:
    """What is asked of each framework.

    Args:
        library: its module.
        device: cpu or cuda.
    """

    def __init__(self, library: Any, device: str) -> None:  # noqa: ANN401 - a module that the host lacks
        self.library = library
        self.cuda = device == "cuda"
        #: How many devices compute; known after `look`.
        self.count = 1

    def look(self) -> dict[str, Any]:
        """What it was built for and what it sees."""
        raise NotImplementedError

    def compute(self, number: int, a: list[list[float]], b: list[list[float]]) -> object:
        """A B + A on a device."""
        raise NotImplementedError


class Torch(Framework):
    """PyTorch."""

    def look(self) -> dict[str, Any]:
        """What it was built for and what it sees."""
        cuda = self.library.cuda
        seen = range(cuda.device_count()) if cuda.is_available() else range(0)
        if self.cuda:
            self.count = len(seen)
        return {
            "built_cuda": self.library.version.cuda,
            "devices": [cuda.get_device_name(number) for number in seen],
            "capabilities": [list(cuda.get_device_capability(number)) for number in seen],
            "architectures": cuda.get_arch_list(),
        }

    def compute(self, number: int, a: list[list[float]], b: list[list[float]]) -> object:
        """A B + A on a device."""
        place = self.library.device("cuda", number) if self.cuda else self.library.device("cpu")
        left = self.library.tensor(a, dtype=self.library.float32, device=place)
        right = self.library.tensor(b, dtype=self.library.float32, device=place)
        value = left @ right + left
        check(str(value.device), place.type, number)
        return value.cpu().tolist()


class Tensorflow(Framework):
    """TensorFlow."""

    def look(self) -> dict[str, Any]:
        """What it was built for and what it sees."""
        config = self.library.config
        details = [config.experimental.get_device_details(seen) for seen in config.list_physical_devices("GPU")]
        if self.cuda:
            self.count = len(details)
        built = self.library.sysconfig.get_build_info()
        return {
            "built_cuda": built.get("cuda_version"),
            "devices": [str(one.get("device_name", "")) for one in details],
            "capabilities": [list(one.get("compute_capability") or ()) for one in details],
            "architectures": built.get("cuda_compute_capabilities"),
        }

    def compute(self, number: int, a: list[list[float]], b: list[list[float]]) -> object:
        """A B + A on a device."""
        place = "GPU" if self.cuda else "CPU"
        with self.library.device(f"/{place}:{number}"):
            left = self.library.constant(a, dtype="float32")
            right = self.library.constant(b, dtype="float32")
            value = self.library.matmul(left, right) + left
        check(value.device, place, number)
        return value.numpy().tolist()


class Jax(Framework):
    """JAX, which compiles for the device it finds: it has no list of architectures."""

    def __init__(self, library: Any, device: str) -> None:  # noqa: ANN401 - a module that the host lacks
        super().__init__(library, device)
        self.places: list[Any] = []

    def look(self) -> dict[str, Any]:
        """What it was built for and what it sees."""
        seen = [one for one in self.library.devices() if one.platform in ("gpu", "cuda")]
        self.places = seen if self.cuda else self.library.devices("cpu")[:1]
        self.count = len(self.places)
        told = [str(getattr(one, "compute_capability", "")).split(".") for one in seen]
        return {
            "built_cuda": self.built(),
            "devices": [str(one.device_kind) for one in seen],
            "capabilities": [[int(part) for part in one if part.isdigit()] for one in told],
            "architectures": None,
        }

    @staticmethod
    def built() -> str | None:
        """The CUDA version it was built for, from where JAX keeps it for itself."""
        try:
            number = importlib.import_module("jax._src.lib").cuda_versions.cuda_runtime_build_version()
        except (ImportError, AttributeError):
            return None
        return f"{number // 1000}.{number % 1000 // 10}"

    def compute(self, number: int, a: list[list[float]], b: list[list[float]]) -> object:
        """A B + A on a device."""
        place = self.places[number]
        left = self.library.device_put(self.library.numpy.asarray(a, dtype="float32"), place)
        right = self.library.device_put(self.library.numpy.asarray(b, dtype="float32"), place)
        value = left @ right + left
        if value.devices() != {place}:
            raise RuntimeError(f"computed on {value.devices()}, not on {place}")
        return value.tolist()


def check(found: str, kind: str, number: int) -> None:
    """Raise when a value is not where it should have been computed."""
    wanted = kind if kind == "cpu" else f"{kind}:{number}"
    if not found.endswith(wanted):
        raise RuntimeError(f"computed on {found}, not on {wanted}")


if __name__ == "__main__":
    main(*sys.argv[1:])
