"""C3 and C4 of yunchang: its `LongContextAttention`, used as its README says, compared with plain attention.

The benchmark that comes with it offers no kernel but flash-attn's at this commit, and insists on CUDA and NCCL; the
library does not. Every rank gets its part of a sequence and computes its part of the output, which must be what torch's
own attention gives for the whole sequence on the CPU; a rank that never heard of the others' keys is off by about as
much as the output is large. Several ranks do it in two layouts: all in a Ulysses group (all-to-all), all in a ring.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import torch
from probekit import DEVICE, NPROC, observe, on_device
from ranks import RANK, process_group, relative_error, spread
from torch.nn.functional import scaled_dot_product_attention
from yunchang import EXTRACT_FUNC_DICT, LongContextAttention, set_seq_parallel_pg
from yunchang.kernels import AttnType


BATCH, TOKENS, HEADS, WIDTH = 2, 1024, 8, 64


def block_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, softmax_scale: float, causal: bool, **_: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over one block, and the logarithm of its weights' sum, without which blocks cannot be put together."""
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * softmax_scale
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value), scores.logsumexp(-1)


def layer(ring_degree: int) -> LongContextAttention:
    """Make the layer with a kernel that this device has.

    On CUDA it is the one that the README names beside flash-attn. Of yunchang's torch kernels, the CPU runs only
    TORCH_MATH, which gives no sums of weights; a ring of several ranks needs them, so there yunchang gets its kernel
    from outside, as `attn_processor`.
    """
    on_cpu = AttnType.TORCH_MATH if ring_degree == 1 else None
    kernel = AttnType.TORCH_EFFICIENT if DEVICE == "cuda" else on_cpu
    return LongContextAttention(ring_impl_type="basic", attn_type=kernel, attn_processor=block_attention)


@torch.inference_mode()
def compare() -> dict[str, object]:
    """Compute this rank's part of the output in every layout, without and with a causal mask."""
    query, key, value = torch.randn(3, BATCH, TOKENS, HEADS, WIDTH, generator=torch.Generator().manual_seed(0))
    # Sharp attention: otherwise every token gets nearly the mean of all values, and mistakes look small.
    inputs = 4 * query, key, value
    errors, elsewhere = [], 0
    with process_group() as device:
        layouts = dict.fromkeys([(NPROC, 1), (1, NPROC)])
        for ulysses, ring, causal in ((*layout, causal) for layout in layouts for causal in (False, True)):
            set_seq_parallel_pg(ulysses, ring, RANK, NPROC)
            cut = EXTRACT_FUNC_DICT["basic"]
            local = [cut(whole, RANK, world_size=NPROC, rd=ring, ud=ulysses).to(device) for whole in inputs]
            output = layer(ring)(*local, causal=causal)
            whole = scaled_dot_product_attention(*(part.transpose(1, 2) for part in inputs), is_causal=causal)
            # Both layouts leave each rank one piece of the sequence, in the order of the ranks.
            errors.append(relative_error(output, whole.transpose(1, 2).chunk(NPROC, dim=1)[RANK]))
            elsewhere += not on_device(output)
    return {"errors": errors, "elsewhere": elsewhere}


if __name__ == "__main__":
    ranks = spread(compare)
    errors = [error for rank in ranks for error in rank["errors"]]
    elsewhere = sum(rank["elsewhere"] for rank in ranks)
    observe(cases_each=len(errors) / len(ranks), largest_error=max(errors), elsewhere=elsewhere, ranks=len(ranks))
