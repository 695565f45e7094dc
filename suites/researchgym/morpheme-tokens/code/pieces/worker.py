"""One call of a method: what is needed comes in a file, and so does what comes out.

    python -m pieces.worker FOLDER

`FOLDER/request.json` says what to do. The evaluation calls methods in no other way, each call in a new process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pieces.methods import method_named


__all__ = ["main"]


def main(folder: Path) -> None:
    """Do what a request says."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    method = method_named(request["method"])
    if request["action"] == "learn":
        vocabulary = method.learn(request["texts"], request["size"], request["seed"])
        (folder / "out" / "vocabulary.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    else:
        splits = [method.split(request["vocabulary"], word) for word in request["words"]]
        (folder / "out" / "splits.json").write_text(json.dumps(splits), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
