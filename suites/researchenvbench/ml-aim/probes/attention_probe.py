"""C3 and C4 of ml-aim: the evaluation of an attention probe, as `main_attnprobe.py` does it, and a training of AIMv2.

At the pinned commit that script takes two values from a model that returns one, so it cannot run. Everything else of it
is used, behind a model that returns two; on the CPU, where `evaluate` insists on CUDA, its loop is written out. Loss
and accuracy of all ranks have to be those of the whole folder, computed without the repository's code. An image-text
model of AIMv2 learns with its image tower locked, and what stands behind a text's end must not count.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import runpy
from functools import partial
from typing import TYPE_CHECKING

import probekit
import torch
import torch.distributed as dist
from aim.v1 import logger, utils
from aim.v1.torch import data
from aim.v1.torch.models import AIMForImageClassification
from aim.v2.torch.models import AIMv2LiT
from observing import fit
from PIL import Image
from probekit import DEVICE, OUT, REPO, write_images
from ranks import be_a_rank, relative_error, spread
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


if TYPE_CHECKING:
    from pathlib import Path

CLASSES, MODEL = 4, OUT / "model"
WIDTH, HEADS, BLOCKS, PROBED, PATCH = 64, 4, 4, 2, 14
CONFIG = {"img_size": 224, "patch_size": PATCH, "embed_dim": WIDTH, "num_blocks": BLOCKS, "num_heads": HEADS}
CONFIG |= {"probe_layers": PROBED, "num_classes": CLASSES}
LAYERS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
LIT = {"vision_embed_dim": 64, "vision_mlp_hidden_dim": 128, "vision_num_blocks": 2, "vision_num_heads": 4}
LIT |= {"text_embed_dim": 64, "text_mlp_embed_dim": 128, "text_num_blocks": 2, "text_num_heads": 4}
LIT |= {"img_size": 56, "patch_size": PATCH, "projection_dim": 32, "vocab_size": 64, "eos_token_id": 63}


def make_inputs() -> dict[str, float]:
    """Save images and a model of random weights, and return what the evaluation has to find."""
    classes = [write_images(OUT / f"data/val/class-{one}", 4, size=(300, 300), seed=one) for one in range(CLASSES)]
    torch.manual_seed(0)
    model = AIMForImageClassification(CONFIG)
    weights = model.state_dict()
    for name, weight in weights.items():
        if name.endswith("running_var"):
            weight.copy_(torch.rand(weight.shape) + 0.5)
        elif weight.dim() > 1:
            weight.copy_(torch.randn(weight.shape) * weight[0].numel() ** -0.5)
    model.save_pretrained(MODEL, config=CONFIG)
    logits = reference(weights, torch.stack([read(path) for paths in classes for path in paths]))
    target = torch.arange(CLASSES).repeat_interleave(4)
    right = (logits.argmax(-1) == target).double().mean() * 100
    return {"loss": F.cross_entropy(logits, target).item(), "acc1": right.item(), "spread": logits.std(0).mean().item()}


def read(path: Path) -> Tensor:
    """Scale an image, cut out its middle, and normalize it."""
    image = Image.open(path).convert("RGB").resize((256, 256), Image.Resampling.BICUBIC).crop((16, 16, 240, 240))
    values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).reshape(224, 224, 3).double() / 255
    return ((values - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])).permute(2, 0, 1)


@torch.no_grad()
def reference(weights: dict[str, Tensor], pixels: Tensor) -> Tensor:
    """Compute the logits without the repository's code."""
    part = {name: weight.double() for name, weight in weights.items()}

    def attend(*three: Tensor) -> Tensor:
        query, key, value = (x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in three)
        return ((query @ key.mT * key.shape[-1] ** -0.5).softmax(-1) @ value).transpose(1, 2).flatten(2)

    norm = partial(F.layer_norm, normalized_shape=(WIDTH,), eps=1e-6)
    kernel, bias = (part[f"preprocessor.patchifier.proj.{name}"] for name in ("weight", "bias"))
    x = norm(F.conv2d(pixels, kernel, bias, PATCH).flatten(2).transpose(1, 2))
    # Column and row, each as sines and cosines.
    side, rates = torch.arange(224 // PATCH), 10000 ** (-torch.arange(WIDTH // 4).double() / (WIDTH // 4))
    place = side.repeat(len(side)), side.repeat_interleave(len(side))
    x = x + torch.cat([wave(one[:, None] * rates) for one in place for wave in (torch.sin, torch.cos)], dim=-1)
    probed = torch.zeros_like(x)
    for index in range(BLOCKS):
        qkv, proj, fc1, fc2 = (part[f"trunk.blocks.{index}.{name}.weight"].T for name in LAYERS)
        x = x + attend(*(norm(x) @ qkv).chunk(3, dim=-1)) @ proj
        x = x + F.gelu(norm(x) @ fc1) @ fc2
        probed += x / PROBED * (index >= BLOCKS - PROBED)
    probed = (probed - part["head.bn.running_mean"]) / (part["head.bn.running_var"] + 1e-6).sqrt()
    key, value, last = (part[f"head.{name}.weight"].T for name in ("k", "v", "linear"))
    return attend(part["head.cls_token"].expand(len(x), -1, -1), probed @ key, probed @ value).mean(1) @ last


@torch.no_grad()
def evaluate_on_cpu(model: nn.Module, loader: torch.utils.data.DataLoader) -> dict[str, float]:
    """Do what the script's `evaluate` does, without CUDA."""
    meters = logger.MetricLogger(delimiter="  ")
    for inputs, target in meters.log_every(loader, print_freq=10, header="Test:"):
        output, _ = model.eval()(inputs, max_block_id=None)
        meters.meters["test_loss"].update(F.cross_entropy(output, target).item(), n=len(target))
        meters.meters["acc1"].update(utils.accuracy(output, target)[0].item(), n=len(target))
    sums = torch.tensor([[meter.total, meter.count] for meter in meters.meters.values()])
    dist.all_reduce(sums)
    return dict(zip(meters.meters, (sums[:, 0] / sums[:, 1]).tolist(), strict=True))


def evaluate() -> dict[str, object]:
    """Be one rank: evaluate, and tell what came out."""
    be_a_rank()
    utils.init_distributed_mode("env://") if DEVICE == "cuda" else dist.init_process_group("gloo")
    logger.setup_logger()
    model = AIMForImageClassification.from_pretrained(str(MODEL)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    model.register_forward_hook(lambda *call: (call[-1], None))
    loader = data.create_dataloader(str(OUT / "data"), split="val", batch_size=4, num_workers=0)
    script = runpy.run_path(str(REPO / "aim-v1" / "main_attnprobe.py"))
    meters = (script["evaluate"] if DEVICE == "cuda" else evaluate_on_cpu)(model, loader)
    dist.destroy_process_group()
    seen = {"images": len(loader.sampler), "there": all(map(probekit.on_device, model.parameters()))}
    return seen | {name: float(value) for name, value in meters.items()}


def align_texts() -> dict[str, object]:
    """Train the text tower of a small image-text model."""
    torch.manual_seed(0)
    model = AIMv2LiT(**LIT).to(DEVICE)
    pixels, ids = torch.randn(8, 3, 56, 56, device=DEVICE), probekit.token_batch(8, 12, vocabulary=62).to(DEVICE)
    ids[:, 8] = LIT["eos_token_id"]
    other = torch.cat([ids[:, :9], ids[:, 9:] + 1], dim=1)
    behind = relative_error(model.encode_text(other), model.encode_text(ids))
    model.image_encoder.requires_grad_(requires_grad=False)
    target, weights = torch.arange(8, device=DEVICE), [one for one in model.parameters() if one.requires_grad]
    losses = fit(lambda: F.cross_entropy(model(pixels, ids)[0], target), weights, steps=20, rate=1e-3)
    return {"lit_fall": losses[0] - losses[-1], "lit_behind": behind}


if __name__ == "__main__":
    wanted: dict[str, float] = {}
    ranks = spread(evaluate, before=lambda: wanted.update(make_inputs()))
    probekit.observe(
        **{"ranks": len(ranks), "spread": wanted["spread"]} | align_texts(),
        images=sum(rank["images"] for rank in ranks),
        images_each=max(rank["images"] for rank in ranks),
        loss_error=max(abs(rank["test_loss"] - wanted["loss"]) for rank in ranks),
        accuracy_error=max(abs(rank["acc1"] - wanted["acc1"]) for rank in ranks),
        there=all(rank["there"] for rank in ranks),
    )
