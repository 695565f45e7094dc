"""C1 and C3 of yomitoku: its command line, run on a page as `python -m yomitoku.cli.main page.png …`.

The command loads four models by the names that its configuration files give, and a name may be a folder. Here all four
are yomitoku's own networks, made small by such files. Two of them learn the page first: the text detector where its two
words are, the recognizer what they say. The words that the command writes must be those, in their places. The layout
parser and the table recognizer keep random weights, with biases that have an effect to be foreseen: everything is a
table, and every row of a table is a column, too.

A hook of torch counts the calls of the networks and the devices that they were called with, because the command takes
the CPU without a word in its exit code when there is no CUDA.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import probekit
import torch
from PIL import Image, ImageDraw
from probekit import DEVICE, OUT
from yomitoku import LayoutParser, TableStructureRecognizer, TextDetector, TextRecognizer


if TYPE_CHECKING:
    from pathlib import Path

Box = tuple[int, int, int, int]

PAGE = OUT / "input/page.png"
WORDS: dict[str, Box] = {"文書": (60, 60, 220, 104), "解析": (380, 200, 540, 244)}
SIDE = 96
DETECTOR_STEPS, RECOGNIZER_STEPS = 200, 300

WIDTHS = {"in_channels": [128, 256, 512], "hidden_dim": 64, "dim_feedforward": 64}
RTDETR = {
    "data": {"img_size": [SIDE, SIDE]},
    "thresh_score": 0.3,
    "PResNet": {"depth": 18},
    "HybridEncoder": WIDTHS,
    "RTDETRTransformerv2": {
        "feat_channels": [64, 64, 64],
        "hidden_dim": 64,
        "num_layers": 2,
        "num_queries": 20,
        "eval_spatial_size": [SIDE, SIDE],
    },
}
CONFIGS = {
    "detector": {
        "decoder": {"hidden_dim": 32},
        "data": {"shortest_size": 128, "limit_size": 256},
        "post_process": {"unclip_ratio": 0.5, "thresh": 0.4},
    },
    "recognizer": {
        "max_label_length": 4,
        "data": {"img_size": [32, 128]},
        "encoder": {"patch_size": [8, 16], "num_heads": 4, "embed_dim": 32, "depth": 1},
        "decoder": {"num_heads": 4, "embed_dim": 32},
    },
    "layout": RTDETR,
    "tables": RTDETR,
}


def draw_page() -> np.ndarray:
    """Draw a page of two words: one of upright bars, one of lying ones. Return it as yomitoku holds pages, in BGR."""
    page = Image.new("RGB", (640, 320), "white")
    draw = ImageDraw.Draw(page)
    upright, lying = WORDS.values()
    for left in range(upright[0], upright[2], 16):
        draw.rectangle((left, upright[1], left + 9, upright[3]), fill="black")
    for top in range(lying[1], lying[3], 12):
        draw.rectangle((lying[0], top, lying[2], top + 6), fill="black")
    PAGE.parent.mkdir()
    page.save(PAGE)
    return np.array(page)[:, :, ::-1]


def write_config(name: str) -> Path:
    """Write one of the configuration files, which names the folder of the weights."""
    path = OUT / f"{name}.yaml"
    path.write_text(json.dumps({"hf_hub_repo": str(OUT / name), **CONFIGS[name]}), encoding="utf-8")
    return path


def quad(box: Box, margin: int = 0) -> list[list[int]]:
    """Give the corners of a box, clockwise."""
    left, top, right, bottom = box[0] - margin, box[1] - margin, box[2] + margin, box[3] + margin
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


@torch.no_grad()
def settle(module: torch.nn.Module, batch: object) -> torch.nn.Module:
    """Give the batch norms of a module the statistics of one batch, and end training mode."""
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = 1.0
    module.train()(batch)
    return module.eval()


def teach_detector(page: np.ndarray) -> None:
    """Train the text detector's decoder on the page until it marks the two words, and save it with the rest."""
    detector = TextDetector(path_cfg=write_config("detector"), device=DEVICE, from_pretrained=False)
    pixels = detector.preprocess(page).to(DEVICE)
    height, width = pixels.shape[-2:]
    marks = torch.zeros(1, 1, height, width, device=DEVICE)
    for box in WORDS.values():
        left, top, right, bottom = (round(edge * width / page.shape[1]) for edge in box)
        marks[:, :, top:bottom, left:right] = 1
    with torch.no_grad():
        features = settle(detector.model.backbone, pixels)(pixels)
    decoder = detector.model.decoder.train()
    optimizer = torch.optim.Adam(decoder.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, DETECTOR_STEPS)
    for _ in range(DETECTOR_STEPS):
        loss = torch.nn.functional.binary_cross_entropy(decoder(dict(features))["binary"], marks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print("detector's loss:", loss.item())
    settle(decoder, dict(features))
    detector.model.save_pretrained(OUT / "detector")


def teach_recognizer(page: np.ndarray) -> None:
    """Train the text recognizer on the two words, cut out more and less tightly, and save it."""
    recognizer = TextRecognizer(path_cfg=write_config("recognizer"), device=DEVICE, from_pretrained=False)
    margins = (-2, 2, 6, 10)
    batches, _ = recognizer.preprocess(page, [quad(box, margin) for box in WORDS.values() for margin in margins])
    pixels = torch.cat(batches).to(DEVICE)
    end = recognizer.tokenizer.eos_id
    targets = torch.full((len(pixels), recognizer._cfg.max_label_length + 1), end, device=DEVICE)  # noqa: SLF001 - no other way to it
    for index, word in enumerate(WORDS):
        rows = slice(index * len(margins), (index + 1) * len(margins))
        targets[rows, : len(word)] = recognizer.tokenizer.encode([word])[0, 1:-1].to(DEVICE)
    optimizer = torch.optim.Adam(recognizer.model.parameters(), lr=2e-3)
    for _ in range(RECOGNIZER_STEPS):
        logits = recognizer.model(pixels)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[:, : logits.shape[1]].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("recognizer's loss:", loss.item())
    recognizer.model.save_pretrained(OUT / "recognizer")


@torch.no_grad()
def bias_layout() -> None:
    """Make a layout parser that sees tables only, some half a page wide, and save it."""
    parser = LayoutParser(path_cfg=write_config("layout"), device="cpu", from_pretrained=False)
    decoder = parser.model.decoder
    decoder.dec_score_head[-1].bias[parser._cfg.category.index("tables")] = 10  # noqa: SLF001 - no other way to it
    decoder.dec_bbox_head[-1].layers[-1].bias[2:] = 3
    parser.model.save_pretrained(OUT / "layout")


@torch.no_grad()
def bias_tables() -> None:
    """Make a table recognizer that scores each row as a column, and no span, and save it."""
    recognizer = TableStructureRecognizer(path_cfg=write_config("tables"), device="cpu", from_pretrained=False)
    head = recognizer.model.decoder.dec_score_head[-1]
    head.weight[1] = head.weight[0]
    head.bias[:] = torch.tensor([2.0, 2.0, -20.0])
    recognizer.model.save_pretrained(OUT / "tables")


def read_page() -> tuple[Counter[str], Counter[str]]:
    """Run the command; count the calls of its networks, and those on another device than the one asked for."""
    calls: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()

    def count(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], _: object) -> None:
        name = type(module).__name__
        if name in {"DBNet", "PARSeq", "RTDETRv2"}:
            calls[name] += 1
            weight = next(module.parameters())
            elsewhere[name] += not (probekit.on_device(inputs[0]) and probekit.on_device(weight))

    hook = torch.nn.modules.module.register_module_forward_hook(count)
    sys.argv = ["yomitoku", str(PAGE), "--format=json", "--vis", f"--outdir={OUT / 'results'}", f"--device={DEVICE}"]
    options = {"td_cfg": "detector", "tr_cfg": "recognizer", "lp_cfg": "layout", "tsr_cfg": "tables"}
    sys.argv += [f"--{option}={OUT / name}.yaml" for option, name in options.items()]
    runpy.run_module("yomitoku.cli.main", run_name="__main__")
    hook.remove()
    return calls, elsewhere


def main() -> None:
    """Make page and models, run the command, and write down what it wrote."""
    torch.manual_seed(0)
    page = draw_page()
    teach_detector(page)
    teach_recognizer(page)
    bias_layout()
    bias_tables()
    calls, elsewhere = read_page()

    read = json.loads((OUT / "results/input_page_p1.json").read_text("utf-8"))
    words = sorted(read["words"], key=lambda word: word["points"][0][1])
    middles = [np.mean(word["points"], axis=0) for word in words]
    wanted = [np.mean(quad(box), axis=0) for box in WORDS.values()]
    tables = read["tables"]
    probekit.observe(
        words=len(words),
        right_words=[word["content"] for word in words] == list(WORDS),
        lowest_score=min(min(word["det_score"], word["rec_score"]) for word in words),
        farthest=max(float(np.abs(middle - want).max()) for middle, want in zip(middles, wanted, strict=True)),
        tables=len(tables),
        cells=sum(len(table["cells"]) for table in tables),
        lines_apart=sum(
            sorted(row["box"] for row in table["rows"]) != sorted(column["box"] for column in table["cols"])
            for table in tables
        ),
        other_figures=len(read["figures"]),
        detector_calls=calls["DBNet"],
        recognizer_calls=calls["PARSeq"],
        layout_calls=calls["RTDETRv2"],
        on_other_devices=elsewhere.total(),
    )


if __name__ == "__main__":
    main()
