"""C1, C3 and C4 of LightlyTrain: three steps of SimCLR by its command, `lightly-train pretrain`, on images made here.

The model is the one of the published harness, the tiny DINOv3 ViT, with random weights. The command is found as
installed: by the distribution's entry point. A hook of torch looks on, and changes nothing: at every step it notes what
went into the contrastive loss, what came out, and a fingerprint of the projection head's weights.

From the notes of all ranks the loss is computed anew, in plain torch: with several ranks, every rank's images are
negatives of every other's, so a rank that worked alone shows a wrong loss. The fingerprints must change from step to
step and, with several ranks, be equal on all of them while their images differ.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import distribution
from typing import TYPE_CHECKING

from probekit import DEVICE, NPROC, OUT, observe, run_ranks, write_images


if TYPE_CHECKING:
    import torch

#: C4 has several ranks, the other tiers have this process alone.
RANKS = NPROC if os.environ.get("RANKS") == "all" else 1
IMAGES_PER_RANK = 4
STEPS = 3
#: SimCLR's default in the repository.
TEMPERATURE = 0.1


def pretrain() -> None:
    """Run the command, as one rank, and note what the loss saw."""
    import torch  # noqa: PLC0415 - the parent of several ranks does without

    steps: list[dict[str, object]] = []
    fingerprint: list[float] = []

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if type(module).__name__ == "SimCLRProjectionHead":
            fingerprint[:] = [parameter.detach().double().sum().item() for parameter in module.parameters()]
        if type(module).__name__ == "NTXentLoss":
            views = [view.detach().cpu().tolist() for view in inputs]
            device = inputs[0].device.type
            steps.append({"views": views, "loss": output.item(), "device": device, "weights": list(fingerprint)})

    torch.nn.modules.module.register_module_forward_hook(note)
    (command,) = (entry for entry in distribution("lightly-train").entry_points if entry.name == "lightly-train")
    sys.argv = [
        "lightly-train",
        "pretrain",
        f"out={OUT / 'run'}",
        f"data={OUT / 'images'}",
        "model=dinov3/vitt16-notpretrained",
        "method=simclr",
        "epochs=1",
        f"batch_size={IMAGES_PER_RANK * RANKS}",
        "num_workers=0",
        f"devices={RANKS}",
        f"accelerator={'gpu' if DEVICE == 'cuda' else 'cpu'}",
        f"strategy={'ddp' if RANKS > 1 else 'auto'}",
        "precision=32-true",
        "overwrite=true",
        "trainer_args.log_every_n_steps=1",
        "transform_args.image_size=[64,64]",
    ]
    command.load()()
    (OUT / f"rank-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(steps), encoding="utf-8")


def contrastive_loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Compute the loss of every image's two views, as the SimCLR paper defines it."""
    import torch  # noqa: PLC0415 - the parent of several ranks does without until now

    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = (views @ views.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    count = len(first)
    positives = torch.arange(2 * count).roll(count)
    losses = torch.nn.functional.cross_entropy(similarity, positives, reduction="none")
    return losses.view(2, count).mean(dim=0)


def compare(ranks: list[list[dict]]) -> None:
    """Hold the ranks' notes against the definition, and against each other."""
    import torch  # noqa: PLC0415 - the parent of several ranks does without until now

    error = 0.0
    losses = []
    for step in range(STEPS):
        notes = [steps[step] for steps in ranks]
        first, second = (torch.cat([torch.tensor(note["views"][view]) for note in notes]).double() for view in (0, 1))
        expected = contrastive_loss(first, second).view(len(ranks), -1).mean(dim=1)
        actual = torch.tensor([note["loss"] for note in notes]).double()
        error = max(error, (actual - expected).abs().max().item())
        losses.append(actual.mean().item())
    weights = [[note["weights"] for note in notes] for notes in ranks]
    logged = [json.loads(line) for line in (OUT / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    logged_losses = [line["train_loss"] for line in logged if "train_loss" in line]
    observe(
        ranks=len(ranks),
        steps=min(len(notes) for notes in ranks),
        on_other_devices=sum(note["device"] != DEVICE for notes in ranks for note in notes),
        loss_error=error,
        logged_error=max(abs(logged_losses[step] - losses[step]) for step in range(STEPS)),
        first_loss=losses[0],
        steps_without_change=sum(weights[0][step] == weights[0][step - 1] for step in range(1, STEPS)),
        ranks_out_of_step=sum(other != weights[0] for other in weights[1:]),
        ranks_with_equal_images=sum(other[0]["views"] == ranks[0][0]["views"] for other in ranks[1:]),
    )


def write_bitmaps(count: int) -> None:
    """Write images in a format that LightlyTrain reads with Pillow: torchvision's decoders need a matching torch."""
    from PIL import Image  # noqa: PLC0415 - what the environment lacks must fail where it is needed

    for path in write_images(OUT / "images", count, size=(96, 96)):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()


def main() -> None:
    """Be a rank, or make the images, run the ranks, and look at what they noted."""
    if "RANK" in os.environ:
        pretrain()
        return
    write_bitmaps(IMAGES_PER_RANK * RANKS * STEPS)
    if RANKS > 1:
        run_ranks(__file__)
    else:
        pretrain()
    compare([json.loads((OUT / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS)])


if __name__ == "__main__":
    main()
