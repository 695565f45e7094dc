"""C1 and C3 of Depth-Anything-V2: `run.py` and `metric_depth/run.py`, unchanged, with random weights.

The checkpoint is the state dict of the repository's own small model. What the scripts write is compared with a forward
pass that is computed here from the same weights, on the CPU and without the repository's code: gray levels of the
relative depth, and the metric depth in metres. A script that ran nothing, stopped half way, or used other weights or
another device than it should leaves other files, other numbers, or a model elsewhere.

xformers is optional, and its attention runs on no CPU: there it is hidden, as if it were not installed.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import cv2
import dpt_reference
import numpy as np
import probekit
import torch
from probekit import DEVICE, OUT
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


SIZE = 224
WIDTH, HEIGHT = 160, 120
BLOCKS = (2, 5, 8, 11)
MAX_DEPTH = 20.0


def make_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """Save random weights in the format of the published ones; both models have the same."""
    from depth_anything_v2.dpt import DepthAnythingV2  # noqa: PLC0415 - after xformers was hidden

    model = DepthAnythingV2(encoder="vits", features=64, out_channels=[48, 96, 192, 384])
    weights = dpt_reference.randomize(model)
    path.parent.mkdir()
    torch.save(weights, path)
    return weights


def expected(weights: dict[str, torch.Tensor], image: Path, *, metric: bool) -> np.ndarray:
    """Compute what the model has to say about an image, in the image's size."""
    rgb = torch.from_numpy(cv2.imread(str(image))[:, :, ::-1].copy())
    depth = dpt_reference.depth(weights, dpt_reference.preprocess(rgb, SIZE), BLOCKS)
    depth = MAX_DEPTH * depth.sigmoid() if metric else depth.relu()
    return F.interpolate(depth, (HEIGHT, WIDTH), mode="bilinear", align_corners=True)[0, 0].numpy()


def levels(depth: np.ndarray) -> np.ndarray:
    """Spread a depth over the gray levels."""
    return (depth - depth.min()) / (depth.max() - depth.min()) * 255.0


def run(script: str, outdir: Path, *arguments: object) -> bool:
    """Run a script over the images, and tell whether its model was on the right device."""
    # Both scripts bring a package of this name.
    for name in [name for name in sys.modules if name.partition(".")[0] == "depth_anything_v2"]:
        del sys.modules[name]
    common = ("--encoder", "vits", "--img-path", OUT / "images", "--input-size", SIZE, "--outdir", outdir)
    model = probekit.run_script(script, *common, *arguments)["depth_anything"]
    return all(probekit.on_device(weight) for weight in model.parameters())


def main() -> None:
    """Run both scripts, and compare what they wrote."""
    if DEVICE == "cpu":
        sys.modules["xformers"] = None
    os.chdir(OUT)
    images = probekit.write_images(OUT / "images", 2, size=(WIDTH, HEIGHT))
    checkpoint = OUT / "checkpoints" / "depth_anything_v2_vits.pth"
    weights = make_checkpoint(checkpoint)

    relative = run("run.py", OUT / "relative", "--pred-only", "--grayscale")
    metric = run(
        "metric_depth/run.py", OUT / "metric", "--load-from", checkpoint, "--max-depth", MAX_DEPTH, "--save-numpy"
    )

    gray_error, metric_error, contrast, pictures = 0.0, 0.0, 255.0, 0
    for image in images:
        gray = cv2.imread(str(OUT / "relative" / image.name)).astype(float)
        wanted = levels(expected(weights, image, metric=False))
        gray_error = max(gray_error, float(np.abs(gray - np.floor(wanted)[..., None]).max()))
        contrast = min(contrast, float(wanted.std()))
        metres = np.load(OUT / "metric" / f"{image.stem}_raw_depth_meter.npy")
        metric_error = max(metric_error, float(np.abs(metres - expected(weights, image, metric=True)).max()))
        # The image, a white gap of 50 pixels, and the depth in colours.
        picture = cv2.imread(str(OUT / "metric" / image.name))
        whole = picture.shape == (HEIGHT, 2 * WIDTH + 50, 3)
        pictures += whole and bool((picture[:, :WIDTH] == cv2.imread(str(image))).all())
    probekit.observe(
        gray_error=gray_error,
        metric_error=metric_error,
        contrast=contrast,
        pictures=pictures,
        relative_there=relative,
        metric_there=metric,
    )


if __name__ == "__main__":
    main()
