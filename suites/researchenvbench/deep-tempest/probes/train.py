"""C1, C3 and C4 of Deep-TEMPEST: `end-to-end/main_train_drunet.py` trains the DRUNet that restores captured screens.

The options are the repository's, with fewer channels, pairs of small images, and a test after the last epoch. In C4
the script spreads each batch over the devices by DataParallel.

A hook of torch looks on. At every step of the training the network's output is computed anew from the weights it has
at that time, and the loss from this output, both in 64 bits; the loss must fall, and each device must have had a share.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import re

import torch
from probekit import DEVICE, NPROC, OUT, REPO, observe, on_device, run_script, write_images
from ranks import relative_error
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


BLOCKS, PAIRS, BATCH, EPOCHS, VARIATION = 2, 4, 2, 8, 1e-3
steps: list[dict[str, float]] = []
devices: set[torch.device] = set()


def write_options() -> str:
    """Write pairs of images, and the repository's options with other values for them; returns the file."""
    text = (REPO / "end-to-end/options/train_drunet.json").read_text(encoding="utf-8")
    options = json.loads(re.sub("//.*", "", text))
    options["gpu_ids"] = list(range(NPROC)) if DEVICE == "cuda" else []
    options["path"] = {"root": str(OUT), "pretrained_netG": None}
    options["netG"] |= {"nc": [16, 32, 48, 64], "nb": BLOCKS}
    options["train"] |= dict.fromkeys(("epochs", "checkpoint_test", "checkpoint_test_save", "checkpoint_save"), EPOCHS)
    options["train"] |= {"manual_seed": 0, "G_tvloss_weight": VARIATION, "G_optimizer_lr": 2e-4}
    patches = {"sigma": [0, 0], "num_patches_per_image": 1, "H_size": 64}
    loader = {"dataloader_shuffle": False, "dataloader_num_workers": 0, "dataloader_batch_size": BATCH}
    options["datasets"]["train"] |= patches | loader
    for kind in ("H", "L"):
        write_images(OUT / kind, PAIRS, size=(72, 72))
        for dataset in options["datasets"].values():
            dataset[f"dataroot_{kind}"] = str(OUT / kind)
    (OUT / "options.json").write_text(json.dumps(options), encoding="utf-8")
    return str(OUT / "options.json")


def restore(weights: dict[str, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
    """Compute what the network has to give: a U-Net with residual blocks and without biases."""

    def residual(name: str, first: int, x: torch.Tensor) -> torch.Tensor:
        for block in (f"{name}.{index}.res" for index in range(first, first + BLOCKS)):
            hidden = F.conv2d(x, weights[f"{block}.0.weight"], padding=1).relu()
            x = x + F.conv2d(hidden, weights[f"{block}.2.weight"], padding=1)
        return x

    levels = [F.conv2d(image, weights["m_head.weight"], padding=1)]
    for name in ("m_down1", "m_down2", "m_down3"):
        levels.append(F.conv2d(residual(name, 0, levels[-1]), weights[f"{name}.{BLOCKS}.weight"], stride=2))
    x = residual("m_body", 0, levels[-1])
    for name in ("m_up3", "m_up2", "m_up1"):
        x = residual(name, 1, F.conv_transpose2d(x + levels.pop(), weights[f"{name}.0.weight"], stride=2))
    return F.conv2d(x + levels.pop(), weights["m_tail.weight"], padding=1)


def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    """Hold a step of the training against plain torch."""
    kind = type(module).__name__
    if kind == "UNetRes" and on_device(output):
        devices.add(output.device)
    elif kind == "DataParallel" and output.requires_grad:
        weights = {name: weight.detach().double().cpu() for name, weight in module.module.state_dict().items()}
        steps.append({"output_error": relative_error(output, restore(weights, inputs[0].double().cpu()))})
    elif kind == "TVLoss" and output.requires_grad:
        x, target = (one.detach().double() for one in inputs)
        variation = x.diff(dim=2).abs().sum() + x.diff(dim=3).abs().sum()
        expected = F.mse_loss(x, target) + VARIATION * variation / (len(x) * x.shape[2] * x.shape[3])
        steps[-1] |= {"loss": output.item(), "loss_error": abs(output.item() / expected.item() - 1)}


torch.nn.modules.module.register_module_forward_hook(note)
run_script("end-to-end/main_train_drunet.py", "--opt", write_options())
losses = [step["loss"] for step in steps]
observe(
    steps=len(losses),
    output_error=max(step["output_error"] for step in steps),
    loss_error=max(step["loss_error"] for step in steps),
    loss_ratio=sum(losses[-2:]) / sum(losses[:2]),
    missing_devices=max(1, min(torch.cuda.device_count(), NPROC)) - len(devices),
)
