"""C1, C3 and C4 of MultiModalMamba: its `example.py`, what that came to, and training the package's language model.

The example runs unchanged, with new tensors on the tier's device: zetascale's scan makes its state without naming one.
Its block is then looked at: what its Mamba gets must be text and image put together, and what it gives must be what a
recurrence, written from the paper's formulas, gives in double precision on the CPU. Then `MultiModalMamba` learns to
tell the next token from text and image; in C4 by DDP, whose step must be the one of the whole batch.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from copy import deepcopy

import probekit
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from mm_mamba import MultiModalMamba
from observing import fit
from probekit import NPROC
from ranks import process_group, relative_error, spread
from torch import nn


BATCH, TOKENS, VOCABULARY, SIZE, WIDTH = 4, 16, 50, 32, 64
MODEL = {"vocab_size": VOCABULARY, "dim": WIDTH, "depth": 2, "dropout": 0.0, "heads": 4, "d_state": 16}
MODEL |= {"image_size": SIZE, "patch_size": 8, "encoder_dim": WIDTH, "encoder_depth": 2, "encoder_heads": 4}


def mamba_reference(block: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Compute a Mamba block from its weights, in double precision on the CPU."""
    block = deepcopy(block).cpu().double()
    inner, gate = F.linear(tokens.cpu().double(), block.in_proj.weight).chunk(2, -1)
    padded = F.pad(inner.mT, (block.d_conv - 1, 0))
    inner = F.silu(F.conv1d(padded, block.conv1d.weight, block.conv1d.bias, groups=padded.shape[1])).mT
    delta, *maps = F.linear(inner, block.x_proj.weight).split([block.dt_rank, block.d_state, block.d_state], -1)
    delta = F.softplus(F.linear(delta, block.dt_proj.weight, block.dt_proj.bias))
    states = probekit.selective_scan(inner, delta, -block.A_log.exp(), maps)
    return F.linear((states + block.D * inner) * F.silu(gate), block.out_proj.weight)


@torch.no_grad()
def run_example() -> dict[str, object]:
    """Run the example, and compare its block with what it should compute."""
    made = probekit.run_script("example.py")
    block, text, image, output = made["model"], made["x"], made["y"], made["out"]
    caught = {}
    block.mlp.register_forward_hook(lambda _module, _inputs, value: caught.update(image=value))
    block.mamba.register_forward_hook(lambda _module, inputs, _value: caught.update(fused=inputs[0]))
    flipped, again = block(text, image.flip(-1)), block(text, image)
    return {
        "image_effect": relative_error(flipped, output),
        "repeat_error": relative_error(again, output),
        "fusion_error": relative_error(caught["fused"], text + caught["image"]),
        "mamba_error": relative_error(output, mamba_reference(block.mamba, caught["fused"])),
        "elsewhere": int(not probekit.on_device(output)),
    }


def loss(model: nn.Module, texts: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Compute the loss of the next tokens; without audio and video, for which zetascale makes new layers every time."""
    with images.device:
        logits = model(texts[:, :-1], images)
    return F.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())


def examine() -> dict[str, object]:
    """Run the example, and train alone or with the other ranks."""
    with process_group() as device:
        torch.manual_seed(0)
        with device:
            seen = run_example()
        # What the example drew came from the device's generator: the weights are to be the same on every device.
        torch.manual_seed(0)
        model = MultiModalMamba(**MODEL).to(device)
        images = torch.randn(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
        texts = probekit.token_batch(BATCH, TOKENS + 1, vocabulary=VOCABULARY)
        batch = [texts.to(device), images.to(device)]
        seen["elsewhere"] += sum(not probekit.on_device(weight) for weight in model.parameters())
        if NPROC > 1:
            return seen | probekit.data_parallel_step(model, batch, loss)
        losses = fit(lambda: loss(model, *batch), model.parameters(), steps=15, rate=3e-3)
        return seen | {"first_loss": losses[0], "last_loss": losses[-1]}


if __name__ == "__main__":
    ranks = spread(examine)
    least = {name: min(rank[name] for rank in ranks) for name in ("image_effect", "share_error") if name in ranks[0]}
    probekit.observe(ranks=len(ranks), **{name: sum(rank[name] for rank in ranks) for name in ranks[0]} | least)
