"""C1, C3 and C4 of SocialED: two of its detectors find events in messages made here.

The package cannot be imported: it asks for `hypersed`, the file is `Hypersed.py`. So two files are run by path. Both
find a tiny BERT of random weights beside the current folder; messages of one event share their words, so that even it
tells events apart. SBERT must name the right event; HyperSED must lower its structural entropy and agree with the
events more than by chance. Nothing makes processes talk: in C4 each has messages and, by `gpu`, a device of its own.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
import random
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from observing import Watch
from probekit import DEVICE, OUT, REPO, observe, word_tokenizer
from ranks import RANK, spread
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from sklearn.metrics import adjusted_mutual_info_score
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import BertConfig, BertModel


EVENTS = [[f"word{chr(97 + event)}{chr(97 + index)}" for index in range(6)] for event in range(8)]
ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
HYPERSED = {"num_epochs": 20, "anchor_rate": 4, "max_nums": [12], "lr_pre": 1e-2, "lr": 1e-2, "lr_gae": 1e-2}
HYPERSED |= {"gpu": RANK, "data_path": "hypersed", "save_model_path": "hypersed"}


def messages(count: int) -> SimpleNamespace:
    """Make a data set as the detectors want it, with the columns of the repository's own ones, in their order."""
    chooser, events = random.Random(RANK), [index % len(EVENTS) for index in range(count)]  # noqa: S311 - no secret
    words = [chooser.choices(EVENTS[event], k=5) for event in events]
    columns = {"tweet_id": range(count), "text": [" ".join(some) for some in words], "event_id": events, "words": words}
    columns |= {"filtered_words": words, "entities": [[f"entity{event}"] for event in events], "user_id": range(count)}
    columns |= {"created_at": pd.Timestamp("2012-10-11"), "urls": [[]] * count}
    columns |= {"hashtags": [[f"tag{event}"] for event in events], "user_mentions": [[]] * count}
    named = {"get_dataset_name": lambda: "messages", "get_dataset_language": lambda: "English"}
    return SimpleNamespace(load_data=lambda: pd.DataFrame(columns), **named)


def write_encoder() -> None:
    """Write a sentence encoder of random weights where the detectors look for theirs."""
    torch.manual_seed(0)
    tokenizer = word_tokenizer([word for event in EVENTS for word in event])
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **ENCODER))
    # As random as the words, the places of words would count as much.
    torch.nn.init.zeros_(model.embeddings.position_embeddings.weight)
    for part in (tokenizer, model):
        part.save_pretrained("bert")
    for name in ("paraphrase-MiniLM-L6-v2", "all-MiniLM-L6-v2"):
        encoder = SentenceTransformer(modules=[Transformer("bert"), Pooling(32)], device="cpu")
        encoder.save(f"../model/model_needed/{name}")


def detect(detector: object) -> tuple[np.ndarray, np.ndarray]:
    """Use a detector as the repository does; return true and found events."""
    detector.preprocess()
    detector.fit()
    truths, found = detector.detection()
    return np.array(truths), np.array(found)


def work() -> dict[str, object]:
    """Run both detectors in a folder of this rank, on its device.

    HyperSED's preprocessing shuffles the labels and not the messages, and with labels that mean nothing it often ends
    without a result. It takes both from their files where these are there; so they are.
    """
    data = OUT / f"rank-{RANK}/model/model_saved/hypersed/messages/data"
    data.mkdir(parents=True)
    frame = messages(160).load_data()
    np.save(data / "test_set.npy", frame.to_numpy())
    np.save(data / "label.npy", frame["event_id"].to_numpy())
    Path(OUT, f"rank-{RANK}/run").mkdir()
    os.chdir(OUT / f"rank-{RANK}/run")
    write_encoder()
    if DEVICE == "cuda":
        torch.cuda.set_device(RANK)
    module = runpy.run_path(str(REPO / "SocialED/detector/Hypersed.py"))
    losses, steps, before = [], [], {}

    def step(optimizer: torch.optim.Optimizer, *_: object) -> None:
        steps.append(1)
        for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
            before.setdefault(weight, weight.detach().clone())

    def loss(*given: object) -> torch.Tensor:
        losses.append(measure(*given))
        return losses[-1]

    measure, module["HyperSE"].loss = module["HyperSE"].loss, loss
    layers = ("GraphEncoder", "LorentzGraphConvolution")
    with register_optimizer_step_pre_hook(step), Watch("BertModel", *layers) as watch:
        truths, named = detect(runpy.run_path(str(REPO / "SocialED/detector/sbert.py"))["SBERT"](messages(100)))
        events, groups = detect(module["HyperSED"](messages(160), **HYPERSED))
    return {
        "sbert_messages": len(named),
        "sbert_accuracy": float(np.mean(truths == named)),
        "messages": len(groups),
        "agreement": float(adjusted_mutual_info_score(events, groups)),
        # The first epoch has another loss.
        "fall": 1 - losses[-1].item() / losses[1].item(),
        "outputs": sum(watch.calls[layer] for layer in layers),
        "steps": len(steps),
        "moved": sum(not torch.equal(weight, old) for weight, old in before.items()),
        "there": watch.elsewhere == 0,
    }


if __name__ == "__main__":
    ranks = spread(work)
    observe(ranks=len(ranks), **{name: min(rank[name] for rank in ranks) for name in ranks[0]})
