"""C1, C3 and C4 of Sapiens: `seg/tools/train.py` trains the estimator of surface normals, from the repository's config.

The config is made smaller: a vision transformer with two layers, narrow convolutions and images of 192 by 256. Images,
masks and normals are written here; the normals all look at the camera, which can be learnt in a few steps. The heads
need the compiled operators of the repository's own mmcv, which are asked for first.

A hook of torch looks on: both losses, of angle and of distance, are computed anew over the pixels inside the mask, and
their sum must fall. With several ranks the weights must be the same on all in the end, while their images differ.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import numpy as np
import torch
from extensions import require
from mmengine.config import Config
from PIL import Image
from probekit import DEVICE, NPROC, OUT, REPO, observe, on_device, run_script, write_images
from ranks import spread
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


IMAGES, BATCH, EPOCHS, WIDTH, HEIGHT = 4, 2, 6, 192, 256
ARCHITECTURE = {"embed_dims": 64, "num_layers": 2, "num_heads": 4, "feedforward_channels": 128}
NARROW = {"in_channels": 64, "channels": 32, "deconv_out_channels": (32,) * 3, "conv_out_channels": (32,) * 3}


def prepare() -> None:
    """Write images with masks and normals, and the repository's config with other values for them."""
    (OUT / "data/masks").mkdir(parents=True)
    (OUT / "data/normals").mkdir()
    mask = np.full((HEIGHT, WIDTH), 255, np.uint8)
    mask[: HEIGHT // 8] = 0
    for image in write_images(OUT / "data/images", IMAGES * NPROC, size=(WIDTH, HEIGHT)):
        Image.fromarray(mask).save(OUT / "data/masks" / image.name)
        np.save(OUT / "data/normals" / f"{image.stem}.npy", np.full((HEIGHT, WIDTH, 3), (0.0, 0.0, 1.0)))
    config = Config.fromfile(REPO / "seg/configs/sapiens_normal/normal_general/sapiens_0.3b_normal_general-1024x768.py")
    config.model.data_preprocessor.size = (HEIGHT, WIDTH)
    config.model.backbone.update(arch=ARCHITECTURE, img_size=(HEIGHT, WIDTH), init_cfg=None)
    config.model.decode_head.update(NARROW)
    config.model.decode_head.norm_cfg.type = "SyncBN" if DEVICE == "cuda" else "BN"
    config.optim_wrapper.optimizer.lr, config.optim_wrapper.paramwise_cfg.num_layers = 5e-3, 2
    config.param_scheduler, config.train_cfg.max_epochs, config.default_hooks.checkpoint.interval = None, EPOCHS, EPOCHS
    config.env_cfg.dist_cfg.backend = "nccl" if DEVICE == "cuda" else "gloo"
    config.train_dataloader.update(batch_size=BATCH, num_workers=0, persistent_workers=False)
    config.train_dataloader.dataset.datasets[0].data_root = str(OUT / "data")
    for step in config.train_dataloader.dataset.pipeline:
        step.update({"scale": (WIDTH, HEIGHT)} if "scale" in step else {})
        step.update({"crop_size": (HEIGHT, WIDTH)} if "crop_size" in step else {})
    config.dump(OUT / "config.py")


def train() -> dict[str, object]:
    """Train as one rank, and note what the losses saw."""
    losses, errors, there, models = [], [], [], []

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: object) -> None:
        kind = type(module).__name__
        if kind == "DepthEstimator":
            models[:] = [module]
        elif kind in {"CosineSimilarityLoss", "L1Loss"} and len(inputs) > 1:
            inside = inputs[1][:, 0] > -100  # noqa: PLR2004 - what is outside the mask has -1000
            found, wanted = (one.detach().double().movedim(1, -1)[inside] for one in inputs[:2])
            angle, distance = 1 - F.cosine_similarity(found, wanted, dim=-1), (found - wanted).abs().sum(-1)
            expected = (angle if kind == "CosineSimilarityLoss" else distance).mean().item()
            losses.append(output.item())
            errors.append(abs(output.item() - expected))
            there.append(on_device(inputs[0]))

    torch.nn.modules.module.register_module_forward_hook(note)
    launcher = "pytorch" if NPROC > 1 else "none"
    run_script("seg/tools/train.py", OUT / "config.py", "--work-dir", OUT / "work", "--launcher", launcher)
    weights = [weight.detach().double().sum().item() for weight in models[0].parameters()]
    return {"losses": losses, "error": max(errors), "there": all(there), "weights": weights}


require("mmcv._ext", distribution="mmcv")
ranks = spread(train, before=prepare)
observe(
    ranks=len(ranks),
    there=all(rank["there"] for rank in ranks),
    losses=min(len(rank["losses"]) for rank in ranks),
    loss_error=max(rank["error"] for rank in ranks),
    loss_ratio=max(sum(rank["losses"][-4:]) / sum(rank["losses"][:4]) for rank in ranks),
    other_weights=sum(rank["weights"] != ranks[0]["weights"] for rank in ranks),
)
