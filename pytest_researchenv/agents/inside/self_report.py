"""Write an honest self-report, run by the interpreter it is about: `self_report.py FILE ENV_TOOL ENV_NAME NOTES`.

Standard library only. Nothing is printed: what start-up files print would stand beside it.
"""

from __future__ import annotations

import json
import platform
import sys


def torch_facts() -> dict[str, object]:
    """What torch says of itself and of the devices; nothing is claimed where it cannot be imported."""
    try:
        import torch  # type: ignore[import-not-found] # noqa: PLC0415 - may be missing, which is a fact to report
    except Exception as error:  # noqa: BLE001 - a broken torch raises anything at all
        print(f"torch cannot be imported: {error!r}", file=sys.stderr)
        return {"torch_version": None, "cuda_available": False, "gpu_count": 0}
    return {
        "torch_version": torch.__version__,
        "cuda_available": torch.cuda.is_available(),
        "gpu_count": torch.cuda.device_count(),
    }


def main(file: str, env_tool: str, env_name: str, notes: str) -> None:
    """Write the nine fields."""
    report = {
        "python_path": sys.executable,
        "python_version": platform.python_version(),
        **torch_facts(),
        "ddp_expected_ok": None,
        "env_tool": env_tool,
        "env_name": env_name,
        "notes": notes,
    }
    with open(file, "w") as stream:  # noqa: PTH123 - old interpreters are reported, too
        json.dump(report, stream, indent=2)
        stream.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:5])
