"""C1 and C3 of Depth-Anything-V2: `run.py` and `metric_depth/run.py`, unchanged, with random weights.

The checkpoint is the state dict of the repository's own small model. The gray levels and metres that the scripts write
must be those that this model gives here, on the CPU, for images that were scaled apart from the repository; every
attention must give what its formula does.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
import sys

import cv2
import depth_inputs
import numpy as np
import probekit
import torch
from observing import Watch
from probekit import DEVICE, OUT


WIDTH, HEIGHT, SIZE, SCALED, MAX_DEPTH = 160, 120, 224, (294, 224), 20.0
CHECKPOINT = OUT / "checkpoints" / "depth_anything_v2_vits.pth"


def make_model() -> torch.nn.Module:
    """Save random weights in the format of the published ones; both scripts take the same."""
    from depth_anything_v2.dpt import DepthAnythingV2  # noqa: PLC0415 - after xformers was hidden

    model = DepthAnythingV2(encoder="vits", features=64, out_channels=[48, 96, 192, 384])
    depth_inputs.randomize(model)
    CHECKPOINT.parent.mkdir()
    torch.save(model.state_dict(), CHECKPOINT)
    return model


@torch.inference_mode()
def expected(model: torch.nn.Module, image: np.ndarray, *, metric: bool) -> np.ndarray:
    """Compute what the model has to say about an image, in the image's size."""
    pixels = depth_inputs.scale(image, SCALED)
    grid = SCALED[1] // 14, SCALED[0] // 14
    features = model.pretrained.get_intermediate_layers(pixels, [2, 5, 8, 11], return_class_token=True)
    depth = model.depth_head(features, *grid)
    depth = MAX_DEPTH * depth.sigmoid() if metric else depth.relu()
    return torch.nn.functional.interpolate(depth, (HEIGHT, WIDTH), mode="bilinear", align_corners=True)[0, 0].numpy()


def run(script: str, outdir: str, *arguments: object) -> None:
    """Run a script over the images."""
    # Both scripts bring a package of this name.
    for name in [name for name in sys.modules if name.partition(".")[0] == "depth_anything_v2"]:
        del sys.modules[name]
    common = ("--encoder", "vits", "--img-path", OUT / "images", "--input-size", SIZE, "--outdir", OUT / outdir)
    probekit.run_script(script, *common, *arguments)


if __name__ == "__main__":
    if DEVICE == "cpu":
        # It is optional, and its attention runs on no CPU.
        sys.modules["xformers"] = None
    os.chdir(OUT)
    model, paths = make_model(), probekit.write_images(OUT / "images", 2, size=(WIDTH, HEIGHT))
    errors: dict[str, list[float]] = {"gray": [], "metric": [], "attention": []}
    seen, contrast, pictures = errors["attention"], [], 0
    with Watch("MemEffAttention", note=lambda *call: seen.append(depth_inputs.attention_error(*call))) as watch:
        run("run.py", "relative", "--pred-only", "--grayscale")
        run("metric_depth/run.py", "metric", "--load-from", CHECKPOINT, "--max-depth", MAX_DEPTH, "--save-numpy")
    for path in paths:
        image = cv2.imread(str(path))
        levels = depth_inputs.levels(expected(model, image, metric=False))
        gray = cv2.imread(str(OUT / "relative" / path.name)).astype(float)
        errors["gray"].append(float(np.abs(gray - np.floor(levels)[..., None]).max()))
        metres = np.load(OUT / "metric" / f"{path.stem}_raw_depth_meter.npy")
        errors["metric"].append(float(np.abs(metres - expected(model, image, metric=True)).max()))
        contrast.append(float(levels.std()))
        # The image, a white gap of 50 pixels, and the depth in colours.
        picture = cv2.imread(str(OUT / "metric" / path.name))
        pictures += picture.shape == (HEIGHT, 2 * WIDTH + 50, 3) and bool((picture[:, :WIDTH] == image).all())
    probekit.observe(**{f"{name}_error": max(found) for name, found in errors.items()}, contrast=min(contrast))
    probekit.observe(attention=len(seen), elsewhere=watch.elsewhere, pictures=pictures)
