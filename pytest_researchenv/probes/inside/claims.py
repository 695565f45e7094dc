"""Say what this interpreter is, and what its torch sees: what C5 compares a self-report with.

Runs in a throw-away container by the interpreter that is judged: standard library only, Python 3.8 and newer.

    python claims.py NONCE

Prints two lines of the nonce, a space, and a JSON object: one before torch is touched, one after, since importing it
may end the process.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version


def main(nonce: str) -> None:
    """Print both answers."""
    _say(nonce, {"python_version": sys.version.split()[0], "executable": sys.executable, "metadata": _metadata()})
    _say(nonce, _torch())


def _say(nonce: str, answer: dict[str, object]) -> None:
    print(f"\n{nonce} {json.dumps(answer)}", flush=True)


def _metadata() -> str | None:
    """Version of torch as its installer recorded it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def _torch() -> dict[str, object]:
    answer: dict[str, object] = {"torch_version": None, "error": "", "cuda_available": False, "gpu_count": 0}
    try:
        import torch  # type: ignore[import-not-found] # noqa: PLC0415 - may be missing, which is an answer

        answer["torch_version"] = str(torch.__version__)
        answer["cuda_available"] = bool(torch.cuda.is_available())
        answer["gpu_count"] = int(torch.cuda.device_count())
    except BaseException as error:  # noqa: BLE001 - a broken torch raises anything at all, SystemExit too
        answer["error"] = f"{type(error).__name__}: {error}"[:500]
    return answer


if __name__ == "__main__":
    main(sys.argv[1])
