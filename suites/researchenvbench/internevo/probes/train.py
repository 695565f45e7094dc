"""C3 and C4 of InternEvo: its `train.py` with its documented configuration, made smaller, on tokens written here.

The script swallows what goes wrong in it and ends with 0, so that only what was seen counts. At each step the loss is
computed anew from the logits; it must fall, and the weights must change. With several ranks the weights must be equal
on all of them while their tokens differ: the configuration has ZeRO split the optimizer among them.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import os
import random
import runpy
from array import array
from itertools import accumulate, pairwise

import extensions
import torch
from observing import Watch, apart, fingerprint
from probekit import OUT, REPO, observe, run_script
from ranks import spread


STEPS, LENGTH, VOCABULARY = 6, 64, 256
#: What `torchrun` tells a rank, for one that is alone.
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29511"}


def write_inputs() -> None:
    """Write sentences of few kinds of tokens, as the tokenizer scripts do, and the configuration."""
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    sentences = [{"tokens": chooser.choices(range(2, 20), k=LENGTH)} for _ in range(32 * STEPS)]
    lines = [json.dumps(sentence).encode() + b"\n" for sentence in sentences]
    (folder := OUT / "tokens" / "en").mkdir(parents=True)
    (folder / "dataset.bin").write_bytes(b"".join(lines))
    # As NumPy would: where each line starts, and how many tokens it has.
    pairs = [number for start in accumulate(map(len, lines), initial=0) for number in (start, LENGTH)][:-2]
    head = f"{ {'descr': '<i8', 'fortran_order': False, 'shape': (len(lines), 2)}!s:117}\n".encode()
    (folder / "dataset.bin.meta").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + head + array("q", pairs).tobytes())
    config = runpy.run_path(str(REPO / "configs/7B_sft.py"))
    config |= {"SEQ_LEN": LENGTH, "HIDDEN_SIZE": 128, "VOCAB_SIZE": VOCABULARY}
    config["model"] |= {"num_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "vocab_size": VOCABULARY}
    config["data"] |= {"seq_len": LENGTH, "micro_num": 1, "total_steps": STEPS, "train_folder": f"{OUT}/tokens"}
    config["ckpt"] |= {"auto_resume": False, "load_ckpt_folder": None, "load_ckpt_info": None}
    config["adam"]["lr"] = 0.01
    config["lr_scheduler"] |= {"total_steps": STEPS, "warmup_ratio": 0.0}
    plain = [name for name in config if isinstance(config[name], str | int | float | dict | None) and name[0] != "_"]
    (OUT / "small.py").write_text("\n".join(f"{name} = {config[name]!r}" for name in plain), encoding="utf-8")


def train() -> dict[str, object]:
    """Run the script, and note what each step saw."""
    steps: list[dict] = []

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: object) -> None:
        if type(module).__name__ == "NaiveAMPModel":
            steps.append({"weights": fingerprint(module)})
            return
        labels = inputs[-1].flatten()
        wanted = torch.nn.functional.cross_entropy(inputs[0].detach().double().view(len(labels), -1), labels)
        steps[-1] |= {"loss": output.mean().item(), "wanted": wanted.item(), "labels": labels.tolist()}

    extensions.require("flash_attn_2_cuda", distribution="flash-attn")
    os.environ |= ALONE | os.environ
    with Watch("NaiveAMPModel", "FlashGPTLMLoss", "InternLoss", note=note) as watch:
        run_script("train.py", f"--config={OUT / 'small.py'}", "--launcher=torch")
    return {"steps": steps, "elsewhere": watch.elsewhere}


def main() -> None:
    """Train on all ranks, and hold against each other what they saw."""
    os.chdir(OUT)
    seen = spread(train, before=write_inputs)
    ranks = [rank["steps"] for rank in seen]
    observe(
        ranks=len(ranks),
        steps=min(map(len, ranks)),
        elsewhere=sum(rank["elsewhere"] for rank in seen),
        loss_error=max(abs(step["loss"] - step["wanted"]) for steps in ranks for step in steps),
        first_loss=ranks[0][0]["loss"],
        loss_ratio=ranks[0][-1]["loss"] / ranks[0][0]["loss"],
        steps_without_change=sum(one["weights"] == other["weights"] for one, other in pairwise(ranks[0])),
        weights_apart=max(apart([step["weights"] for step in together]) for together in zip(*ranks, strict=True)),
        ranks_with_equal_tokens=sum(steps[0]["labels"] == ranks[0][0]["labels"] for steps in ranks[1:]),
    )


main()
