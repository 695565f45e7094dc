"""C1 and C3 of comic-translate: its detector of text and speech bubbles, and its engine for fonts, on a page made here.

The page has cells of plain colours. The networks are made here, too: one takes red cells for bubbles, which reach one
cell further on all sides, green ones for text in a bubble and blue ones for other text; the other takes the mean colour
of a piece for that of its text. Blocks with other places, classes or colours come from a runtime that computes
something else, or from a step that was passed over: the repository catches the exceptions of the second network.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
from hub import snapshot
from modules.detection.factory import DetectionEngineFactory
from modules.detection.font import config
from modules.detection.processor import TextBlockDetector
from modules.utils.download import ModelDownloader, ModelID, ModelSpec
from onnx_file import node, write
from probekit import DEVICE, OUT, observe


CELLS, WIDTH, HEIGHT, PIXELS = 8, 400, 560, 640
RED, GREEN, BLUE = (220, 40, 60), (30, 200, 60), (20, 60, 240)
PAGE = {(2, 2): RED, (2, 3): GREEN, (6, 5): BLUE}
DETECTOR = [
    node("AveragePool", "images", "means", kernel_shape=[PIXELS // CELLS] * 2, strides=[PIXELS // CELLS] * 2),
    node("Reshape", "means by_cell", "colours"),
    node("ArgMax", "colours", "labels", axis=1, keepdims=0),
    node("ReduceMax", "colours", "most", axes=[1], keepdims=0),
    node("ReduceMin", "colours", "least", axes=[1], keepdims=0),
    node("Sub", "most least", "scores"),
    node("Equal", "labels bubble", "is_bubble"),
    node("Cast", "is_bubble", "bubbles", to=1),
    node("Unsqueeze", "bubbles last", "wider"),
    node("Mul", "wider margin", "margins"),
    node("Add", "margins grid", "places"),
    node("Cast", "orig_target_sizes", "size", to=1),
    node("Concat", "size size", "sizes", axis=1),
    node("Mul", "places sizes", "boxes"),
]
FONT = [
    node("GlobalAveragePool", "piece", "mean"),
    node("Flatten", "mean", "colour"),
    node("MatMul", "colour weights", "out"),
]


def write_networks() -> None:
    """Write the detector where the hub's client keeps it, and the other where the repository is told."""
    folder = snapshot("ogkalu/comic-text-and-bubble-detector")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    row, column = np.divmod(np.arange(CELLS**2, dtype=np.float32), CELLS)
    grid = np.stack([column, row, column + 1, row + 1], 1)[None] / CELLS
    margin = np.array([[[-1, -1, 1, 1]]], np.float32) / CELLS
    numbers = {"by_cell": [1, 3, CELLS**2], "bubble": [0], "last": [2]}
    constants = {"grid": grid, "margin": margin} | {name: np.array(value) for name, value in numbers.items()}
    inputs = {"images": ("float32", (1, 3, PIXELS, PIXELS)), "orig_target_sizes": ("int64", (1, 2))}
    shapes = {"labels": ("int64", (1, CELLS**2)), "boxes": ("float32", (1, CELLS**2, 4))}
    write(folder / "detector.onnx", DETECTOR, constants, inputs, shapes | {"scores": ("float32", (1, CELLS**2))})
    # Green text is vertical; two directions stand before the three colours.
    weights = np.zeros((3, config.FONT_COUNT + 12), np.float32)
    weights[[2, 1, 0, 1, 2], config.FONT_COUNT + np.arange(5)] = 1
    inputs, shapes = {"piece": ("float32", (1, 3, 512, 512))}, {"out": ("float32", (1, config.FONT_COUNT + 12))}
    write(OUT / "font-detector.onnx", FONT, {"weights": weights}, inputs, shapes)
    digest = hashlib.sha256((OUT / "font-detector.onnx").read_bytes()).hexdigest()
    ModelDownloader.register(ModelSpec(ModelID.FONT_DETECTOR_ONNX, "", ["font-detector.onnx"], [digest], str(OUT)))


def main() -> None:
    """Write the networks, detect, and say what was found."""
    write_networks()
    page = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    high, wide = HEIGHT // CELLS, WIDTH // CELLS
    for (row, column), colour in PAGE.items():
        page[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = colour
    settings = SimpleNamespace(is_gpu_enabled=lambda: DEVICE == "cuda", get_tool_selection=lambda _: "RT-DETR-v2")
    blocks = sorted(TextBlockDetector(settings).detect(page), key=lambda block: block.xyxy[1])
    found = [[*block.xyxy, *block.font_color] for block in blocks] + [[*blocks[0].bubble_xyxy, *RED]]
    corners, colours = ((3, 2, 4, 3), (5, 6, 6, 7), (1, 1, 4, 4)), (GREEN, BLUE, RED)
    wanted = [[*np.multiply(box, (wide, high) * 2), *colour] for box, colour in zip(corners, colours, strict=True)]
    engine = DetectionEngineFactory.create_engine(settings)
    observe(
        blocks=len(blocks),
        classes=" ".join(f"{block.text_class}:{block.direction}" for block in blocks),
        error=int(np.abs(np.subtract(found, wanted)).max()),
        there=f"{DEVICE.upper()}ExecutionProvider" in engine.session.get_providers(),
    )


if __name__ == "__main__":
    main()
