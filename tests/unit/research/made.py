"""Outputs as the published scripts write them, with figures that we made up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_researchenv.research.outputs.continual import SEEDS
from pytest_researchenv.research.outputs.explanation import FOLDS


__all__ = [
    "ACCURACIES",
    "frame",
    "generation",
    "log",
    "paragraphs",
    "real_row",
    "real_tables",
    "record",
    "retrieval_run",
    "synthetic_row",
    "training_logs",
    "write",
]

#: An accuracy after each of ten steps; their mean is 92.
ACCURACIES = (98.5, 97.0, 95.5, 94.0, 92.5, 91.0, 90.0, 88.5, 87.0, 86.0)


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def log(
    seed: int,
    accuracies: Sequence[float] = ACCURACIES,
    *,
    dataset: str = "cifar224",
    increment: int = 10,
    average: float | None = None,
) -> str:
    """What the trainer logs of a seed."""
    settings = {"config": "./exps/ours.json", "seed": seed, "prefix": "ours", "dataset": dataset, "memory_size": 0}
    settings |= {"init_cls": increment, "increment": increment, "model_name": "ours", "device": "[device(type='cpu')]"}
    lines = [f"{key}: {value}" for key, value in settings.items()]
    for step, total in enumerate(accuracies, 1):
        mean = sum(accuracies[:step]) / step if average is None else average
        groups = {f"{first:02}-{first + increment - 1:02}": total for first in range(0, step * increment, increment)}
        shown = ", ".join(f"'{key}': np.float64({value})" for key, value in {"total": total, **groups}.items())
        lines += [
            "All params: 86567656",
            "No NME accuracy.",
            f"CNN: {{{shown}, 'old': 0, 'new': np.float64({total})}}",
            f"CNN top1 curve: [{', '.join(f'np.float64({one})' for one in accuracies[:step])}]",
            f"CNN top5 curve: [{', '.join('np.float64(99.9)' for _ in range(step))}]\n",
            f"Average Accuracy (CNN): {mean} \n",
        ]
    lines.append("Forgetting (CNN): 3.2")
    return "".join(f"2026-01-02 03:04:05,678 [trainer.py] => {line}\n" for line in lines)


def training_logs(
    root: Path, folder: str = "ours/cifar224/0/10", *, seeds: Sequence[int] = SEEDS, **how: object
) -> None:
    """A log of each seed in a folder of the stock layout."""
    for seed in seeds:
        write(root / folder / f"ours_{seed}_vit_base.log", log(seed, **how))  # type: ignore[arg-type]


def retrieval_run(folder: Path, recalls: tuple[float, float], **settings: str) -> None:
    """What a run of the retrieval task leaves in its folder: recalls of texts to images, and of images to texts."""
    flickr = {"image_root": "./dataset/flickr/flickr_image", "ann_root": "./dataset/flickr/flickr_annotations"}
    values = {"backbone": "blip", "dataset": "flickr", "pretrained": "./weights/blip/model_base.pth", "vit": "base"}
    values |= flickr | settings | {"vit_grad_ckpt": "true", "image_size": "384"}
    write(folder / "config.yaml", "".join(f"{key}: {value or repr('')}\n" for key, value in sorted(values.items())))
    text, image = recalls
    result = {"txt_r1": text, "txt_r5": 90.1, "txt_r_mean": 80.2, "img_r1": image, "img_r5": 85.0, "r_mean": 77.7}
    write(folder / "evaluate.txt", json.dumps(result) + "\n")


def record(environment: str, category: str | None, seed: int, value: object, steps: int | None = 100_000) -> object:
    """A record of the replay task."""
    made: dict[str, object] = {"environment": environment, "seed": seed, "metrics": {"average_return": value}}
    made |= {} if category is None else {"category": category}
    return made | ({} if steps is None else {"env_steps": steps})


def real_row(fold: int, cpd: object, *, substitute: str = "Average", explainer: str = "ours", topk: float = 0.1) -> str:
    """A row of real data: sixteen columns and no header."""
    rest = "0.31,0.9,0.1,0.8,0.2,0.3"
    return f"42,{fold},{substitute},{topk},{explainer},1.0,1.0,1.0,0.05,{cpd},{rest}\n"


def synthetic_row(fold: int, cpd: object, aup: object, aur: object, *, substitute: str = "Average") -> str:
    """A row of synthetic data: fifteen columns and no header."""
    return f"42,{fold},{substitute},ours,1.0,1.0,0.05,{cpd},0.1,{aup},{aur},3.5,0.2,0.9,0.8\n"


def generation(root: Path, shares: Mapping[int, float]) -> None:
    """Files of each seed, and their summary; each task has the same shares."""
    tasks = ("NER", "RC", "EAE", "PC", "SAR", "SC", "SF")
    for seed, share in shares.items():
        metrics = {task: {"micro_f1": share, "macro_f1": share - 0.1} for task in tasks}
        write(root / f"generation/gen_seed_{seed}.json", json.dumps({"seed": seed, "metrics": metrics}))
    summary: dict[str, object] = {"seeds": list(shares)}
    summary["micro"] = {task: list(shares.values()) for task in tasks}
    summary["macro"] = {task: [share - 0.1 for share in shares.values()] for task in tasks}
    write(root / "generation/gen_summary.json", json.dumps(summary))


def frame(path: Path, macro: Sequence[object], micro: Sequence[object], columns: Sequence[int] | None = None) -> None:
    """A frame of results, as JSON."""
    rows = {"Val macro_f1": macro, "Test macro_f1": macro, "Val micro_f1": micro, "Test micro_f1": micro}
    labels = list(range(len(macro))) if columns is None else list(columns)
    write(path, json.dumps({"columns": labels, "index": list(rows), "data": [list(row) for row in rows.values()]}))


def paragraphs(root: Path, values: Sequence[object], seeds: Sequence[int] = (42, 43, 44)) -> None:
    """The summary of the paragraph classification."""
    made = {"best_lr": 2e-05, "val_accuracy_list": list(values), "test_accuracy_list": list(values)}
    write(root / "cls/pc_summary.json", json.dumps(made | {"seeds": list(seeds), "model_name": "ours"}))


def real_tables(root: Path, dataset: str = "pam", folds: Sequence[int] = FOLDS) -> None:
    """A table of each fold."""
    for fold in folds:
        rows = real_row(fold, 0.41 + fold / 100) + real_row(fold, 0.51 + fold / 100, substitute="Zeros")
        write(root / dataset / f"state_{dataset}_{fold}_0_results_ours.csv", rows)
