"""C3 and C4 of yunchang: its `LongContextAttention`, used as its README says, compared with plain attention.

The benchmark that comes with it offers no kernel but flash-attn's at this commit, and insists on CUDA and NCCL; the
library does not. Here every rank gets its part of a sequence and computes its part of the output, which must be what
torch's own attention gives for the whole sequence on the CPU. A rank that never heard of the others' keys and values
is off by about as much as the output is large.

With one rank there is one layout, with more there are two: all of them in a Ulysses group, which exchanges heads for
tokens (all-to-all), and all of them in a ring, which passes keys and values on (send and receive).

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import probekit
import torch
import torch.distributed as dist
from torch.nn.functional import scaled_dot_product_attention
from yunchang import EXTRACT_FUNC_DICT, LongContextAttention, set_seq_parallel_pg
from yunchang.kernels import AttnType


if TYPE_CHECKING:
    from collections.abc import Iterator


BATCH, TOKENS, HEADS, WIDTH = 2, 1024, 8, 64
RING = "basic"
RANKS = probekit.NPROC


def block_attention(  # noqa: PLR0917 - yunchang calls it like its own kernels
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,  # noqa: ARG001 - likewise
    softmax_scale: float = 1.0,
    causal: bool = False,  # noqa: FBT001, FBT002 - likewise
    **_: object,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over one block, and the logarithm of its weights' sum, without which blocks cannot be put together."""
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * softmax_scale
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value), scores.logsumexp(-1)


def attention(ring_degree: int) -> LongContextAttention:
    """Make the layer with a kernel that this device has.

    On CUDA it is the one that the README names beside flash-attn. Of yunchang's torch kernels, the CPU runs only
    TORCH_MATH, which gives no sums of weights; a ring of several ranks needs them, so there yunchang gets its kernel
    from outside, as `attn_processor`.
    """
    if probekit.DEVICE == "cuda":
        return LongContextAttention(ring_impl_type=RING, attn_type=AttnType.TORCH_EFFICIENT)
    if ring_degree == 1:
        return LongContextAttention(ring_impl_type=RING, attn_type=AttnType.TORCH_MATH)
    return LongContextAttention(ring_impl_type=RING, attn_type=None, attn_processor=block_attention)


def make_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Make the same query, key and value on every rank."""
    query, key, value = torch.randn(3, BATCH, TOKENS, HEADS, WIDTH, generator=torch.Generator().manual_seed(0))
    # Sharp attention: otherwise every token gets nearly the mean of all values, and mistakes look small.
    return 4 * query, key, value


def cases() -> Iterator[tuple[int, int, bool]]:
    """Every layout that these ranks allow, without and with a causal mask: (Ulysses degree, ring degree, causal)."""
    for ulysses, ring in dict.fromkeys([(RANKS, 1), (1, RANKS)]):
        for causal in (False, True):
            yield ulysses, ring, causal


@torch.inference_mode()
def compare(device: torch.device, rank: int) -> list[dict[str, object]]:
    """Compute this rank's part of the output in every case, and compare it with the reference."""
    inputs = make_inputs()
    reports: list[dict[str, object]] = []
    for ulysses, ring, causal in cases():
        set_seq_parallel_pg(ulysses, ring, rank, RANKS)
        cut = EXTRACT_FUNC_DICT[RING]
        local = [cut(whole, rank, world_size=RANKS, rd=ring, ud=ulysses).to(device) for whole in inputs]
        output = attention(ring)(*local, causal=causal)
        whole = scaled_dot_product_attention(*(part.transpose(1, 2) for part in inputs), is_causal=causal)
        # Both layouts leave each rank one piece of the sequence, in the order of the ranks.
        expected = whole.transpose(1, 2).chunk(RANKS, dim=1)[rank]
        error = (output.cpu() - expected).abs().max() / expected.abs().max()
        reports.append(
            {
                "ulysses_degree": ulysses,
                "ring_degree": ring,
                "causal": causal,
                "shape": list(output.shape),
                "device": output.device.type,
                "error": error.item(),
            }
        )
    return reports


def run_rank() -> None:
    """Be one rank: meet the others, compute, and write down what came out."""
    rank = int(os.environ.get("RANK", "0"))
    device = torch.device(probekit.DEVICE)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if RANKS > 1:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        reports = compare(device, rank)
    finally:
        dist.destroy_process_group()
    (probekit.OUT / f"rank-{rank}.json").write_text(json.dumps(reports, indent=1), encoding="utf-8")


def summarize() -> None:
    """Put what the ranks wrote into one file."""
    files = list(probekit.OUT.glob("rank-*.json"))
    reports = [case for path in files for case in json.loads(path.read_text(encoding="utf-8"))]
    shape = [BATCH, TOKENS // RANKS, HEADS, WIDTH]
    probekit.observe(
        ranks_missing=RANKS - len(files),
        cases_missing=RANKS * len(list(cases())) - len(reports),
        wrong_shapes=sum(report["shape"] != shape for report in reports),
        on_other_devices=sum(report["device"] != probekit.DEVICE for report in reports),
        # NaN compares as neither small nor large; kept as it is, it is no finite number.
        largest_error=max((report["error"] for report in reports), key=lambda error: (error != error, error)),  # noqa: PLR0124 - NaN
    )


def main() -> None:
    """Be a rank, or start the ranks and sum up."""
    if "RANK" in os.environ:
        run_rank()
        return
    if RANKS > 1:
        probekit.run_ranks(__file__)
    else:
        run_rank()
    summarize()


if __name__ == "__main__":
    main()
