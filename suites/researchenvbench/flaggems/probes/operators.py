"""C3 of FlagGems: a small network of plain torch, trained with FlagGems's operators in place of torch's.

`flag_gems.use_gems` puts the Triton operators into torch's dispatcher. The network looks tokens up, multiplies
matrices, normalises, attends and classifies, forth and back; eight operators are needed, most of them in both
directions. They are tuned at their first call, which takes most of the time.

FlagGems logs each operator that it runs, with its module; a name that is missing was left to torch. Losses of each step
and the weights after the last one must be those of torch on the CPU, in double precision.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import re
from copy import deepcopy

import flag_gems
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from extensions import explained
from probekit import DEVICE, OUT, observe, on_device, token_batch
from ranks import relative_error
from torch import nn


SIZE, BATCH, STEPS = 64, 2, 6
MODULES = {"addmm", "bmm", "embedding", "layernorm", "softmax", "gelu", "log_softmax", "nllloss"}


class Network(nn.Module):
    """One head of attention over tokens, with as many channels as tokens, so that one size of matrix is tuned."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.norm = nn.Embedding(SIZE, SIZE), nn.LayerNorm(SIZE)
        self.register_buffer("positions", torch.randn(SIZE, SIZE))
        self.register_buffer("projection", torch.randn(SIZE, SIZE) / SIZE**0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute the loss of telling each token's successor."""
        hidden = self.norm(self.embedding(tokens) + torch.addmm(self.positions, self.positions, self.projection))
        attention = torch.softmax(torch.bmm(hidden, hidden.mT) / SIZE**0.5, -1)
        hidden = F.gelu(torch.bmm(attention, hidden) + hidden)
        logits = torch.bmm(hidden, self.embedding.weight.mT.expand(BATCH, -1, -1))
        return F.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())


def train(network: Network, tokens: torch.Tensor) -> torch.Tensor:
    """Take steps along the gradient, and return their losses followed by the weights."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    losses = []
    for _ in range(STEPS):
        losses.append(network(tokens))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return torch.cat([torch.stack(losses), *(weight.flatten() for weight in network.parameters())]).detach()


if __name__ == "__main__":
    network, tokens, log = Network(), token_batch(BATCH, SIZE, vocabulary=SIZE), OUT / "operators.log"
    wanted = train(deepcopy(network).double(), tokens)
    network, tokens = network.to(DEVICE), tokens.to(DEVICE)
    with explained("flag_gems"), flag_gems.use_gems(record=True, path=str(log)):
        found = train(network, tokens)
    ran = re.findall(r"flag_gems\.(?:\w+\.)*(\w+): GEMS (.*)", log.read_text(encoding="utf-8"))
    observe(
        there=on_device(found),
        operators_missing=len(MODULES - {module for module, _ in ran}),
        gradients_missing=6 - len({module for module, name in ran if re.search("BACKWARD|VJP|BWD", name)} & MODULES),
        multiplications=sum(module == "bmm" for module, _ in ran),
        loss_error=relative_error(found[:STEPS], wanted[:STEPS]),
        weight_error=relative_error(found[STEPS:], wanted[STEPS:]),
        first_loss=found[0].item(),
        loss_ratio=(found[STEPS - 1] / found[0]).item(),
    )
