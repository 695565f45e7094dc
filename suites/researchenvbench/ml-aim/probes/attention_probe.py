"""C3 and C4 of ml-aim: the evaluation of an attention probe, as `main_attnprobe.py` does it, and a step of AIMv2.

At the pinned commit that script cannot run: it takes two values from a model that returns one. Everything else of it is
used: the model from a saved folder, the data loader over a folder of images that is split among the ranks, DDP, the
meters, and, on a GPU, process group and `evaluate` themselves, behind a model that returns two values. On the CPU,
where those insist on CUDA, the loop is written out here.

Loss and accuracy over all ranks must be those of the whole folder, computed here from the same weights without the
repository's code. A rank that saw the wrong images, or meters that were not summed, are off. Of AIMv2, an image-text
model is trained for a few steps with its image tower locked: its text embedding must not depend on what stands behind
the end of the text, and its loss must fall.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os
import runpy

import probekit
import torch
import torch.distributed as dist
from aim.v1 import logger, utils
from aim.v1.torch import data
from aim.v1.torch.models import AIMForImageClassification
from aim.v2.torch.models import AIMv2LiT
from PIL import Image
from probekit import DEVICE, NPROC, OUT, REPO
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


CLASSES, IMAGES = 4, 16
WIDTH, HEADS, BLOCKS, PROBED, PATCH = 64, 4, 4, 2, 14
CONFIG = {
    "img_size": 224,
    "patch_size": PATCH,
    "embed_dim": WIDTH,
    "num_blocks": BLOCKS,
    "num_heads": HEADS,
    "probe_layers": PROBED,
    "num_classes": CLASSES,
}
MODEL = OUT / "model"


def make_inputs() -> dict[str, float]:
    """Save images and a model of random weights, and return what the evaluation has to find."""
    images = probekit.write_images(OUT / "images", IMAGES, size=(300, 300))
    for index, image in enumerate(images):
        folder = OUT / "data" / "val" / f"class-{index % CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        image.rename(folder / image.name)

    torch.manual_seed(0)
    model = AIMForImageClassification(CONFIG)
    weights = model.state_dict()
    for name, weight in weights.items():
        if name.endswith("running_var"):
            weight.copy_(torch.rand(weight.shape) + 0.5)
        elif weight.dim() > 1:
            weight.copy_(torch.randn(weight.shape) * weight[0].numel() ** -0.5)
    model.save_pretrained(MODEL, config=CONFIG)

    pixels = torch.stack([read(OUT / "data" / "val" / f"class-{i % CLASSES}" / p.name) for i, p in enumerate(images)])
    target = torch.arange(IMAGES) % CLASSES
    with torch.inference_mode():
        logits = reference(weights, pixels)
    right = (logits.argmax(-1) == target).double().mean() * 100
    return {"loss": F.cross_entropy(logits, target).item(), "acc1": right.item(), "spread": logits.std(0).mean().item()}


def read(path: os.PathLike) -> Tensor:
    """Scale an image, cut out its middle, and normalize it."""
    image = Image.open(path).convert("RGB").resize((256, 256), Image.Resampling.BICUBIC).crop((16, 16, 240, 240))
    values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).reshape(224, 224, 3).double() / 255
    return ((values - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])).permute(2, 0, 1)


def reference(weights: dict[str, Tensor], pixels: Tensor) -> Tensor:
    """Compute the logits without the repository's code."""
    part = {name: weight.double() for name, weight in weights.items()}

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,), part[f"{name}.weight"], part[f"{name}.bias"], eps=1e-6)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (query, key, value))
        share = (query @ key.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5).softmax(-1)
        return (share @ value).transpose(1, 2).flatten(2)

    patchifier = "preprocessor.patchifier"
    kernel, bias = part[f"{patchifier}.proj.weight"], part[f"{patchifier}.proj.bias"]
    x = norm(f"{patchifier}.norm", F.conv2d(pixels, kernel, bias, stride=PATCH).flatten(2).transpose(1, 2))
    # Column and row, each as sines and cosines.
    side = 224 // PATCH
    place = torch.arange(side**2)[:, None] % side, torch.arange(side**2)[:, None] // side
    rates = 10000 ** (-torch.arange(WIDTH // 4).double() / (WIDTH // 4))
    x = x + torch.cat([wave(one * rates) for one in place for wave in (torch.sin, torch.cos)], dim=-1)
    probed = torch.zeros_like(x)
    for index in range(BLOCKS):
        block = f"trunk.blocks.{index}"
        mixed = attend(*F.linear(norm(f"{block}.norm_1", x), part[f"{block}.attn.qkv.weight"]).chunk(3, dim=-1))
        x = x + F.linear(mixed, part[f"{block}.attn.proj.weight"])
        hidden = F.gelu(F.linear(norm(f"{block}.norm_2", x), part[f"{block}.mlp.fc1.weight"]))
        x = x + F.linear(hidden, part[f"{block}.mlp.fc2.weight"])
        if index >= BLOCKS - PROBED:
            probed += x / PROBED
    probed = (probed - part["head.bn.running_mean"]) / (part["head.bn.running_var"] + 1e-6).sqrt()
    query = part["head.cls_token"].expand(len(x), -1, -1)
    pooled = attend(query, *(F.linear(probed, part[f"head.{name}.weight"]) for name in ("k", "v")))
    return F.linear(pooled.mean(1), part["head.linear.weight"])


class Pair(nn.Module):
    """Returns two values, as the repository's script takes them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: object, **options: object) -> tuple[Tensor, None]:
        """Run the model."""
        return self.model(*inputs, **options), None


@torch.no_grad()
def evaluate_on_cpu(model: nn.Module, loader: torch.utils.data.DataLoader) -> dict[str, float]:
    """Do what the script's `evaluate` does, without CUDA."""
    model.eval()
    meters = logger.MetricLogger(delimiter="  ")
    for inputs, target in meters.log_every(loader, print_freq=10, header="Test:"):
        output, _ = model(inputs, max_block_id=None)
        meters.meters["test_loss"].update(F.cross_entropy(output, target).item(), n=len(target))
        meters.meters["acc1"].update(utils.accuracy(output, target)[0].item(), n=len(target))
    sums = torch.tensor([[meter.total, meter.count] for meter in meters.meters.values()])
    dist.all_reduce(sums)
    return dict(zip(meters.meters, (sums[:, 0] / sums[:, 1]).tolist(), strict=True))


def align_texts() -> dict[str, object]:
    """Train the text tower of a small AIMv2 image-text model on the device."""
    torch.manual_seed(0)
    end, texts = 63, 8
    vision = {"vision_embed_dim": 64, "vision_mlp_hidden_dim": 128, "vision_num_blocks": 2, "vision_num_heads": 4}
    text = {"text_embed_dim": 64, "text_mlp_embed_dim": 128, "text_num_blocks": 2, "text_num_heads": 4}
    model = AIMv2LiT(56, PATCH, projection_dim=32, vocab_size=64, eos_token_id=end, **vision, **text).to(DEVICE)
    pixels = torch.randn(texts, 3, 56, 56, device=DEVICE)
    ids = probekit.token_batch(texts, 12, vocabulary=end).to(DEVICE)
    ids[:, 8] = end
    other = ids.clone()
    other[:, 9:] = (other[:, 9:] + 1) % end
    with torch.no_grad():
        behind = (model.encode_text(ids) - model.encode_text(other)).abs().max().item()
    model.image_encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=1e-3)
    losses = []
    for _ in range(20):
        logits, _ = model(pixels, ids)
        loss = F.cross_entropy(logits, torch.arange(texts, device=DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"lit_first": losses[0], "lit_last": losses[-1], "lit_behind": behind, "lit_there": logits.device.type}


def run_rank() -> None:
    """Be one rank: evaluate, and write down what came out."""
    device_ids = utils.init_distributed_mode("env://") if DEVICE == "cuda" else None
    if DEVICE == "cpu":
        dist.init_process_group("gloo")
    logger.setup_logger()
    model = AIMForImageClassification.from_pretrained(str(MODEL)).to(DEVICE)
    model = nn.parallel.DistributedDataParallel(model, device_ids=device_ids, find_unused_parameters=True)
    loader = data.create_dataloader(str(OUT / "data"), split="val", batch_size=4, num_workers=0)
    script = runpy.run_path(str(REPO / "aim-v1" / "main_attnprobe.py"))
    evaluate = script["evaluate"] if DEVICE == "cuda" else evaluate_on_cpu
    metrics = {name: float(value) for name, value in evaluate(Pair(model), loader).items()}
    seen = {"images": len(loader.sampler), "there": all(probekit.on_device(one) for one in model.parameters())}
    (OUT / f"rank-{dist.get_rank()}.json").write_text(json.dumps(metrics | seen | align_texts()), encoding="utf-8")
    dist.destroy_process_group()


def main() -> None:
    """Be a rank, or make the inputs, start the ranks and sum up."""
    if "RANK" in os.environ:
        run_rank()
        return
    wanted = make_inputs()
    probekit.run_ranks(__file__)
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(OUT.glob("rank-*.json"))]
    probekit.observe(
        ranks=len(ranks),
        images=sum(rank["images"] for rank in ranks),
        images_each=IMAGES // NPROC,
        loss=wanted["loss"],
        spread=wanted["spread"],
        loss_error=max(abs(rank["test_loss"] - wanted["loss"]) for rank in ranks),
        accuracy_error=max(abs(rank["acc1"] - wanted["acc1"]) for rank in ranks),
        lit_fall=min(rank["lit_first"] - rank["lit_last"] for rank in ranks),
        lit_behind=max(rank["lit_behind"] for rank in ranks),
        there=all(rank["there"] and rank["lit_there"] == DEVICE for rank in ranks),
    )


if __name__ == "__main__":
    main()
