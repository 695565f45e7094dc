"""C1, C3 and C4 of ml-mdm: its training of a U-Net on images and captions, and sampling from what it learned.

The images, their index and a T5 of random weights are made here; the vocabulary, the reader of mlx-data and the
configuration are the repository's, with a U-Net that is made small by its own options. C1 and C3 run `main` of
`clis/train_parallel.py`. Right after it saved the last checkpoint that script calls `torch.mps.empty_cache`, which only
torch for macOS has, and it is let end there. The weights that it saved must give a lower loss than their moving
average, which stays near the start, and a model that gets them must sample images.

The script joins ranks by NCCL whatever the device. C4 therefore does with a group of its own what `main` does: the
repository's reader hands each rank its share of the rows, and `trainer.train_batch` trains under DDP. Ranks that did
not average their gradients would end with different weights, for they see different pictures and noise.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import tarfile

import numpy as np
import probekit
import torch
import torch.distributed as dist
from ml_mdm import reader, trainer
from ml_mdm.clis import train_parallel
from ml_mdm.config import get_arguments, get_model, get_pipeline
from ml_mdm.language_models import factory
from ml_mdm.lr_scaler import LRScaler
from probekit import DEVICE, NPROC, OUT, REPO
from transformers import T5Config, T5ForConditionalGeneration


PACKAGE = REPO / "ml-mdm-matryoshka"
ROWS, BATCH, SIDE, STEPS, DRAWS = 16, 2, 16, 8, 8
MODEL = OUT / f"model/vis_model_noema_{STEPS:06d}.pth"


def write_inputs() -> None:
    """Make a tar of images, its index, the list of indices, and a text encoder for the repository's vocabulary."""
    lines = ["tar\tfile\tcaption"]
    with tarfile.open(OUT / "images.tar", "w") as tar:
        for number, path in enumerate(probekit.write_images(OUT / "images", ROWS, size=(SIDE, SIDE))):
            tar.add(path, path.name)
            lines.append(f"{OUT / 'images.tar'}\t{path.name}\tA picture of {number} blocks.")
    (OUT / "images.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (OUT / "train.tsv").write_text(f"filename\n{OUT / 'images.tsv'}\n", encoding="utf-8")
    torch.manual_seed(0)
    config = T5Config(vocab_size=32128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    T5ForConditionalGeneration(config).save_pretrained(OUT / "t5")


def arguments() -> argparse.Namespace:
    """Have the repository parse a command line: its configuration for 64 x 64, with a smaller U-Net."""
    options = {
        "model-config-file": PACKAGE / "configs/models/cc12m_64x64.yaml",
        "vocab_file": PACKAGE / "data/t5.vocab",
        "text-model": OUT / "t5",
        "file-list": OUT / "train.tsv",
        "output-dir": OUT / "model",
        "multinode": 0,
        "batch-size": BATCH,
        "num-training-steps": STEPS,
        "lr": 0.004,
        "warmup-steps": 1,
        "log-freq": 1,
        "num_readers": 1,
        "reader_buffer_size": 2,
        "image_size": SIDE,
        "resolution_channels": "32,32",
        "num_resnets_per_resolution": "1,1",
        "attention_levels": "1",
        "num_attention_layers": "0,1",
        "conditioning_feature_proj_dim": 32,
    }
    return get_arguments([f"--{name}={value}" for name, value in options.items()], mode="trainer")


class LossLog(logging.Handler):
    """Collects the losses that the script logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.losses: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take the loss out of one message."""
        found = re.match(r"Batch: \d+ - \{'loss': ([^,]+),", record.getMessage())
        if found:
            self.losses.append(float(found[1]))


def train(args: argparse.Namespace) -> list[float]:
    """Run the script's `main`, and return the losses that it logged."""
    log = LossLog()
    logging.basicConfig(level=logging.INFO, handlers=[log, logging.StreamHandler()])
    try:
        train_parallel.main(args)
    except (AttributeError, RuntimeError) as error:
        if "emptyCache" not in str(error):
            raise
    return log.losses


def build(args: argparse.Namespace, width: int) -> torch.nn.Module:
    """Make the repository's diffusion model, on the device."""
    args.unet_config.conditioning_feature_dim = width
    unet = get_model(args.model)(3, 3, args.unet_config).to(DEVICE)
    return get_pipeline(args.model)(unet, args.diffusion_config).to(torch.device(DEVICE))


@torch.no_grad()
def encode(sample: dict, language_model: torch.nn.Module, tokenizer: object) -> dict:
    """Add to what the reader gave what the script adds: scaled images and encoded captions."""
    sample = train_parallel.load_batch(sample, torch.device(DEVICE))
    sample["images"] = ((sample["image"] - 127.0) / 128.0).permute(0, 3, 1, 2)
    sample["lm_outputs"], sample["lm_mask"] = language_model(sample, tokenizer)
    return sample


def loader(args: argparse.Namespace, rank: int, ranks: int, tokenizer: object) -> object:
    """Have the repository read a rank's share of the rows."""
    settings = (args.batch_size, args.file_list, args.reader_config, args.num_epochs)
    return iter(reader.get_dataset_partition(rank, ranks, tokenizer, *settings, is_index_file=True))


@torch.no_grad()
def loss_of(diffusion: torch.nn.Module, sample: dict) -> float:
    """Give the loss over some draws of noise, the same for every model."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return sum(diffusion.get_loss(sample)[0].mean().item() for _ in range(DRAWS)) / DRAWS


def run_single() -> None:
    """C1 and C3: train by the script, sample from what it saved, and write down what was seen."""
    np.random.seed(0)  # noqa: NPY002 - as the script does
    torch.manual_seed(0)
    losses = train(arguments())
    trained = torch.load(MODEL, weights_only=False)
    average = torch.load(str(MODEL).replace("_noema", ""), weights_only=False)["state_dict"]
    weights = trained["state_dict"]

    args = arguments()
    tokenizer, language_model = factory.create_lm(args, device=torch.device(DEVICE))
    diffusion = build(args, language_model.embed_dim)
    sample = encode(loader(args, 0, 1, tokenizer).next(), language_model, tokenizer)
    diffusion.model.vision_model.load_state_dict(average)
    before = loss_of(diffusion, sample)
    diffusion.model.vision_model.load_state_dict(weights)
    after = loss_of(diffusion, sample)
    with torch.no_grad():
        settings = {"resample_steps": True, "num_inference_steps": DRAWS}
        images = diffusion.sample(BATCH, sample, SIDE, torch.device(DEVICE), **settings)
    probekit.observe(
        steps=trained["batch_num"],
        losses=len(losses),
        loss_ratio=after / before,
        weights_moved=max((weights[name] - average[name]).abs().max().item() for name in weights),
        trained_there=all(map(probekit.on_device, weights.values())),
        drawn=list(images.shape) == [BATCH, 3, SIDE, SIDE] and probekit.finite(images) and probekit.on_device(images),
        brightest=images.abs().max().item(),
        contrast=images.std().item(),
    )


def run_rank() -> None:
    """Be one rank: train on a share of the rows, and write down losses, captions and weights."""
    rank = int(os.environ["RANK"])
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    torch.manual_seed(rank)
    args = arguments()
    tokenizer, language_model = factory.create_lm(args, device=torch.device(DEVICE))
    diffusion = build(args, language_model.embed_dim)
    diffusion.model = torch.nn.parallel.DistributedDataParallel(diffusion.model)
    optimizer = torch.optim.AdamW(diffusion.model.parameters(), lr=args.lr)
    scheduler = LRScaler().get_lr_scheduler(args.warmup_steps, optimizer)
    rows = loader(args, rank, NPROC, tokenizer)
    first = encode(rows.next(), language_model, tokenizer)
    before = loss_of(diffusion, first)
    losses, captions = [], set()
    for _ in range(STEPS):
        sample = encode(rows.next(), language_model, tokenizer)
        captions |= set(map(reader.convert, sample["caption"]))
        losses.append(trainer.train_batch(diffusion, sample, optimizer, scheduler, None, args)[0])
    report = {"losses": losses, "captions": sorted(captions), "loss_ratio": loss_of(diffusion, first) / before}
    dist.barrier()
    dist.destroy_process_group()
    torch.save(diffusion.model.module.state_dict(), OUT / f"rank-{rank}.pt")
    (OUT / f"rank-{rank}.json").write_text(json.dumps(report), "utf-8")


def run_ranks() -> None:
    """C4: start the ranks, and compare what they wrote."""
    probekit.run_ranks(__file__)
    reports = [json.loads((OUT / f"rank-{rank}.json").read_text("utf-8")) for rank in range(NPROC)]
    weights = [torch.load(OUT / f"rank-{rank}.pt") for rank in range(NPROC)]
    captions = [set(report["captions"]) for report in reports]
    probekit.observe(
        captions=len(set.union(*captions)),
        captions_shared=len(set.intersection(*captions)),
        losses_apart=min(abs(one - two) for one, two in zip(reports[0]["losses"], reports[1]["losses"], strict=True)),
        loss_ratio=max(report["loss_ratio"] for report in reports),
        weights_apart=max((weights[0][name].cpu() - weights[1][name].cpu()).abs().max().item() for name in weights[0]),
        trained_there=all(map(probekit.on_device, weights[0].values())),
    )


def main() -> None:
    """Be a rank, or make the inputs and train."""
    if "RANK" in os.environ:
        run_rank()
        return
    write_inputs()
    if NPROC > 1:
        run_ranks()
    else:
        run_single()


if __name__ == "__main__":
    main()
