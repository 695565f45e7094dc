"""C1, C3 and C4 of VisionMamba: the forward pass of its `Vim` against plain torch, and training it.

The repository's `example.py` gives `Vim` an argument that it does not take at this commit, and ends with a TypeError.
The package's model is made here as it does otherwise, but smaller, and once its own loops agree with a recurrence that
is written below from the paper's formulas, in double precision on the CPU, it is trained for some steps. A scan of
zetascale that is another one than the repository was written for is off in the first, one without gradients in the
second.

C4 has no counterpart in the repository; the published benchmark starts the example twice. Here ranks train the model
with torch's DDP: the step must be the one of the whole batch, and not the one of a rank's own share.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os

import probekit
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn
from vision_mamba import Vim


BATCH, SIZE, PATCH, WIDTH, STATES, CLASSES, DEPTH = 4, 40, 8, 32, 8, 10, 2
RANK_DELTA = 4


def make_model() -> Vim:
    """Make the model of the example, smaller, without dropout."""
    torch.manual_seed(0)
    return Vim(
        dim=WIDTH,
        dt_rank=RANK_DELTA,
        dim_inner=WIDTH,
        d_state=STATES,
        num_classes=CLASSES,
        image_size=SIZE,
        patch_size=PATCH,
        channels=3,
        dropout=0.0,
        depth=DEPTH,
    )


def make_batch() -> list[torch.Tensor]:
    """Make images and their classes."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(BATCH, 3, SIZE, SIZE, generator=generator), torch.arange(BATCH)]


def scan(tokens: torch.Tensor, ssm: nn.Module) -> torch.Tensor:
    """Compute the selective state space model of a block from its weights."""
    delta, into, out_of = (tokens @ ssm.deltaBC_layer.weight.T).split([RANK_DELTA, STATES, STATES], -1)
    delta = F.softplus(F.linear(delta, ssm.dt_proj_layer.weight, ssm.dt_proj_layer.bias))
    return probekit.selective_scan(tokens, delta, -ssm.A_log.exp(), (into, out_of)) + ssm.D * tokens


@torch.no_grad()
def reference(model: Vim, images: torch.Tensor) -> torch.Tensor:
    """Compute the output from the weights alone, in double precision on the CPU."""
    model = model.cpu().double()
    grid = SIZE // PATCH
    patches = images.double().reshape(len(images), 3, grid, PATCH, grid, PATCH).permute(0, 2, 4, 3, 5, 1)
    embed, (norm, head) = model.to_patch_embedding[1], model.output_head[1:]
    tokens = F.linear(patches.reshape(len(images), grid * grid, -1), embed.weight, embed.bias)
    for block in model.layers:
        inner = F.linear(
            F.layer_norm(tokens, [WIDTH], block.norm.weight, block.norm.bias), block.proj.weight, block.proj.bias
        )
        for conv in (block.forward_conv1d, block.backward_conv1d):
            mixed = F.softplus(F.linear(inner, conv.weight[:, :, 0], conv.bias))
            tokens = tokens + scan(mixed, block.ssm) * F.silu(inner)
    return F.linear(F.layer_norm(tokens.mean(1), [WIDTH], norm.weight, norm.bias), head.weight, head.bias)


def loss(model: nn.Module, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Compute the loss that the model is trained on."""
    return F.cross_entropy(model(images), classes)


def train(model: nn.Module, batch: list[torch.Tensor]) -> list[float]:
    """Train for some steps; return the loss of each."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(6):
        losses.append(loss(model, *batch))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return [value.item() for value in losses]


def examine(device: torch.device) -> dict[str, object]:
    """Compare a forward pass with the reference, train alone or with the other ranks, and tell what was seen."""
    batch = make_batch()
    expected = reference(make_model(), batch[0])
    batch = [tensor.to(device) for tensor in batch]
    model = make_model().to(device)
    output = model(batch[0])
    seen = {
        "shape": str(tuple(output.shape)),
        "there": probekit.on_device(output),
        "error": ((output.cpu() - expected).abs().max() / expected.abs().max()).item(),
    }
    if dist.is_initialized():
        return seen | probekit.data_parallel_step(model, batch, loss)
    losses = train(model, batch)
    return seen | {"first_loss": losses[0], "last_loss": losses[-1]}


def be_rank() -> None:
    """Be one of several ranks, and write down what was seen."""
    rank, device = int(os.environ["RANK"]), torch.device(probekit.DEVICE)
    if probekit.DEVICE == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if probekit.DEVICE == "cuda" else "gloo")
    try:
        seen = examine(device)
    finally:
        dist.destroy_process_group()
    (probekit.OUT / f"rank-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")


def main() -> None:
    """Be a rank, start the ranks, or do without."""
    if "RANK" in os.environ:
        be_rank()
    elif probekit.NPROC > 1:
        probekit.run_ranks(__file__)
    else:
        probekit.observe(**examine(torch.device(probekit.DEVICE)))


if __name__ == "__main__":
    main()
