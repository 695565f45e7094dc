"""C1 and C3 of rLLM: its script `examples/rdl.py` learns from a relational database made here, in the form of Rel-F1.

Nine tables and three tasks lie where the script's data set looks for what it has downloaded, word embeddings in the
cache of the model hub. The script runs as it is: it infers column types, embeds texts, links tables to a graph, samples
neighbourhoods in time, and trains the relational GNN. Whether a driver comes in among the first three is told by the
linked rows of past results alone, and the drivers of the test set are not those of the training set.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from pathlib import Path

import hub
import numpy as np
import pandas as pd
import probekit
import pyarrow as pa
import torch
from observing import Watch, options
from pyarrow import parquet
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, WordEmbeddings
from sentence_transformers.models.tokenizer import WhitespaceTokenizer


DRIVERS = {"train": range(24), "val": range(24, 32), "test": range(32, 40)}
TASKS = {"driver-dnf": "did_not_finish", "driver-position": "position", "driver-top3": "qualifying"}
SYLLABLES = ["ar", "be", "co", "di", "el", "fa", "go", "hu"]
RACES = pd.date_range("2000-01-15", periods=24, freq="90D")
EMBEDDINGS = "sentence-transformers/average_word_embeddings_glove.6B.300d"
numbers = np.random.default_rng(0)


def names(count: int) -> list[str]:
    """Make texts that are too rarely the same for the library to take them for categories."""
    return [" ".join(numbers.choice(SYLLABLES, 3)) + f" {index}" for index in range(count)]


def write_table(path: str, columns: dict[str, object]) -> None:
    """Write a table in RelBench's form: Parquet, with its keys in the schema's metadata."""
    file = probekit.OUT / f"data/rel-f1/raw/{path}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)
    key, time = next(iter(columns)) if path.startswith("db/") else None, "date" if "date" in columns else None
    links = {name: f"{name[:-2]}s" for name in columns if name.endswith("Id") and name != key}
    keys = {"fkey_col_to_pkey_table": json.dumps(links), "pkey_col": json.dumps(key), "time_col": json.dumps(time)}
    parquet.write_table(table.replace_schema_metadata({**table.schema.metadata, **keys}), file)


def write_data(skill: np.ndarray) -> None:
    """Write tables and tasks: where a driver finishes depends on his skill, nothing else does, and it is asked for."""
    entries, noise, races = {}, numbers.normal, len(RACES)
    for kind, count in (("driver", len(skill)), ("constructor", 6)):
        race, who = np.repeat(np.arange(races), count), np.tile(np.arange(count), races)
        entries[kind] = {"id": range(len(race)), f"{kind}Id": who, "raceId": race, "date": RACES[race]}
        entries[kind]["points"] = noise(size=len(race))
    starts = entries["driver"]
    birth = pd.Timestamp("1970-01-01") + pd.to_timedelta(numbers.integers(5000, size=len(skill)), unit="D")
    race = {"raceId": range(races), "circuitId": np.arange(races) % 5, "round": noise(size=races), "date": RACES}
    write_table("db/circuits", {"circuitId": range(5), "name": names(5), "alt": noise(size=5)})
    write_table("db/drivers", {"driverId": range(len(skill)), "surname": names(len(skill)), "dob": birth})
    write_table("db/constructors", {"constructorId": range(6), "name": names(6)})
    write_table("db/races", race)
    write_table("db/results", starts | {"points": 2 - 2 * skill[starts["driverId"]] + 0.1 * starts["points"]})
    for table in ("standings", "qualifying", "constructor_results", "constructor_standings"):
        write_table(f"db/{table}", entries["constructor" if "constructor" in table else "driver"])
    # Each set has its own drivers, and dates late enough for them to have results.
    for split, drivers in DRIVERS.items():
        ids, dates = np.repeat(np.array(drivers), 4), np.tile(RACES[-4:] + pd.Timedelta(days=1), len(drivers))
        for task, target in TASKS.items():
            write_table(f"tasks/{task}/{split}", {"date": dates, "driverId": ids, target: skill[ids]})


def write_embeddings() -> None:
    """Put small random word vectors where sentence-transformers, old or new, finds those that the library asks for."""
    weights = numbers.normal(size=(len(SYLLABLES), 16)).astype("float32")
    words = WordEmbeddings(WhitespaceTokenizer(SYLLABLES, stop_words=[], do_lower_case=True), weights)
    model = SentenceTransformer(modules=[words, Pooling(16)], device="cpu")
    for folder in (hub.snapshot(EMBEDDINGS), Path(os.environ["HF_HOME"], "hub", EMBEDDINGS.replace("/", "_"))):
        model.save(str(folder))


if __name__ == "__main__":
    write_data(np.random.default_rng(1).integers(0, 2, size=sum(map(len, DRIVERS.values()))))
    write_embeddings()
    seen, out = {"RDL": [], "BCEWithLogitsLoss": []}, io.StringIO()

    def _note(module: torch.nn.Module, _inputs: tuple, output: torch.Tensor) -> None:
        seen[type(module).__name__].append(output.detach().cpu())

    torch.manual_seed(0)
    # The script finds the library in the folder above the current one.
    os.chdir(probekit.REPO / "examples")
    given = options(task="driver-top3", epochs=8, batch_size=32, num_neighbors=4, lr=0.02, hidden_dim=32, num_layers=1)
    try:
        with Watch(*seen, note=_note) as watch, contextlib.redirect_stdout(out):
            probekit.run_script("examples/rdl.py", *given, f"--cache_dir={probekit.OUT / 'data'}")
    finally:
        print(out.getvalue())
    losses = torch.stack(seen["BCEWithLogitsLoss"])
    areas = [float(value) for value in re.findall(r"Test ROC-AUC: (\S+)", out.getvalue())]
    probekit.observe(
        epochs=len(areas),
        steps=len(losses),
        predictions=sum(map(len, seen["RDL"])),
        elsewhere=watch.elsewhere,
        loss_ratio=(losses[-3:].sum() / losses[:3].sum()).item(),
        area_of_unseen=areas[-1],
    )
