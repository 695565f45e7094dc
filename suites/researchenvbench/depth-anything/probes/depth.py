"""C1 and C3 of Depth-Anything: its `run.py`, unchanged, with random weights.

The script asks the model hub for `LiheYoung/depth_anything_vits14`; the hub's cache holds one of that name, in the
files that the published one consists of. The gray levels that it writes must be those that the repository's model gives
here, on the CPU, for an image that was scaled apart from the repository; the picture must hold the image, and every
attention must give what its formula does.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import cv2
import depth_inputs
import hub
import numpy as np
import probekit
import torch
from observing import Watch
from probekit import DEVICE, OUT


if TYPE_CHECKING:
    from pathlib import Path

# No square: 518 by 560 pixels reach the model.
WIDTH, HEIGHT, SCALED = 130, 120, (560, 518)
CONFIG = {"encoder": "vits", "features": 64, "out_channels": [48, 96, 192, 384], "use_bn": False, "use_clstoken": False}


def make_model() -> torch.nn.Module:
    """Put a model of random weights into the hub's cache, as if it had been downloaded."""
    from depth_anything.dpt import DepthAnything  # noqa: PLC0415 - after xformers was hidden

    model = depth_inputs.randomize(DepthAnything(CONFIG))
    folder = hub.snapshot("LiheYoung/depth_anything_vits14")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return model


@torch.inference_mode()
def expected(model: torch.nn.Module, image: np.ndarray) -> np.ndarray:
    """Compute the gray levels that the model has to give an image."""
    depth = model(depth_inputs.scale(image, SCALED))[None]
    depth = torch.nn.functional.interpolate(depth, (HEIGHT, WIDTH), mode="bilinear")[0, 0].numpy()
    return depth_inputs.levels(depth)


def run(images: Path, outdir: str, *arguments: str) -> None:
    """Run the script over the images."""
    probekit.run_script("run.py", "--encoder", "vits", "--img-path", images, "--outdir", OUT / outdir, *arguments)


if __name__ == "__main__":
    if DEVICE == "cpu":
        # It is optional, and its attention runs on no CPU.
        sys.modules["xformers"] = None
    (path,) = probekit.write_images(OUT / "images", 1, size=(WIDTH, HEIGHT))
    model, image, errors = make_model(), cv2.imread(str(path)), []
    with Watch("MemEffAttention", note=lambda *call: errors.append(depth_inputs.attention_error(*call))) as watch:
        run(path.parent, "gray", "--pred-only", "--grayscale")
        run(path, "coloured")
    gray = cv2.imread(str(OUT / "gray" / f"{path.stem}_depth.png")).astype(float)
    wanted = expected(model, image)
    # A caption of 60 pixels over the image, a white gap of 50 pixels, and the depth in colours.
    picture = cv2.imread(str(OUT / "coloured" / f"{path.stem}_img_depth.png"))
    whole = picture.shape == (HEIGHT + 60, 2 * WIDTH + 50, 3) and bool((picture[60:, :WIDTH] == image).all())
    gray_error = float(np.abs(gray - np.floor(wanted)[..., None]).max())
    probekit.observe(gray_error=gray_error, contrast=float(wanted.std()), picture=whole, elsewhere=watch.elsewhere)
    probekit.observe(attention=len(errors), attention_error=max(errors))
