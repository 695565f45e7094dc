"""C1, C3 and C4 of yunchang: its `LongContextAttention`, used as its README says, compared with plain attention.

The scripts that come with it insist on CUDA, NCCL and flash-attn; the library does not. Here every rank gets its part
of a sequence and computes its part of the output, which must be what attention over the whole sequence gives: the
reference is the one of the repository's own tests, always on the CPU. A rank that never heard of the others' keys and
values is off by about as much as the output is large.

With one rank there is one layout, with more there are two: all of them in a Ulysses group, which exchanges heads for
tokens (all-to-all), and all of them in a ring, which passes keys and values on (send and receive).
"""  # quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from yunchang import EXTRACT_FUNC_DICT, LongContextAttention, set_seq_parallel_pg
from yunchang.kernels import AttnType


REPO = Path(os.environ["RESEARCHENV_REPO"])
OUT = Path(os.environ["RESEARCHENV_OUT"])
DEVICE = os.environ["RESEARCHENV_DEVICE"]
RANKS = int(os.environ["RESEARCHENV_NPROC"])

# The repository's tests are scripts and no package; this folder holds nothing that yunchang could be imported from.
sys.path.insert(0, str(REPO / "test"))
from test_utils import attention_ref  # noqa: E402 - see above


BATCH, TOKENS, HEADS, WIDTH = 2, 1024, 8, 64
RING = "basic"

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


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
    if DEVICE == "cuda":
        return LongContextAttention(ring_impl_type=RING, attn_type=AttnType.TORCH_EFFICIENT)
    if ring_degree == 1:
        return LongContextAttention(ring_impl_type=RING, attn_type=AttnType.TORCH_MATH)
    return LongContextAttention(ring_impl_type=RING, attn_type=None, attn_processor=block_attention)


def make_inputs() -> Inputs:
    """Make the same query, key and value on every rank."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, BATCH, TOKENS, HEADS, WIDTH, generator=generator)
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
        expected = cut(attention_ref(*inputs, causal=causal)[0], rank, world_size=RANKS, rd=ring, ud=ulysses)
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
    device = torch.device(DEVICE)
    if DEVICE == "cuda":
        device = torch.device(DEVICE, int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    if RANKS > 1:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        reports = compare(device, rank)
    finally:
        dist.destroy_process_group()
    (OUT / f"rank-{rank}.json").write_text(json.dumps(reports, indent=1), encoding="utf-8")


def run_ranks() -> None:
    """Start every rank with torchrun, under the harness's observer where there is one."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    observer = os.environ.get("RESEARCHENV_OBSERVER")
    done = subprocess.run([*launcher, *([observer] if observer else []), __file__], check=False)
    if done.returncode:
        # Not as an exception: the last one printed should be that of a rank.
        sys.exit(done.returncode)


def summarize() -> None:
    """Put what the ranks wrote into one file."""
    reports = [case for path in OUT.glob("rank-*.json") for case in json.loads(path.read_text(encoding="utf-8"))]
    shape = [BATCH, TOKENS // RANKS, HEADS, WIDTH]
    summary = {
        "ranks_missing": RANKS - len(list(OUT.glob("rank-*.json"))),
        "cases_missing": RANKS * len(list(cases())) - len(reports),
        "wrong_shapes": sum(report["shape"] != shape for report in reports),
        "on_other_devices": sum(report["device"] != DEVICE for report in reports),
        # NaN compares as neither small nor large; kept as it is, it is no finite number.
        "largest_error": max((report["error"] for report in reports), key=lambda error: (error != error, error)),  # noqa: PLR0124 - NaN
    }
    (OUT / "observed.json").write_text(json.dumps(summary), encoding="utf-8")
    print("observed:", summary)


def main() -> None:
    """Be a rank, or start the ranks and sum up."""
    if "RANK" in os.environ:
        run_rank()
        return
    if RANKS > 1:
        run_ranks()
    else:
        run_rank()
    summarize()


if __name__ == "__main__":
    main()
