"""A picture of `researchenv watch` about a made-up run, for the documentation: `python -m benchmarks.watchpicture`.

It is written to `docs/images/watch.svg`, or to the file that is named.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from pytest_researchenv.recording.entry import Outcome
from pytest_researchenv.watching.attempts import Output, Used
from pytest_researchenv.watching.drawing import drawn
from pytest_researchenv.watching.processes import Life
from pytest_researchenv.watching.watched import Picture, Row, SessionLine


_IMAGE = Path(__file__).parents[1] / "docs" / "images" / "watch.svg"
_NOW = datetime(2026, 11, 3, 14, 2, 11, tzinfo=UTC).timestamp()
_WIDTH, _HEIGHT = 118, 22

#: Fonts from elsewhere: a picture must need nothing beside it.
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)

_PICTURE = Picture(
    run="november",
    now=_NOW,
    sessions=(SessionLine("20261103T073000-5c1f9ab0e2d4", _NOW - 23_531, Life.AT_WORK, 0.0, False, None),),
    others=1,
    agents=("claude-sonnet", "codex"),
    tests=616,
    counts=Counter({Outcome.PASSED: 171, Outcome.FAILED: 64, Outcome.ERROR: 2, Outcome.SKIPPED: 29}),
    rows=(
        Row("gw0", "claude-sonnet", "kvpress", "agent at work", 1893.0, 3600.0, Used(64, 1_834_201, 2.0417)),
        Row("gw1", "codex", "long-context-attention", "probing C3", 71.0, 600.0, Used(41, 702_118, 0.9127)),
        Row("gw2", "claude-sonnet", "LettuceDetect", "agent at work", 3481.0, 3600.0, Used(118, 4_120_554, 4.7730)),
        Row("gw3", "codex", "tinyddp", "freezing", 12.0, None, Used(22, 268_930, 0.3351)),
    ),
    remaining_s=31_020.0,
    spent_usd=148.92,
    limit_usd=400.0,
    output=("claude-sonnet kvpress", Output(Path("transcript.log"), _NOW - 2)),
    lines=(
        "Building wheel for flash-attn (setup.py): still running...",
        "  Building wheel for flash-attn (setup.py): finished with status 'done'",
        "Successfully installed flash-attn-2.7.4 kvpress-0.2.5 torch-2.6.0 transformers-4.51.3",
        "$ python -c 'import torch; print(torch.cuda.is_available(), torch.cuda.device_count())'",
        "True 2",
        "$ python evaluation/evaluate.py --dataset loogle --model tiny-random-llama --press_name knorm",
        "Running with KnormPress(compression_ratio=0.5)",
        "  3%|▎         | 2/64 [00:07<03:41,  3.57s/it]",
    ),
)


def main() -> None:
    """Draw it."""
    # The same wherever it is made.
    os.environ["TZ"] = "UTC"
    time.tzset()
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _IMAGE
    console = Console(record=True, width=_WIDTH, height=_HEIGHT, file=io.StringIO(), force_terminal=True, emoji=False)
    console.print(drawn(_PICTURE, width=_WIDTH, height=_HEIGHT))
    image = console.export_svg(
        title="researchenv watch november", code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id="watch"
    )
    path.write_text("\n".join(line.rstrip() for line in image.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
