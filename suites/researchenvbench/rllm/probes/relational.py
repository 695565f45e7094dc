"""C1 and C3 of rLLM: its script `examples/rdl.py` learns from a relational database made here, in the form of Rel-F1.

The nine tables and three tasks are small Parquet files where the script's data set looks for what it has downloaded,
and the word embeddings of its text columns lie in the cache of the model hub. The script is run as it is: it infers
column types, embeds texts, links the tables to a graph, samples neighbourhoods in time, and trains the relational GNN.

Whether a driver will come in among the first three is told by nothing but the linked rows of past results, and the
drivers of the test set are not those of the training set. A model that gets no messages along the links cannot tell
the two kinds of drivers apart, and one that is not trained does not lower its loss. Hooks of torch see where it
computed.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import probekit
import pyarrow as pa
import torch
from pyarrow import parquet
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, WordEmbeddings
from sentence_transformers.models.tokenizer import WhitespaceTokenizer


EPOCHS = 8
DRIVERS = {"train": range(24), "val": range(24, 32), "test": range(32, 40)}
SYLLABLES = ["ar", "be", "co", "di", "el", "fa", "go", "hu"]
RACES = pd.date_range("2000-01-15", periods=24, freq="90D")
DATA = probekit.OUT / "data" / "rel-f1" / "raw"

chooser = random.Random(0)  # noqa: S311 - test data, no secret


def names(count: int) -> list[str]:
    """Make texts that are too rarely the same for the library to take them for categories."""
    return [" ".join(chooser.choices(SYLLABLES, k=3)) + f" {index}" for index in range(count)]


def write_table(
    path: Path, columns: dict[str, object], key: str | None, links: dict[str, str], time: str | None
) -> None:
    """Write a table in RelBench's form: Parquet, with its keys in the schema's metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(pd.DataFrame(columns), preserve_index=False)
    keys = {"fkey_col_to_pkey_table": json.dumps(links), "pkey_col": json.dumps(key), "time_col": json.dumps(time)}
    parquet.write_table(table.replace_schema_metadata({**table.schema.metadata, **keys}), path)


def write_database(skill: np.ndarray) -> None:
    """Write the nine tables: where a driver finishes depends on his skill, and nothing else does."""
    numbers = np.random.default_rng(0)
    drivers, races = len(skill), len(RACES)
    teams, events = np.arange(6), np.repeat(np.arange(races), len(skill))
    dates = RACES[events]
    starters = {"driverId": np.tile(np.arange(drivers), races), "raceId": events, "date": dates}
    team_events = np.repeat(np.arange(races), len(teams))
    team_rows = {"constructorId": np.tile(teams, races), "raceId": team_events, "date": RACES[team_events]}
    of_driver = {"driverId": "drivers", "raceId": "races"}
    of_team = {"constructorId": "constructors", "raceId": "races"}
    rows, team_count = len(events), len(team_events)
    birth = pd.Timestamp("1970-01-01") + pd.to_timedelta(numbers.integers(5000, size=drivers), unit="D")

    def noise(count: int) -> np.ndarray:
        return numbers.normal(size=count)

    tables = {
        "circuits": ({"circuitId": range(5), "name": names(5), "alt": noise(5)}, "circuitId", {}, None),
        "drivers": ({"driverId": range(drivers), "surname": names(drivers), "dob": birth}, "driverId", {}, None),
        "constructors": ({"constructorId": teams, "name": names(6)}, "constructorId", {}, None),
        "races": (
            {"raceId": range(races), "circuitId": np.arange(races) % 5, "round": noise(races), "date": RACES},
            *("raceId", {"circuitId": "circuits"}, "date"),
        ),
        "results": (
            {"resultId": range(rows), **starters, "place": 2 - 2 * skill[starters["driverId"]] + 0.1 * noise(rows)},
            *("resultId", of_driver, "date"),
        ),
        "standings": ({"id": range(rows), **starters, "wins": noise(rows)}, "id", of_driver, "date"),
        "qualifying": ({"id": range(rows), **starters, "lap": noise(rows)}, "id", of_driver, "date"),
        "constructor_results": (
            {"id": range(team_count), **team_rows, "points": noise(team_count)},
            *("id", of_team, "date"),
        ),
        "constructor_standings": (
            {"id": range(team_count), **team_rows, "points": noise(team_count)},
            *("id", of_team, "date"),
        ),
    }
    for name, table in tables.items():
        write_table(DATA / "db" / f"{name}.parquet", *table)


def write_tasks(skill: np.ndarray) -> None:
    """Write what is to be predicted: for each set its own drivers, at dates late enough for them to have results."""
    targets = {"driver-dnf": "did_not_finish", "driver-position": "position", "driver-top3": "qualifying"}
    for task, target in targets.items():
        for split, drivers in DRIVERS.items():
            ids = np.repeat(np.array(drivers), 4)
            dates = np.tile(RACES[-4:] + pd.Timedelta(days=1), len(drivers))
            columns = {"date": dates, "driverId": ids, target: skill[ids]}
            write_table(DATA / "tasks" / task / f"{split}.parquet", columns, None, {"driverId": "drivers"}, "date")


def write_embeddings() -> None:
    """Put small random word vectors where the model hub's cache holds the ones that the library asks for."""
    weights = np.random.default_rng(0).normal(size=(len(SYLLABLES), 16)).astype("float32")
    words = WordEmbeddings(WhitespaceTokenizer(SYLLABLES, stop_words=[], do_lower_case=True), weights)
    model = SentenceTransformer(modules=[words, Pooling(16)], device="cpu")
    name = "models--sentence-transformers--average_word_embeddings_glove.6B.300d"
    cache = Path(os.environ["HF_HOME"]) / "hub" / name
    revision = "0" * 40
    model.save(str(cache / "snapshots" / revision))
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(revision, encoding="utf-8")


class Echo(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        """Take a part of a line."""
        sys.__stdout__.write(text)
        return super().write(text)


class Watch:
    """Sees what the model and its loss gave, without changing it."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.predictions = 0
        self.elsewhere = 0

    def __call__(self, module: torch.nn.Module, _inputs: object, output: object) -> None:
        """Be a forward hook of every module."""
        if type(module).__name__ == "RDL":
            there = probekit.on_device(output) and all(map(probekit.on_device, module.parameters()))
            self.elsewhere += not (there and probekit.finite(output))
            self.predictions += len(output)
        elif isinstance(module, torch.nn.BCEWithLogitsLoss):
            self.losses.append(output.item())


def main() -> None:
    """Make the inputs, run the script in its folder, and write down what was seen."""
    skill = np.random.default_rng(1).integers(0, 2, size=sum(map(len, DRIVERS.values())))
    write_database(skill)
    write_tasks(skill)
    write_embeddings()

    watch = Watch()
    torch.manual_seed(0)
    # The script finds the library in the folder above the current one.
    os.chdir(probekit.REPO / "examples")
    options = {"task": "driver-top3", "epochs": EPOCHS, "batch_size": 32, "num_neighbors": 4, "lr": 0.02}
    options |= {"hidden_dim": 32, "num_layers": 1, "cache_dir": probekit.OUT / "data"}
    with torch.nn.modules.module.register_module_forward_hook(watch), contextlib.redirect_stdout(Echo()) as out:
        probekit.run_script("examples/rdl.py", *(f"--{name}={value}" for name, value in options.items()))
    areas = [float(value) for value in re.findall(r"Test ROC-AUC: (\S+)", out.getvalue())]
    probekit.observe(
        epochs=len(areas),
        steps=len(watch.losses),
        predictions=watch.predictions,
        elsewhere=watch.elsewhere,
        loss_ratio=sum(watch.losses[-3:]) / sum(watch.losses[:3]),
        area_of_unseen=areas[-1],
    )


if __name__ == "__main__":
    main()
