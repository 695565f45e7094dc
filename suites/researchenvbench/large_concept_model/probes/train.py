"""C1, C3 and C4 of the large concept model: `python -m lcm.train` with its recipe `pretrain/mse`, on vectors made here.

On a GPU each rank is one of a process group, also where it is alone: with the repository's stand-in for a group, its
code for a GPU asks for a real one. On the CPU that is what works: the barrier of fairseq2's groups is for GPUs.

The loss reported to tensorboard must be the squared distance of what the model said from the next vectors, over all
ranks, and fall; the weights must change and be the same on all ranks, while their documents, written here, differ.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
import runpy
import sys

import torch
from observing import Watch, fingerprint
from probekit import DEVICE, NPROC, OUT, observe
from ranks import RANK, be_a_rank, in_step, spread


BATCH, STEPS, DOCUMENTS, SENTENCES, WIDTH = 4, 6, 48, 12, 1024


def documents() -> torch.Tensor:
    """Documents of sentence vectors, about a common centre, as large as those of SONAR."""
    generator = torch.Generator().manual_seed(0)
    centre, offsets = (torch.randn(size, generator=generator) for size in (WIDTH, (DOCUMENTS, SENTENCES, WIDTH)))
    return 0.006 * (centre + 0.5 * offsets)


def write_inputs() -> None:
    """Write the documents in two Parquet files, each with several groups of rows, so that ranks can share them."""
    import pyarrow as pa  # noqa: PLC0415 - what the environment lacks must fail where it is needed
    from pyarrow import parquet  # noqa: PLC0415 - likewise

    (OUT / "data").mkdir()
    for index, half in enumerate(documents().chunk(2)):
        table = pa.table({"vectors": pa.array(half.tolist(), pa.list_(pa.list_(pa.float32(), WIDTH)))})
        parquet.write_table(table, OUT / "data" / f"{index}.parquet", row_group_size=BATCH)


def train() -> dict[str, object]:
    """Train as one rank, and note what the model saw and said."""
    steps: list[dict[str, object]] = []

    def note(module: torch.nn.Module, inputs: tuple, output: object) -> None:
        if module.training:
            given, said = inputs[0].seqs.detach().double(), output.seqs.detach().double()
            values = {"distance": (said[:, :-1] - given[:, 1:]).square().sum().item(), "device": said.device.type}
            values |= {"targets": given[:, 1:].shape[:2].numel(), "documents": given.sum((1, 2)).tolist()}
            steps.append(values | {"weights": fingerprint(module)})

    be_a_rank()
    (OUT / f"folder-{RANK}").mkdir()
    os.chdir(OUT / f"folder-{RANK}")
    data = f"[{{parquet_path: '{OUT / 'data'}', source_column: vectors, split_to_row_groups: true}}]"
    loading = {"max_tokens": "null", "batch_size": BATCH, "nb_epochs": 8, "min_length_after_batching": "null"}
    trainer = {"use_submitit": "false", "use_fsdp": "false", "dtype": "torch.float32", "model_arch": "toy_base_lcm"}
    trainer |= {"max_steps": STEPS, "lr": 1e-3, "num_lr_warmup_steps": 1, "publish_metrics_every_n_steps": 1}
    trainer |= {f"{what}_every_n_steps": STEPS for what in ("checkpoint", "save_model")} | {"output_dir": OUT / "run"}
    trainer |= {"training_data": data, "validation_data": data}
    trainer |= {"fake_gang_device": "cpu"} if DEVICE == "cpu" and NPROC == 1 else {}
    trainer |= {f"data_loading_config.{name}": value for name, value in loading.items()}
    sys.argv = ["lcm.train", "launcher=standalone", "+pretrain=mse", "launcher.cache.caching_dir=cache"]
    sys.argv += [f"++trainer.{name}={value}" for name, value in trainer.items()]
    with Watch("BaseLCModel", note=note):
        runpy.run_module("lcm.train", run_name="__main__", alter_sys=True)
    return {"steps": steps}


if __name__ == "__main__":
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    ranks = [rank["steps"] for rank in spread(train, before=write_inputs)]
    together = [[sum(one[key] for one in step) for key in ("distance", "targets")] for step in zip(*ranks, strict=True)]
    losses = [distance / targets for distance, targets in together]
    known, notes = documents().double().sum((1, 2)), [step for steps in ranks for step in steps]
    given = [torch.tensor([step["documents"] for step in steps]).flatten() for steps in ranks]
    values = {"ranks": len(ranks), "steps": min(map(len, ranks)), "loss_ratio": losses[-1] / losses[0]}
    observe(**values, there=all(step["device"] == DEVICE for step in notes))
    reported = EventAccumulator(str(OUT / "run" / "tb" / "Train")).Reload().Scalars("Loss")
    observe(loss_error=max(abs(said.value / loss - 1) for said, loss in zip(reported, losses, strict=True)))
    observe(document_error=max(abs(known - one).min().item() for one in torch.cat(given)))
    observe(**in_step([[step["weights"] for step in steps] for steps in ranks]))
    observe(ranks_with_equal_documents=sum(torch.equal(other, given[0]) for other in given[1:]))
