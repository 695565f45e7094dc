"""C1, C3 and C4 of LMCache: the engine of its standalone starter stores key-value caches, and gives them back.

Paged caches of random values are stored under their tokens, the copies in memory dropped, and what the disk holds is
retrieved into empty caches at other slots: it must be the same to the bit, and known for a text with the same prefix.
On a GPU the connector to the caches has the repository's kernels; on the CPU it is that for XPUs, in plain torch. Each
of several ranks has an engine and keys of its own.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import time
from pathlib import Path

import torch
from extensions import explained, require
from lmcache.config import LMCacheEngineMetadata
from lmcache.v1.cache_engine import LMCacheEngineBuilder
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.gpu_connector import VLLMPagedMemGPUConnectorV2
from lmcache.v1.memory_management import MemoryObj
from lmcache.v1.standalone.__main__ import LMCacheStandaloneStarter, parse_kvcache_shape_spec
from lmcache.v1.xpu_connector import VLLMPagedMemXPUConnectorV2
from probekit import DEVICE, NPROC, OUT, observe, on_device, token_batch
from ranks import RANK, spread


LAYERS, HEADS, SIZE, CHUNK, TOKENS, SLOTS = 4, 2, 16, 32, 160, 384


def read(caches: list[torch.Tensor], slots: torch.Tensor) -> torch.Tensor:
    """Take the keys and values of all layers out of their slots: (2, layers, slots, channels)."""
    return torch.stack([cache.flatten(1, 2)[:, slots].flatten(2) for cache in caches], 1)


class HostConnector(VLLMPagedMemXPUConnectorV2):
    """The repository's connector in plain torch, but that it waits for an XPU after each copy from the caches."""

    def from_gpu(self, memory_obj: MemoryObj, start: int, end: int, **caches: object) -> None:
        """Copy out of the caches."""
        memory_obj.tensor.copy_(read(caches["kvcaches"], caches["slot_mapping"][start:end]))


def start(disk: Path) -> LMCacheStandaloneStarter:
    """Make the starter of an engine that keeps chunks in memory and on disk."""
    sizes = {"chunk_size": CHUNK, "max_local_cpu_size": 0.1, "max_local_disk_size": 0.1}
    config = LMCacheEngineConfig.from_defaults(local_disk=f"{disk}/", **sizes)
    shape, half = (LAYERS, 2, CHUNK, HEADS, SIZE), torch.float16
    metadata = LMCacheEngineMetadata("tiny", NPROC, RANK, "vllm", half, shape, role="worker")
    device, kind = "cpu", HostConnector
    if DEVICE == "cuda":
        device, kind = f"cuda:{RANK}", VLLMPagedMemGPUConnectorV2
        torch.cuda.set_device(RANK)
        require("lmcache.c_ops", distribution="lmcache")
    connector = kind(HEADS * SIZE, LAYERS, DEVICE == "cuda", chunk_size=CHUNK, dtype=half, device=device)
    # The starter takes an engine of this name that is there; its own may have a connector that moves nothing.
    LMCacheEngineBuilder.get_or_create(config.lmcache_instance_id, config, metadata, connector, None, None)
    return LMCacheStandaloneStarter(config, metadata, parse_kvcache_shape_spec("(2,24,16,2,16):float16:4"), device)


def work() -> dict[str, object]:
    """Store, forget and retrieve, as one rank."""
    disk, memory = OUT / f"disk-{RANK}", ["LocalCPUBackend"]
    starter = start(disk)
    engine = starter.start()
    torch.manual_seed(RANK)
    text, other = token_batch(2, TOKENS, vocabulary=1000).tolist()
    caches = [torch.randn(2, SLOTS // 16, 16, HEADS, SIZE).half().to(starter.device) for _ in range(LAYERS)]
    source, target = (torch.randperm(SLOTS)[:TOKENS].to(starter.device) for _ in range(2))
    seen, wanted = {"before": engine.lookup(text)}, read(caches, source)
    with explained("lmcache.c_ops"):
        engine.store(text, kvcaches=caches, slot_mapping=source)
    for _ in range(600):
        time.sleep(0.1 * (engine.lookup(text, search_range=["LocalDiskBackend"]) < TOKENS))
    # The connector keeps where the caches are, as an engine's never move: the same ones are emptied.
    for cache in caches:
        cache.zero_()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    engine.clear(locations=memory)
    seen |= {"in_memory": engine.lookup(text, search_range=memory), "on_disk": engine.lookup(text)}
    seen |= {"of_prefix": engine.lookup(text[: 2 * CHUNK] + other[2 * CHUNK :])}
    seen |= {"retrieved": engine.retrieve(text, kvcaches=caches, slot_mapping=target).sum().item()}
    found, filled = read(caches, target), sum(cache.count_nonzero().item() for cache in caches)
    starter.stop()
    seen |= {"wrong": (found != wanted).sum().item(), "elsewhere": filled - found.count_nonzero().item()}
    return seen | {"there": on_device(found), "keys": [file.name for file in disk.glob("*.pt")]}


def main() -> None:
    """Run the ranks, and write down what they saw."""
    ranks = spread(work)
    keys = {key for rank in ranks for key in rank.pop("keys")}
    observe(ranks=len(ranks), keys=len(keys), alike=all(rank == ranks[0] for rank in ranks), **ranks[0])


if __name__ == "__main__":
    main()
