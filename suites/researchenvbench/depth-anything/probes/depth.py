"""C1 and C3 of Depth-Anything: its `run.py`, unchanged, with random weights.

The script asks the model hub for `LiheYoung/depth_anything_vits14`; the hub's cache holds one of that name, in the
files that the published one consists of. What the script writes is compared with a forward pass that is computed here
from the same weights, on the CPU and without the repository's code. A script that ran nothing, stopped half way, or
used other weights or another device than it should leaves other files, other numbers, or a model elsewhere.

xformers is optional, and its attention runs on no CPU: there it is hidden, as if it were not installed.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
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


SIZE = 518
# No square: 518 by 560 pixels reach the model.
WIDTH, HEIGHT = 130, 120
BLOCKS = (8, 9, 10, 11)
MODEL = "models--LiheYoung--depth_anything_vits14"
REVISION = "0" * 40
CONFIG = {"encoder": "vits", "features": 64, "out_channels": [48, 96, 192, 384], "use_bn": False, "use_clstoken": False}


def make_model() -> dict[str, torch.Tensor]:
    """Put a model of random weights into the hub's cache, as if it had been downloaded, and return its weights."""
    from depth_anything.dpt import DepthAnything  # noqa: PLC0415 - after xformers was hidden

    weights = dpt_reference.randomize(DepthAnything(CONFIG))
    home = Path(os.environ["HF_HOME"], "hub", MODEL)
    snapshot = home / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    torch.save(weights, snapshot / "pytorch_model.bin")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(REVISION, encoding="utf-8")
    return weights


def expected(weights: dict[str, torch.Tensor], image: Path) -> np.ndarray:
    """Compute the gray levels that the model has to give an image."""
    rgb = torch.from_numpy(cv2.imread(str(image))[:, :, ::-1].copy())
    depth = dpt_reference.depth(weights, dpt_reference.preprocess(rgb, SIZE), BLOCKS).relu()
    depth = F.interpolate(depth, (HEIGHT, WIDTH), mode="bilinear", align_corners=False)[0, 0].numpy()
    return (depth - depth.min()) / (depth.max() - depth.min()) * 255.0


def run(images: Path, outdir: Path, *arguments: str) -> bool:
    """Run the script over the images, and tell whether its model was on the right device."""
    seen = probekit.run_script("run.py", "--encoder", "vits", "--img-path", images, "--outdir", outdir, *arguments)
    return all(probekit.on_device(weight) for weight in seen["depth_anything"].parameters())


def main() -> None:
    """Run the script on a folder and on an image, and compare what it wrote."""
    if DEVICE == "cpu":
        sys.modules["xformers"] = None
    (image,) = probekit.write_images(OUT / "images", 1, size=(WIDTH, HEIGHT))
    weights = make_model()

    there = run(image.parent, OUT / "gray", "--pred-only", "--grayscale")
    there &= run(image, OUT / "coloured")

    gray = cv2.imread(str(OUT / "gray" / f"{image.stem}_depth.png")).astype(float)
    wanted = expected(weights, image)
    # A caption of 60 pixels over the image, a white gap of 50 pixels, and the depth in colours.
    picture = cv2.imread(str(OUT / "coloured" / f"{image.stem}_img_depth.png"))
    whole = picture.shape == (HEIGHT + 60, 2 * WIDTH + 50, 3)
    probekit.observe(
        gray_error=float(np.abs(gray - np.floor(wanted)[..., None]).max()),
        contrast=float(wanted.std()),
        picture=whole and bool((picture[60:, :WIDTH] == cv2.imread(str(image))).all()),
        there=there,
    )


if __name__ == "__main__":
    main()
