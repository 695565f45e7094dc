"""C1 and C3 of yomitoku: its command line, run on a page as `python -m yomitoku.cli.main page.png …`.

Its configuration files make four small networks of its own. The text detector learns first where the page's two words
are, the recognizer what they say: the command must write those words in their places. By the biases of layout parser
and table recognizer everything is a table and every row a column, too. Hooks tell where the networks computed: the
command takes the CPU without a word when there is no CUDA.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import runpy
import sys

import numpy as np
import probekit
import torch
from observing import Watch, fit
from PIL import Image
from probekit import DEVICE, OUT
from yomitoku import LayoutParser, TableStructureRecognizer, TextDetector, TextRecognizer


PAGE = OUT / "input/page.png"
WORDS = {"文書": (60, 60, 220, 104), "解析": (380, 200, 540, 244)}
DETECTOR = {"decoder": {"hidden_dim": 32}, "data": {"shortest_size": 128, "limit_size": 256}}
DETECTOR |= {"post_process": {"unclip_ratio": 0.5, "thresh": 0.4}}
RECOGNIZER = {"max_label_length": 4, "data": {"img_size": [32, 128]}, "decoder": {"num_heads": 4, "embed_dim": 32}}
RECOGNIZER |= {"encoder": {"patch_size": [8, 16], "num_heads": 4, "embed_dim": 32, "depth": 1}}
DECODER = {"feat_channels": [64, 64, 64], "hidden_dim": 64, "num_layers": 2, "num_queries": 20}
RTDETR = {"data": {"img_size": [96, 96]}, "thresh_score": 0.3, "PResNet": {"depth": 18}}
RTDETR |= {"HybridEncoder": {"in_channels": [128, 256, 512], "hidden_dim": 64, "dim_feedforward": 64}}
RTDETR |= {"RTDETRTransformerv2": DECODER | {"eval_spatial_size": [96, 96]}}


def make(kind: type, part: str, **config: object) -> object:
    """Make one of yomitoku's modules by a configuration file, which names the folder of the weights."""
    path = OUT / f"{part}.yaml"
    path.write_text(json.dumps({"hf_hub_repo": str(OUT / part), **config}), encoding="utf-8")
    return kind(path_cfg=path, device=DEVICE, from_pretrained=False)


def quad(box: tuple[int, int, int, int], margin: int = 0) -> list[list[int]]:
    """Give the corners of a box, clockwise."""
    left, top, right, bottom = box[0] - margin, box[1] - margin, box[2] + margin, box[3] + margin
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


@torch.no_grad()
def settle(module: torch.nn.Module, batch: object) -> torch.nn.Module:
    """Give the batch norms of a module the statistics of one batch, and end training."""
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = 1.0
    module.train()(batch)
    return module.eval()


def teach_detector(page: np.ndarray) -> None:
    """Train the detector's decoder until it marks the two words."""
    detector = make(TextDetector, "td", **DETECTOR)
    pixels = detector.preprocess(page).to(DEVICE)
    marks = torch.zeros(1, 1, *pixels.shape[-2:], device=DEVICE)
    for box in WORDS.values():
        left, top, right, bottom = (round(edge * pixels.shape[-1] / page.shape[1]) for edge in box)
        marks[:, :, top:bottom, left:right] = 1
    backbone, decoder = detector.model.backbone.requires_grad_(False), detector.model.decoder.train()
    features, error = settle(backbone, pixels)(pixels), torch.nn.functional.binary_cross_entropy
    fit(lambda: error(decoder(dict(features))["binary"], marks), decoder.parameters(), steps=200, rate=2e-3)
    settle(decoder, dict(features))
    detector.model.save_pretrained(OUT / "td")


def teach_recognizer(page: np.ndarray) -> None:
    """Train the recognizer until it can read the two words, cut out more and less tightly."""
    recognizer, margins = make(TextRecognizer, "tr", **RECOGNIZER), (-2, 2, 6, 10)
    batches, _ = recognizer.preprocess(page, [quad(box, margin) for box in WORDS.values() for margin in margins])
    pixels, length = torch.cat(batches).to(DEVICE), RECOGNIZER["max_label_length"] + 1
    targets = torch.full((len(pixels), length), recognizer.tokenizer.eos_id, device=DEVICE)
    for rows, word in zip(targets.split(len(margins)), WORDS, strict=True):
        rows[:, : len(word)] = recognizer.tokenizer.encode([word])[0, 1:-1].to(DEVICE)

    def loss() -> torch.Tensor:
        logits = recognizer.model(pixels)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[:, : logits.shape[1]].flatten())

    fit(loss, recognizer.model.parameters(), steps=300, rate=2e-3)
    recognizer.model.save_pretrained(OUT / "tr")


@torch.no_grad()
def bias() -> None:
    """Make a layout parser that sees tables only, some half a page wide, and a table recognizer of rows as columns."""
    parser, recognizer = make(LayoutParser, "lp", **RTDETR), make(TableStructureRecognizer, "tsr", **RTDETR)
    decoder, head = parser.model.decoder, recognizer.model.decoder.dec_score_head[-1]
    decoder.dec_score_head[-1].bias[parser._cfg.category.index("tables")] = 10  # noqa: SLF001 - no other way to it
    decoder.dec_bbox_head[-1].layers[-1].bias[2:] = 3
    head.weight[1] = head.weight[0]
    head.bias[:] = torch.tensor([2.0, 2.0, -20.0])
    parser.model.save_pretrained(OUT / "lp")
    recognizer.model.save_pretrained(OUT / "tsr")


if __name__ == "__main__":
    torch.manual_seed(0)
    # In the words' boxes, upright bars and lying ones.
    page = np.full((320, 640, 3), 255, np.uint8)
    page[60:104, 60:220][:, np.arange(160) % 16 < 10] = 0  # noqa: PLR2004 - bar and gap
    page[200:244, 380:540][np.arange(44) % 12 < 7] = 0  # noqa: PLR2004 - likewise
    PAGE.parent.mkdir()
    Image.fromarray(page).save(PAGE)
    teach_detector(page)
    teach_recognizer(page)
    bias()
    given = [f"--{part}_cfg={OUT / part}.yaml" for part in ("td", "tr", "lp", "tsr")]
    sys.argv = ["yomitoku", str(PAGE), "--format=json", "--vis", f"--outdir={OUT}", f"--device={DEVICE}", *given]
    with Watch("DBNet", "PARSeq", "RTDETRv2") as watch:
        runpy.run_module("yomitoku.cli.main", run_name="__main__")
    read = json.loads((OUT / "input_page_p1.json").read_text("utf-8"))
    words, tables = sorted(read["words"], key=lambda word: word["points"][0][1]), read["tables"]
    middles = np.array([np.mean(word["points"], axis=0) for word in words])
    lines = [[sorted(line["box"] for line in table[kind]) for kind in ("rows", "cols")] for table in tables]
    probekit.observe(
        right_words=[word["content"] for word in words] == list(WORDS),
        lowest_score=min(word[score] for word in words for score in ("det_score", "rec_score")),
        farthest=float(np.abs(middles - [np.mean(quad(box), axis=0) for box in WORDS.values()]).max()),
        cells=sum(len(table["cells"]) for table in tables),
        lines_apart=sum(rows != columns for rows, columns in lines),
        other_figures=len(read["figures"]),
        **watch.calls,
        elsewhere=watch.elsewhere,
    )
