"""Say what this interpreter is, and what its torch sees: what C5 compares a self-report with.

Runs in a throw-away container by the interpreter that is judged: standard library only, Python 3.8 and newer.

    python -I -S -B -X pycache_prefix=FOLDER claims.py FIRST SECOND PYTHON
    PYTHON -B claims.py SECOND

The first question is put without site folders, start-up hooks and variables, so that nothing but the interpreter
itself answers. Its process then becomes that of the second, which knows no other nonce than its own: whatever site
folders bring along, and whatever torch does when it is imported, cannot answer the first once more.

An answer is a line of the nonce, a space, and a JSON object. Importing torch may end the process, so that the second
may be missing.
"""  # pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import json
import os
import sys


#: Most records of one distribution that are named.
_MOST_RECORDS = 4


def main(nonce: str, following: str = "", python: str = "") -> None:
    """Answer the first question and go on to the second, or answer the second."""
    if following:
        _say(nonce, {"python_version": sys.version.split()[0], "executable": sys.executable})
        os.execv(python, [python, "-B", __file__, following])  # noqa: S606 - no shell is wanted
    _say(nonce, _torch())


def _say(nonce: str, answer: dict[str, object]) -> None:
    print(f"\n{nonce} {json.dumps(answer)}", flush=True)


def _torch() -> dict[str, object]:
    answer: dict[str, object] = {
        "torch_version": None,
        "error": "",
        "cuda_available": False,
        "gpu_count": 0,
        "file": "",
        "records": [],
    }
    try:
        import torch  # type: ignore[import-not-found] # noqa: PLC0415 - may be missing, which is an answer

        answer["torch_version"] = str(torch.__version__)
        answer["file"] = str(getattr(torch, "__file__", None) or "")
        answer["records"] = _records()
        answer["cuda_available"] = bool(torch.cuda.is_available())
        answer["gpu_count"] = int(torch.cuda.device_count())
    except BaseException as error:  # noqa: BLE001 - a broken torch raises anything at all, SystemExit too
        answer["error"] = f"{type(error).__name__}: {error}"[:500]
    return answer


def _records() -> list[str]:
    """Where installers recorded a torch: paths of `.dist-info` and `.egg-info`, to be read from outside."""
    from importlib.metadata import distributions  # noqa: PLC0415 - not for the first question

    found: list[str] = []
    for distribution in distributions(name="torch"):
        path = str(getattr(distribution, "_path", "") or "")
        if path and path not in found:
            found.append(path)
    return found[:_MOST_RECORDS]


if __name__ == "__main__":
    main(*sys.argv[1:4])
