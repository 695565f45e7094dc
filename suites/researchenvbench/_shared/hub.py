"""Files where the client of a model hub finds them without a network: in its cache."""
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
from pathlib import Path


def snapshot(name: str) -> Path:
    """Make the folder of a hub's repository in the cache; the tier's `HF_HOME` says where that is."""
    cache = Path(os.environ["HF_HOME"]) / "hub" / f"models--{name.replace('/', '--')}"
    folder = cache / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(folder.name, encoding="utf-8")
    return folder
