"""C1, C3 and C4 of torchft: replicas that train together through its lighthouse, manager, and process groups.

As in `train_ddp.py`, which itself cannot be run small (10000 steps, a layer of one gigabyte, a downloaded data set),
each replica group is one process with torchft's Manager, DistributedDataParallel, Optimizer, DistributedSampler and
checkpoint transport. Every replica begins with weights of its own, and halfway the last of several loses everything:
torchft must bring it to the first one's weights, momentum and step both times. In the end all must have the weights
that plain torch gets for one model on all data. Manager turns exceptions into steps that are not committed, so the
count of commits is demanded, too.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torchft
from probekit import DEVICE, NPROC, observe
from ranks import RANK, spread
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from torchft.checkpointing.pg_transport import PGTransport
from torchft.coordination import LighthouseServer


#: The last of several replicas does not survive the third step.
STEPS, FAILURE = 6, 3
BATCH, FEATURES, CLASSES = 16, 32, 4
LIMIT = timedelta(seconds=60)


def make(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Make a small model, and an optimizer with a state that has to be recovered; another seed gives other weights."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, CLASSES)).to(DEVICE)
    return model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def make_data() -> TensorDataset:
    """Make what is to be learnt: the class is the largest of the first features."""
    features = torch.randn(NPROC * STEPS * BATCH, FEATURES, generator=torch.Generator().manual_seed(1))
    return TensorDataset(features, features[:, :CLASSES].argmax(dim=1))


def flat(model: nn.Module) -> list[float]:
    """All weights of a model."""
    return nn.utils.parameters_to_vector(model.parameters()).tolist()


def train(seed: int, until: int) -> dict[str, object]:
    """Be a replica group of one process until so many steps are done, and tell what was seen."""
    group = (torchft.ProcessGroupNCCL if DEVICE == "cuda" else torchft.ProcessGroupGloo)(timeout=LIMIT)
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    model, inner = make(seed)
    place = next(model.parameters()).device

    def load_state_dict(state: dict) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    states = {"state_dict": lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()}}
    states |= {"load_state_dict": load_state_dict, "checkpoint_transport": PGTransport(group, LIMIT, place)}
    rules = {"min_replica_size": NPROC, "use_async_quorum": False, "timeout": LIMIT, "max_retries": 1}
    alone = {"rank": 0, "world_size": 1, "store_addr": "localhost", "store_port": store.port}
    manager = torchft.Manager(pg=group, replica_id=f"replica_{RANK}", **states, **rules, **alone)
    parallel, optimizer = torchft.DistributedDataParallel(manager, model), torchft.Optimizer(manager, inner)
    data = make_data()
    shard = list(torchft.DistributedSampler(data, RANK, NPROC, group_rank=0, num_replicas=1, shuffle=False))
    seen = {"before": flat(model), "losses": [], "participants": []}
    while manager.current_step() < until:
        # Forms the quorum, and recovers what this replica lacks.
        optimizer.zero_grad()
        step = manager.current_step()
        seen.setdefault("joined_at", step)
        seen.setdefault("joined_with", flat(model))
        features, classes = data[shard[step * BATCH : (step + 1) * BATCH]]
        loss = cross_entropy(parallel(features.to(place)), classes.to(place))
        loss.backward()
        optimizer.step()
        seen["losses"].append(loss.item())
        seen["participants"].append(manager.num_participants())
    seen.update(steps=manager.current_step(), batches=manager.batches_committed(), after=flat(model))
    manager.shutdown(wait=False)
    group.abort(errored=False)
    return seen | {"device": loss.device.type}


def live() -> dict[str, object]:
    """Be one replica, the last of several with a loss of everything halfway."""
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    first = [train(10 + RANK, FAILURE)] if NPROC > 1 and RANK == NPROC - 1 else []
    return {"lives": [*first, train(20 + RANK, STEPS)]}


def reference() -> list[list[float]]:
    """Train the first replica's model on everyone's data in plain torch; all weights, before each step and after."""
    model, optimizer = make(20)
    features, classes = (part.to(DEVICE) for part in make_data().tensors)
    states = [flat(model)]
    # Sample i is the (i div replicas)th of replica i mod replicas, so each step takes a block from all of them.
    for block in torch.arange(len(features)).split(BATCH * NPROC):
        optimizer.zero_grad()
        cross_entropy(model(features[block]), classes[block]).backward()
        optimizer.step()
        states.append(flat(model))
    return states


def difference(one: list[float], other: list[float]) -> float:
    """The largest difference between two lists of weights."""
    return (torch.tensor(one) - torch.tensor(other)).abs().max().item()


if __name__ == "__main__":
    if "RANK" not in os.environ:
        lighthouse = LighthouseServer(bind="[::]:0", min_replicas=NPROC)
        os.environ["TORCHFT_LIGHTHOUSE"] = lighthouse.address()
    replicas = [replica["lives"] for replica in spread(live)]
    lighthouse.shutdown()
    states, lives = reference(), [life for replica in replicas for life in replica]
    observe(
        replicas=len(replicas),
        lives=len(lives),
        steps=min(replica[-1]["steps"] for replica in replicas),
        batches=min(replica[-1]["batches"] for replica in replicas),
        fewest_participants=min(min(life["participants"]) for life in lives),
        on_other_devices=sum(life["device"] != DEVICE for life in lives),
        recovered=sum(life["before"] != life["joined_with"] for life in lives),
        last_joined_at=replicas[-1][-1]["joined_at"],
        joined_error=max(difference(life["joined_with"], states[life["joined_at"]]) for life in lives),
        ended_error=max(difference(life["after"], states[life["steps"]]) for life in lives),
        change=difference(states[-1], states[0]),
        loss_ratio=replicas[0][0]["losses"][-1] / replicas[0][0]["losses"][0],
    )
