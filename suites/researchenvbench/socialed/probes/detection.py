"""C1, C3 and C4 of SocialED: two of its detectors find events in messages made here.

SBERT, which embeds messages and looks for the nearest known one, and HyperSED, which links messages to a graph and
learns a hyperbolic partition tree of it by structural entropy. The package itself cannot be imported: it asks for
`hypersed` while the file is called `Hypersed.py`. So the two files are loaded by path, as they are, and used by their
common interface: preprocess, fit, detection.

Both look for a sentence encoder in a folder beside the current one; a tiny BERT of random weights is there. Messages of
one event share their words, so that even it tells events apart: SBERT must name the right event. HyperSED must lower
its structural entropy, and what it puts together must have more in common with the events than chance would have it.
Hooks of torch see where it computed.

The repository has nothing that makes processes talk. What it has for several GPUs is HyperSED's `gpu`: in C4 each rank
has its own messages and its own device.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import probekit
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from sklearn.metrics import adjusted_mutual_info_score
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import BertConfig, BertModel, BertTokenizer


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


RANK = int(os.environ.get("RANK", "0"))
MODELS = Path("../model/model_needed")
EPOCHS = 20
EVENTS = 8
WORDS = 6


def vocabulary(event: int) -> list[str]:
    """Name the words of an event."""
    return [f"word{chr(97 + event)}{chr(97 + index)}" for index in range(WORDS)]


class Messages:
    """A data set as the detectors want it, in the columns of the repository's own ones."""

    def __init__(self, count: int, seed: int) -> None:
        chooser = random.Random(seed)  # noqa: S311 - test data, no secret
        rows = []
        for index in range(count):
            event = index % EVENTS
            words = chooser.choices(vocabulary(event), k=5)
            rows.append(
                {
                    "tweet_id": index,
                    "text": " ".join(words),
                    "event_id": event,
                    "words": words,
                    "filtered_words": words,
                    "entities": [f"entity{event}"],
                    "user_id": index,
                    "created_at": pd.Timestamp("2012-10-11"),
                    "urls": [],
                    "hashtags": [f"tag{event}"],
                    "user_mentions": [],
                }
            )
        self.frame = pd.DataFrame(rows)

    def load_data(self) -> pd.DataFrame:
        """Give all messages."""
        return self.frame.copy()

    def get_dataset_name(self) -> str:
        """Give the name, which stands in paths."""
        return "messages"

    def get_dataset_language(self) -> str:
        """Give the language, by which an encoder is chosen."""
        return "English"


def write_encoder(path: Path) -> None:
    """Write a sentence encoder of random weights."""
    torch.manual_seed(0)
    source = path.with_name(f"{path.name}-bert")
    source.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = special + [word for event in range(EVENTS) for word in vocabulary(event)]
    (source / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(source / "vocab.txt").save_pretrained(source)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertModel(BertConfig(vocab_size=len(words), **size))
    # As random as the words, the places of words would count as much.
    torch.nn.init.zeros_(model.embeddings.position_embeddings.weight)
    model.save_pretrained(source)
    SentenceTransformer(modules=[Transformer(str(source)), Pooling(32)], device="cpu").save(str(path))


def load(name: str) -> ModuleType:
    """Load a detector's file without the package around it."""
    spec = importlib.util.spec_from_file_location(name, probekit.REPO / "SocialED" / "detector" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Watch:
    """Sees where HyperSED's networks compute, and what its optimizers change."""

    def __init__(self) -> None:
        self.outputs = self.elsewhere = self.steps = 0
        self.losses: list[float] = []
        self.before: dict[torch.nn.Parameter, torch.Tensor] = {}

    def forward(self, module: torch.nn.Module, _inputs: object, output: object) -> None:
        """Be a forward hook of every module."""
        if type(module).__name__ in {"GraphEncoder", "LorentzGraphConvolution"}:
            self.outputs += 1
            self.elsewhere += not (probekit.on_device(output) and probekit.finite(output))

    def loss(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """Wrap a method that gives a loss."""

        @functools.wraps(original)
        def method(*arguments: object) -> torch.Tensor:
            loss = original(*arguments)
            self.losses.append(loss.item())
            return loss

        return method

    def step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Be a hook before every optimizer's step."""
        self.steps += 1
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            self.before.setdefault(parameter, parameter.detach().clone())

    def moved(self) -> int:
        """Count the parameters that are not what they were."""
        return sum(not torch.equal(parameter, before) for parameter, before in self.before.items())


def sbert() -> dict[str, float]:
    """Detect events by SBERT."""
    detector = load("sbert").SBERT(Messages(100, seed=RANK))
    detector.preprocess()
    detector.fit()
    truths, predictions = detector.detection()
    return {
        "sbert_messages": len(predictions),
        "sbert_accuracy": float(np.mean(np.array(truths) == np.array(predictions))),
        "sbert_elsewhere": int(detector.model.device.type != probekit.DEVICE),
    }


def hypersed() -> dict[str, float]:
    """Detect events by HyperSED.

    Its preprocessing shuffles the labels of the messages and not the messages, and with labels that mean nothing it
    often ends without a result. It takes both from their files where these are there; so they are.
    """
    watch = Watch()
    messages = Messages(160, seed=RANK)
    data = Path("../model/model_saved/hypersed/messages/data")
    data.mkdir(parents=True)
    np.save(data / "test_set.npy", messages.frame.to_numpy())
    np.save(data / "label.npy", messages.frame["event_id"].to_numpy())
    module = load("Hypersed")
    module.HyperSE.loss = watch.loss(module.HyperSE.loss)
    options = {"num_epochs": EPOCHS, "anchor_rate": 4, "max_nums": [12], "lr_pre": 1e-2, "lr": 1e-2, "lr_gae": 1e-2}
    detector = module.HyperSED(messages, gpu=RANK, data_path="hypersed", save_model_path="hypersed", **options)
    detector.preprocess()
    hook = torch.nn.modules.module.register_module_forward_hook(watch.forward)
    with hook, register_optimizer_step_pre_hook(watch.step):
        detector.fit()
    truths, predictions = detector.detection()
    return {
        "hypersed_messages": len(predictions),
        "hypersed_agreement": float(adjusted_mutual_info_score(truths, predictions)),
        # The first epoch has another loss.
        "hypersed_fall": 1 - watch.losses[-1] / watch.losses[1],
        "hypersed_outputs": watch.outputs,
        "hypersed_steps": watch.steps,
        "hypersed_moved": watch.moved(),
        "hypersed_elsewhere": watch.elsewhere,
    }


def run_rank() -> None:
    """Be one rank: run both detectors in a folder of its own, on a device of its own."""
    folder = probekit.OUT / f"rank-{RANK}" / "run"
    folder.mkdir(parents=True)
    os.chdir(folder)
    if probekit.DEVICE == "cuda":
        torch.cuda.set_device(RANK)
    for name in ("paraphrase-MiniLM-L6-v2", "all-MiniLM-L6-v2"):
        write_encoder(MODELS / name)
    seen = sbert() | hypersed()
    (probekit.OUT / f"rank-{RANK}.json").write_text(json.dumps(seen), encoding="utf-8")


def main() -> None:
    """Be a rank, or start the ranks, and write down the worst of what they saw."""
    if "RANK" in os.environ:
        run_rank()
        return
    if probekit.NPROC > 1:
        probekit.run_ranks(__file__)
    else:
        run_rank()
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(probekit.OUT.glob("rank-*.json"))]
    worst = {key: max(rank[key] for rank in ranks) for key in ranks[0] if key.endswith("elsewhere")}
    worst |= {key: min(rank[key] for rank in ranks) for key in ranks[0] if not key.endswith("elsewhere")}
    probekit.observe(ranks=len(ranks), **worst)


if __name__ == "__main__":
    main()
