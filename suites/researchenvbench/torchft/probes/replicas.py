"""C1, C3 and C4 of torchft: replicas that train together through its lighthouse, manager, and process groups.

As in `train_ddp.py`, which itself cannot be run small (10000 steps, a layer of one gigabyte, a downloaded data set of
which a checksum is verified), each replica group is one process with a Manager, a DistributedDataParallel, an
Optimizer, a DistributedSampler and a checkpoint transport of torchft's, and all find each other by a lighthouse.

Every replica begins with weights of its own. Halfway, the last of several replicas loses everything and comes back as
a new one. torchft must bring it to the first replica's weights, momentum and step both times. In the end all replicas
must have the weights that plain torch gets by training one model, which started as the first replica's, on all data.
Manager turns exceptions into steps that are not committed, so the count of commits is demanded, too.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import logging
import os
from datetime import timedelta

import torch
from probekit import DEVICE, NPROC, OUT, observe, run_ranks
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from torchft import (
    DistributedDataParallel,
    DistributedSampler,
    Manager,
    Optimizer,
    ProcessGroupGloo,
    ProcessGroupNCCL,
)
from torchft.checkpointing.pg_transport import PGTransport
from torchft.coordination import LighthouseServer


#: C4 has several replicas, the other tiers have this process alone.
REPLICAS = NPROC if os.environ.get("REPLICAS") == "all" else 1
STEPS = 6
#: The step that the last of several replicas does not survive.
FAILURE = 3
BATCH = 16
FEATURES, CLASSES = 32, 4
LIMIT = timedelta(seconds=60)


def make_model(seed: int) -> nn.Module:
    """Make a small model; another seed gives other weights."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES))


def make_data() -> TensorDataset:
    """Make what is to be learnt: the class is the largest of the first features."""
    features = torch.randn(REPLICAS * STEPS * BATCH, FEATURES, generator=torch.Generator().manual_seed(1))
    return TensorDataset(features, features[:, :CLASSES].argmax(dim=1))


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Make an optimizer with a state that has to be recovered."""
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def flat(model: nn.Module) -> torch.Tensor:
    """All weights in one tensor, on the CPU."""
    return torch.cat([weight.detach().cpu().view(-1) for weight in model.parameters()])


def train(replica: int, seed: int, until: int) -> dict[str, object]:
    """Be a replica group of one process until so many steps are done, and tell what was seen."""
    device = torch.device(DEVICE, torch.cuda.current_device()) if DEVICE == "cuda" else torch.device(DEVICE)
    group = ProcessGroupNCCL(timeout=LIMIT) if DEVICE == "cuda" else ProcessGroupGloo(timeout=LIMIT)
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    model = make_model(seed).to(device)
    inner = make_optimizer(model)

    def load_state_dict(state: dict) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=group,
        load_state_dict=load_state_dict,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()},
        min_replica_size=REPLICAS,
        use_async_quorum=False,
        timeout=LIMIT,
        rank=0,
        world_size=1,
        store_addr="localhost",
        store_port=store.port,
        replica_id=f"replica_{replica}",
        checkpoint_transport=PGTransport(group, timeout=LIMIT, device=device),
        max_retries=1,
    )
    parallel = DistributedDataParallel(manager, model)
    optimizer = Optimizer(manager, inner)
    data = make_data()
    shard = list(DistributedSampler(data, replica, REPLICAS, group_rank=0, num_replicas=1, shuffle=False))
    seen = {"before": flat(model).tolist(), "losses": [], "participants": []}
    while manager.current_step() < until:
        # Forms the quorum, and recovers what this replica lacks.
        optimizer.zero_grad()
        step = manager.current_step()
        seen.setdefault("joined_at", step)
        seen.setdefault("joined_with", flat(model).tolist())
        features, classes = data[shard[step * BATCH : (step + 1) * BATCH]]
        loss = cross_entropy(parallel(features.to(device)), classes.to(device))
        loss.backward()
        optimizer.step()
        seen["losses"].append(loss.item())
        seen["participants"].append(manager.num_participants())
        seen["device"] = loss.device.type
    seen.update(steps=manager.current_step(), batches=manager.batches_committed(), after=flat(model).tolist())
    manager.shutdown(wait=False)
    group.abort(errored=False)
    return seen


def run_replica() -> None:
    """Be one replica, the last of several with a loss of everything halfway."""
    logging.basicConfig(level=logging.INFO)
    replica = int(os.environ.get("RANK", "0"))
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    lives = []
    if REPLICAS > 1 and replica == REPLICAS - 1:
        lives.append(train(replica, 10 + replica, FAILURE))
    lives.append(train(replica, 20 + replica, STEPS))
    (OUT / f"replica-{replica}.json").write_text(json.dumps(lives), encoding="utf-8")


def reference() -> list[torch.Tensor]:
    """Train the first replica's model on everyone's data in plain torch; all weights, before each step and after."""
    model = make_model(20)
    optimizer = make_optimizer(model)
    features, classes = make_data().tensors
    states = [flat(model)]
    for step in range(STEPS):
        # Sample i is the (i div replicas)th of replica i mod replicas, so each step takes a block from all of them.
        block = slice(step * BATCH * REPLICAS, (step + 1) * BATCH * REPLICAS)
        optimizer.zero_grad()
        cross_entropy(model(features[block]), classes[block]).backward()
        optimizer.step()
        states.append(flat(model))
    return states


def compare(replicas: list[list[dict]]) -> None:
    """Hold what the replicas saw against plain torch."""
    states = reference()
    lives = [life for replica in replicas for life in replica]
    joined = [(torch.tensor(life["joined_with"]) - states[life["joined_at"]]).abs().max().item() for life in lives]
    ended = [(torch.tensor(life["after"]) - states[life["steps"]]).abs().max().item() for life in lives]
    losses = replicas[0][0]["losses"]
    observe(
        replicas=len(replicas),
        lives=len(lives),
        steps=min(replica[-1]["steps"] for replica in replicas),
        batches=min(replica[-1]["batches"] for replica in replicas),
        fewest_participants=min(min(life["participants"]) for life in lives),
        on_other_devices=sum(life["device"] != DEVICE for life in lives),
        recovered=sum(life["before"] != life["joined_with"] for life in lives),
        last_joined_at=replicas[-1][-1]["joined_at"],
        joined_error=max(joined),
        ended_error=max(ended),
        change=(states[-1] - states[0]).abs().max().item(),
        loss_ratio=losses[-1] / losses[0],
    )


def main() -> None:
    """Be a replica, or start the lighthouse and the replicas, and look at what they saw."""
    if "RANK" in os.environ:
        run_replica()
        return
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=REPLICAS)
    os.environ["TORCHFT_LIGHTHOUSE"] = lighthouse.address()
    if REPLICAS > 1:
        run_ranks(__file__)
    else:
        run_replica()
    lighthouse.shutdown()
    compare([json.loads((OUT / f"replica-{replica}.json").read_text("utf-8")) for replica in range(REPLICAS)])


if __name__ == "__main__":
    main()
