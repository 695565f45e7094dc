"""Work that several ranks do together, and what each of them saw of it."""
# pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from probekit import DEVICE, NPROC, OUT, run_ranks


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch


#: This process's rank; 0 where it is alone.
RANK = int(os.environ.get("RANK", "0"))
# Read now: what runs a script of the repository in this process says something else here later.
_PROBE = Path(sys.argv[0]).absolute()


def spread(work: Callable[[], dict[str, object]], *, before: Callable[[], object] | None = None) -> list[dict]:
    """Do work on each of `NPROC` ranks, and return what each saw, in their order.

    One rank is this process. Several are started by torchrun with the calling script, each under the observer; there
    this function does the work, keeps what it saw, and does not return.

    Args:
        work: what each rank does; it returns values that JSON can hold.
        before: what is done once, before there are ranks.
    """
    if "RANK" in os.environ:
        (OUT / f"rank-{RANK}.json").write_text(json.dumps(work()), encoding="utf-8")
        sys.exit()
    if before is not None:
        before()
    if NPROC == 1:
        return [work()]
    run_ranks(_PROBE)
    return [json.loads((OUT / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(NPROC)]


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Have a process group of all ranks, also of a single one, over NCCL or gloo; gives this rank's device."""
    import torch  # noqa: PLC0415 - importing this module imports the standard library alone
    import torch.distributed as dist  # noqa: PLC0415 - likewise

    device = torch.device(DEVICE, int(os.environ.get("LOCAL_RANK", "0"))) if DEVICE == "cuda" else torch.device("cpu")
    if DEVICE == "cuda":
        torch.cuda.set_device(device)
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", **alone)
    try:
        yield device
    finally:
        dist.destroy_process_group()


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest wanted value; infinite where shapes or numbers are wrong."""
    found, wanted = found.detach().double().cpu(), wanted.detach().double().cpu()
    if found.shape != wanted.shape or not found.isfinite().all():
        return float("inf")
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def overall_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The length of the difference, relative to the wanted tensor's: a few wrong values among many hardly count."""
    found, wanted = found.detach().double().cpu(), wanted.detach().double().cpu()
    return ((found - wanted).norm() / wanted.norm()).item()


def be_a_rank() -> None:
    """Have the variables that torchrun sets, also where this process is alone, for code that starts its own group."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    for name, value in (alone | {"MASTER_ADDR": "localhost", "MASTER_PORT": port}).items():
        os.environ.setdefault(name, value)


def in_step(weights: list[list[object]]) -> dict[str, int]:
    """How often a step left the first rank's weights as they were, and how many ranks ever had others."""
    unchanged = sum(one == other for one, other in zip(weights[0], weights[0][1:], strict=False))
    return {"steps_without_change": unchanged, "ranks_out_of_step": sum(other != weights[0] for other in weights[1:])}
