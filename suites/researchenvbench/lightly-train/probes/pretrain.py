"""C1, C3 and C4 of LightlyTrain: three steps of SimCLR by its command, `lightly-train pretrain`, on images made here.

The model is the tiny DINOv3 ViT with random weights. The command is found as installed, by the distribution's entry
point. Hooks note what went into the contrastive loss, what came out, and the projection head's weights. The loss is
computed anew from the views of all ranks, since every rank's images are negatives of every other's; the weights must
change at every step and be equal on all ranks while their images differ.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import sys
from importlib.metadata import distribution

import torch
from observing import Watch, fingerprint
from PIL import Image
from probekit import DEVICE, NPROC, OUT, observe, write_images
from ranks import in_step, spread


#: Images of a rank in a step.
SHARE, STEPS = 4, 3
#: SimCLR's default in the repository.
TEMPERATURE = 0.1
SETTINGS = f"""
out={OUT}/run data={OUT}/images model=dinov3/vitt16-notpretrained method=simclr epochs=1 batch_size={SHARE * NPROC}
num_workers=0 devices={NPROC} accelerator={"gpu" if DEVICE == "cuda" else "cpu"} precision=32-true overwrite=true
strategy={"ddp" if NPROC > 1 else "auto"} trainer_args.log_every_n_steps=1 transform_args.image_size=[64,64]
"""


def write_bitmaps() -> None:
    """Write images in a format that LightlyTrain reads with Pillow: torchvision's decoders need a matching torch."""
    for path in write_images(OUT / "images", SHARE * NPROC * STEPS, size=(96, 96)):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()


def pretrain() -> dict[str, object]:
    """Run the command, as one rank, and note what the loss saw."""
    steps: list[dict] = [{}]

    def note(module: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        if type(module).__name__ == "SimCLRProjectionHead":
            steps[-1]["weights"] = fingerprint(module)
        else:
            steps[-1] |= {"views": [view.tolist() for view in inputs], "loss": output.item()}
            steps.append({})

    (command,) = (entry for entry in distribution("lightly-train").entry_points if entry.name == "lightly-train")
    sys.argv = ["lightly-train", "pretrain", *SETTINGS.split()]
    with Watch("SimCLRProjectionHead", "NTXentLoss", note=note) as watch:
        command.load()()
    return {"steps": steps[:-1], "elsewhere": watch.elsewhere}


def contrastive_loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Compute the loss of every image's two views, as the SimCLR paper defines it."""
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = (views @ views.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    pairs = torch.arange(len(views)).roll(len(first))
    return torch.nn.functional.cross_entropy(similarity, pairs, reduction="none").view(2, -1).mean(dim=0)


if __name__ == "__main__":
    ranks = spread(pretrain, before=write_bitmaps)
    errors, losses = [], []
    for notes in zip(*(rank["steps"] for rank in ranks), strict=True):
        first, second = (torch.cat([torch.tensor(note["views"][view]).double() for note in notes]) for view in (0, 1))
        actual = torch.tensor([note["loss"] for note in notes]).double()
        errors.append((actual - contrastive_loss(first, second).view(len(ranks), -1).mean(dim=1)).abs().max().item())
        losses.append(actual.mean().item())
    logged = [json.loads(line) for line in (OUT / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    told = [line["train_loss"] for line in logged if "train_loss" in line]
    observe(
        ranks=len(ranks),
        steps=len(losses),
        elsewhere=sum(rank["elsewhere"] for rank in ranks),
        loss_error=max(errors),
        logged_error=max(abs(one - other) for one, other in zip(told, losses, strict=True)),
        first_loss=losses[0],
        ranks_with_equal_images=sum(rank["steps"][0]["views"] == ranks[0]["steps"][0]["views"] for rank in ranks[1:]),
        **in_step([[note["weights"] for note in rank["steps"]] for rank in ranks]),
    )
