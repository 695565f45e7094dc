"""C1, C3 and C4 of MultiModalMamba: its `example.py`, what that came to, and training the package's language model.

The example runs unchanged, with new tensors on the device that was asked for: zetascale's scan makes its state without
naming one, so the repository's code needs that on a GPU. Its block is then looked at while it computes the same again.
The input of its Mamba must be text and image put together, and the output must be what a recurrence, written from the
paper's formulas, gives in double precision on the CPU. Then `MultiModalMamba` of `mm_mamba/model.py` learns to tell
the next token of a text from text and image; without audio and video, for which zetascale makes new random layers in
every call.

C4 has no counterpart in the repository; the published benchmark starts the example twice. Here every rank does all of
this, and trains with torch's DDP: the step must be the one of the whole batch, and not the one of its own share.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os
from copy import deepcopy

import probekit
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from mm_mamba import MultiModalMamba
from torch import nn


BATCH, TOKENS, VOCABULARY, SIZE, PATCH, WIDTH = 4, 16, 50, 32, 8, 64


def difference(values: torch.Tensor, expected: torch.Tensor) -> float:
    """Compute the largest difference, relative to the largest expected value."""
    return ((values.cpu() - expected.cpu()).abs().max() / expected.abs().max().cpu()).item()


def mamba_reference(block: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Compute a Mamba block from its weights, in double precision on the CPU."""
    block = deepcopy(block).cpu().double()
    inner, gate = F.linear(tokens.cpu().double(), block.in_proj.weight).chunk(2, -1)
    padded = F.pad(inner.mT, (block.d_conv - 1, 0))
    inner = F.silu(F.conv1d(padded, block.conv1d.weight, block.conv1d.bias, groups=padded.shape[1])).mT
    parts = F.linear(inner, block.x_proj.weight).split([block.dt_rank, block.d_state, block.d_state], -1)
    delta = F.softplus(F.linear(parts[0], block.dt_proj.weight, block.dt_proj.bias))
    states = probekit.selective_scan(inner, delta, -block.A_log.exp(), parts[1:])
    return F.linear((states + block.D * inner) * F.silu(gate), block.out_proj.weight)


@torch.no_grad()
def run_example() -> dict[str, object]:
    """Run the example, and compare its block with what it should compute."""
    made = probekit.run_script("example.py")
    block, text, image, output = made["model"], made["x"], made["y"], made["out"]
    caught = {}
    block.mlp.register_forward_hook(lambda _module, _inputs, value: caught.update(image=value))
    block.mamba.register_forward_hook(lambda _module, inputs, _value: caught.update(fused=inputs[0]))
    again = block(text, image)
    expected = mamba_reference(block.mamba, caught["fused"])
    return {
        "example_shape": str(tuple(output.shape)),
        "example_there": probekit.on_device(output),
        "repeat_error": difference(again, output),
        "fusion_error": difference(caught["fused"], text + caught["image"]),
        "mamba_error": difference(output, expected),
        "image_effect": difference(block(text, image.flip(-1)), output),
    }


def make_model() -> MultiModalMamba:
    """Make a tiny language model that sees an image."""
    return MultiModalMamba(
        vocab_size=VOCABULARY,
        dim=WIDTH,
        depth=2,
        dropout=0.0,
        heads=4,
        d_state=16,
        image_size=SIZE,
        patch_size=PATCH,
        encoder_dim=WIDTH,
        encoder_depth=2,
        encoder_heads=4,
    )


def make_batch(device: torch.device) -> list[torch.Tensor]:
    """Make texts of one token more than there are patches, and images."""
    texts = probekit.token_batch(BATCH, TOKENS + 1, vocabulary=VOCABULARY)
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    return [texts.to(device), images.to(device)]


def loss(model: nn.Module, texts: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Compute the loss of the next tokens."""
    with images.device:
        logits = model(texts[:, :-1], images)
    return F.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())


def train(model: nn.Module, batch: list[torch.Tensor]) -> list[float]:
    """Train for some steps; return the loss of each."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        losses.append(loss(model, *batch))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return [value.item() for value in losses]


def examine(device: torch.device) -> dict[str, object]:
    """Run the example, train alone or with the other ranks, and tell what was seen."""
    torch.manual_seed(0)
    with device:
        seen = run_example()
    # What the example drew came from the device's generator: the weights are to be the same on every device.
    torch.manual_seed(0)
    model, batch = make_model().to(device), make_batch(device)
    seen["trained_there"] = all(probekit.on_device(weight) for weight in model.parameters())
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
