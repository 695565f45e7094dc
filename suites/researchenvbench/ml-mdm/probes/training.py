"""C1, C3 and C4 of ml-mdm: its training of a U-Net on images and captions, and sampling from what it learned.

Images, index and a T5 of random weights are made here; vocabulary, reader and configuration are the repository's, with
a U-Net made small by its options. C1 and C3 run `main` of `clis/train_parallel.py`, which after its last checkpoint
calls `torch.mps.empty_cache`, that only torch for macOS has, and is let end there. What it saved must give a lower loss
than the moving average, which stays near the start, and sample images. The script takes NCCL whatever the device: C4
does the same in a group of its own, by `train_batch` under DDP, which must leave all ranks equal weights.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import logging
import runpy
import tarfile
from typing import TYPE_CHECKING

import numpy as np
import probekit
import torch
from ml_mdm import reader, trainer
from ml_mdm.config import get_arguments, get_model, get_pipeline
from ml_mdm.language_models import factory
from ml_mdm.lr_scaler import LRScaler
from observing import apart, fingerprint, logged
from probekit import DEVICE, NPROC, OUT, REPO
from ranks import RANK, process_group, spread
from transformers import T5Config, T5ForConditionalGeneration


if TYPE_CHECKING:
    from pathlib import Path

# Installed without `--editable`, the package has no scripts.
SCRIPT = runpy.run_path(str(REPO / "ml-mdm-matryoshka/ml_mdm/clis/train_parallel.py"))
ROWS, BATCH, SIDE, STEPS = 16, 2, 16, 8
SETTINGS = f"""
--model-config-file={REPO}/ml-mdm-matryoshka/configs/models/cc12m_64x64.yaml --num_readers=1 --reader_buffer_size=2
--vocab_file={REPO}/ml-mdm-matryoshka/data/t5.vocab --text-model={OUT}/t5 --file-list={OUT}/train.tsv --lr=0.004
--output-dir={OUT}/model --multinode=0 --batch-size={BATCH} --num-training-steps={STEPS} --warmup-steps=1 --log-freq=1
--image_size={SIDE} --resolution_channels=32,32 --num_resnets_per_resolution=1,1 --attention_levels=1
--num_attention_layers=0,1 --conditioning_feature_proj_dim=32
"""


def write_inputs() -> None:
    """Make a tar of images, its index, the list of indices, and a text encoder for the repository's vocabulary."""
    lines = ["tar\tfile\tcaption\n"]
    with tarfile.open(OUT / "images.tar", "w") as tar:
        for number, path in enumerate(probekit.write_images(OUT / "images", ROWS, size=(SIDE, SIDE))):
            tar.add(path, path.name)
            lines.append(f"{OUT / 'images.tar'}\t{path.name}\tA picture of {number} blocks.\n")
    (OUT / "images.tsv").write_text("".join(lines), encoding="utf-8")
    (OUT / "train.tsv").write_text(f"filename\n{OUT / 'images.tsv'}\n", encoding="utf-8")
    torch.manual_seed(0)
    config = T5Config(vocab_size=32128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    T5ForConditionalGeneration(config).save_pretrained(OUT / "t5")


class Workshop:
    """The repository's model, reader and text encoder, for this rank."""

    def __init__(self) -> None:
        self.args, self.device = get_arguments(SETTINGS.split(), mode="trainer"), torch.device(DEVICE)
        self.tokenizer, self.language_model = factory.create_lm(self.args, device=self.device)
        self.args.unet_config.conditioning_feature_dim = self.language_model.embed_dim
        unet = get_model(self.args.model)(3, 3, self.args.unet_config).to(DEVICE)
        self.diffusion = get_pipeline(self.args.model)(unet, self.args.diffusion_config).to(self.device)
        settings = (self.args.batch_size, self.args.file_list, self.args.reader_config, self.args.num_epochs)
        self.rows = iter(reader.get_dataset_partition(RANK, NPROC, self.tokenizer, *settings, is_index_file=True))

    @torch.no_grad()
    def batch(self) -> dict:
        """Read a batch of this rank's rows, and add what the script adds: scaled images and encoded captions."""
        sample = SCRIPT["load_batch"](self.rows.next(), self.device)
        sample["images"] = ((sample["image"] - 127.0) / 128.0).permute(0, 3, 1, 2)
        sample["lm_outputs"], sample["lm_mask"] = self.language_model(sample, self.tokenizer)
        return sample

    @torch.no_grad()
    def loss(self, sample: dict) -> float:
        """Give the loss over some draws of noise, the same every time."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return sum(self.diffusion.get_loss(sample)[0].mean().item() for _ in range(8)) / 8


@torch.no_grad()
def sample_from(path: Path) -> dict[str, object]:
    """Look at what the script saved, compare it with its moving average, and sample from it."""
    trained, average = (torch.load(file, weights_only=False) for file in (path, str(path).replace("_noema", "")))
    shop, found = Workshop(), []
    sample = shop.batch()
    for saved in (average, trained):
        shop.diffusion.model.vision_model.load_state_dict(saved["state_dict"])
        found.append(shop.loss(sample))
    images = shop.diffusion.sample(BATCH, sample, SIDE, shop.device, resample_steps=True, num_inference_steps=8)
    there = probekit.on_device(images) and all(map(probekit.on_device, trained["state_dict"].values()))
    return {
        "steps": trained["batch_num"],
        "loss_ratio": found[1] / found[0],
        "drawn": images.shape == sample["images"].shape and probekit.finite(images),
        "brightest": images.abs().max().item(),
        "contrast": images.std().item(),
        "there": there,
    }


def train() -> dict[str, object]:
    """C1 and C3: train by the script, whose losses are read from its log, and look at what came out."""
    np.random.seed(0)  # noqa: NPY002 - as the script does
    torch.manual_seed(0)
    logging.basicConfig(level=logging.INFO)
    with logged("", r"^Batch: \d+ - \{'loss': ([^,]+),") as losses:
        try:
            SCRIPT["main"](get_arguments(SETTINGS.split(), mode="trainer"))
        except (AttributeError, RuntimeError) as error:
            if "emptyCache" not in str(error):
                raise
    return {"losses": len(losses), **sample_from(OUT / f"model/vis_model_noema_{STEPS:06d}.pth")}


def train_together() -> dict[str, object]:
    """C4: be one rank, train on a share of the rows, and tell losses, captions and weights."""
    with process_group():
        torch.manual_seed(RANK)
        shop = Workshop()
        model = shop.diffusion.model = torch.nn.parallel.DistributedDataParallel(shop.diffusion.model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=shop.args.lr)
        scheduler = LRScaler().get_lr_scheduler(shop.args.warmup_steps, optimizer)
        first, losses, captions = shop.batch(), [], []
        before = shop.loss(first)
        for _ in range(STEPS):
            sample = shop.batch()
            captions += map(reader.convert, sample["caption"])
            losses.append(trainer.train_batch(shop.diffusion, sample, optimizer, scheduler, None, shop.args)[0])
        seen = {"losses": losses, "captions": captions, "weights": fingerprint(model)}
        seen["there"] = all(map(probekit.on_device, model.parameters()))
        return seen | {"loss_ratio": shop.loss(first) / before}


if __name__ == "__main__":
    ranks = spread(train if NPROC == 1 else train_together, before=write_inputs)
    if NPROC > 1:
        one, two = ranks
        mine, others = set(one["captions"]), set(two["captions"])
        probekit.observe(
            captions=len(mine | others),
            captions_shared=len(mine & others),
            losses_apart=min(abs(loss - other) for loss, other in zip(one["losses"], two["losses"], strict=True)),
            weights_apart=apart([one["weights"], two["weights"]]),
            loss_ratio=max(one["loss_ratio"], two["loss_ratio"]),
            there=one["there"] and two["there"],
        )
    else:
        probekit.observe(**ranks[0])
