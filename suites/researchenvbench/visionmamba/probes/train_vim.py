"""C1, C3 and C4 of VisionMamba: the forward pass of its `Vim` against plain torch, and training it.

The repository's `example.py` gives `Vim` an argument that it does not take at this commit, and ends with a TypeError.
Here the model is made as it does otherwise, but smaller. Its output must be what a recurrence, written from the paper's
formulas, gives in double precision on the CPU; then it is trained for some steps. In C4 the ranks train it by DDP: the
step must be the one of the whole batch, and not the one of a rank's own share.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import probekit
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from observing import fit
from probekit import DEVICE, NPROC
from ranks import process_group, relative_error, spread
from torch import nn
from vision_mamba import Vim


SIZE, PATCH, WIDTH, STATES, DELTA = 40, 8, 32, 8, 4
SHAPE = {"dim": WIDTH, "dt_rank": DELTA, "dim_inner": WIDTH, "d_state": STATES, "num_classes": 10, "depth": 2}


def make_model() -> Vim:
    """Make the model of the example, smaller, without dropout."""
    torch.manual_seed(0)
    return Vim(**SHAPE, image_size=SIZE, patch_size=PATCH, channels=3, dropout=0.0)


def loss(model: nn.Module, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Compute the loss that the model is trained on."""
    return F.cross_entropy(model(images), classes)


@torch.no_grad()
def reference(model: Vim, images: torch.Tensor) -> torch.Tensor:
    """Compute the output from the weights alone, in double precision on the CPU."""
    model, grid = model.cpu().double(), SIZE // PATCH

    def linear(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, layer.weight.flatten(1), layer.bias)

    def norm(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, [WIDTH], layer.weight, layer.bias)

    patches = images.double().reshape(len(images), 3, grid, PATCH, grid, PATCH).permute(0, 2, 4, 3, 5, 1)
    tokens = linear(model.to_patch_embedding[1], patches.reshape(len(images), grid * grid, -1))
    for block in model.layers:
        inner, ssm = linear(block.proj, norm(block.norm, tokens)), block.ssm
        for conv in (block.forward_conv1d, block.backward_conv1d):
            mixed = F.softplus(linear(conv, inner))
            delta, *maps = linear(ssm.deltaBC_layer, mixed).split([DELTA, STATES, STATES], -1)
            delta = F.softplus(linear(ssm.dt_proj_layer, delta))
            scanned = probekit.selective_scan(mixed, delta, -ssm.A_log.exp(), maps) + ssm.D * mixed
            tokens = tokens + scanned * F.silu(inner)
    return linear(model.output_head[2], norm(model.output_head[1], tokens.mean(1)))


def examine() -> dict[str, object]:
    """Compare a forward pass with the reference, and train alone or with the other ranks."""
    with process_group() as device:
        images = torch.randn(4, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
        expected = reference(make_model(), images)
        model, batch = make_model().to(device), [images.to(device), torch.arange(4, device=device)]
        output = model(batch[0])
        seen = {"error": relative_error(output, expected), "elsewhere": int(output.device.type != DEVICE)}
        if NPROC > 1:
            return seen | probekit.data_parallel_step(model, batch, loss)
        losses = fit(lambda: loss(model, *batch), model.parameters(), steps=6, rate=0.1, method="SGD")
        return seen | {"first_loss": losses[0], "last_loss": losses[-1]}


if __name__ == "__main__":
    ranks = spread(examine)
    seen = {name: sum(rank[name] for rank in ranks) for name in ranks[0] if name != "share_error"}
    probekit.observe(ranks=len(ranks), share_error=min(rank.get("share_error", 1) for rank in ranks), **seen)
