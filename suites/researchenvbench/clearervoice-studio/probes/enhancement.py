"""C1, C3 and C4 of ClearerVoice-Studio: training of FRCRN by its own `train.py`, then inference and scores.

`train/speech_enhancement/train.py` runs unchanged, with its configuration and random weights, on short noisy voices
made here; losses are read from its tensorboard log. In C1 and C3 its `inference.py` then cleans a voice, and
SpeechScore rates voices: PESQ and MCD (compiled) know a voice from its noisy copy, SI-SDR is computed here, too. In C4
`train.py` insists on NCCL: without CUDA its parts are put together as it does. Ranks must end with the same weights.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import math
import os
import random
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import probekit
import soundfile
import torch
import yaml
from observing import apart, options
from probekit import DEVICE, NPROC, OUT, REPO
from ranks import RANK, process_group, spread
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


TRAIN, VOICES, RATE = REPO / "train/speech_enhancement", OUT / "voices.scp", 16000
CUDA = int(DEVICE == "cuda")


def write_voices() -> None:
    """Write pairs of a noisy and a clean voice, and the list of them that training reads."""
    noise, lines = np.random.default_rng(0), []
    (OUT / "noisy").mkdir()
    for index in range(2):
        clean = probekit.write_speech(OUT / f"clean/{index}.wav", seconds=1, rate=RATE, seed=index)
        voice, noisy = soundfile.read(clean)[0], OUT / f"noisy/{index}.wav"
        soundfile.write(noisy, voice + 0.3 * voice.std() * noise.standard_normal(voice.size), RATE)
        lines.append(f"{noisy} {clean} 1.0\n")
    VOICES.write_text("".join(lines), encoding="utf-8")


def train() -> dict[str, object]:
    """Train as a rank of `train.py`, or as it does where it cannot; tell of the checkpoint."""
    # Every rank writes checkpoints. Epochs are counted from 0.
    folder = OUT / f"checkpoints-{RANK}"
    folder.mkdir()
    given = {"config": "config/train/FRCRN_SE_16K.yaml", "checkpoint_dir": folder, "train_from_last_checkpoint": 0}
    given |= {"init_checkpoint_path": OUT / "none", "batch_size": 2, "accu_grad": 0, "num_workers": 0, "print_freq": 1}
    given |= {"use-cuda": CUDA, "tr-list": VOICES, "cv-list": VOICES, "max-epoch": 2, "local-rank": RANK}
    if NPROC > 1 and not CUDA:
        train_on_cpu(given)
    else:
        probekit.run_script(TRAIN / "train.py", *options(**given))
    saved = torch.load(folder / (folder / "last_checkpoint").read_text(encoding="utf-8").strip())
    states = saved["optimizer"]["state"].values()
    weights = [weight for name, weight in saved["model"].items() if name.endswith((".weight", ".bias"))]
    return {
        "there": bool(states) and all(probekit.on_device(state["exp_avg"]) for state in states),
        "weights": [weight.double().sum().item() for weight in weights],
    }


def train_on_cpu(given: dict[str, object]) -> None:
    """Put together what `train.py` does, with a group and a parallel model for the CPU."""
    sys.path[0] = str(TRAIN)
    from dataloader.dataloader import get_dataloader  # noqa: PLC0415 - found in the folder of the script only
    from networks import network_wrapper  # noqa: PLC0415 - likewise
    from solver import Solver  # noqa: PLC0415 - likewise

    settings = yaml.safe_load(Path(given["config"]).read_text(encoding="utf-8"))
    args = Namespace(**settings | {name.replace("-", "_"): value for name, value in given.items()})
    args.device, args.world_size, args.checkpoint_save_freq = torch.device("cpu"), NPROC, 50
    args.distributed, args.load_fbank, args.tt_list = True, None, None
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    with process_group():
        model = network_wrapper(args).se_network
        optimizer = torch.optim.Adam(model.get_params(args.weight_decay), lr=args.init_learning_rate)
        args.train_sampler, training = get_dataloader(args, "train")
        _, validation = get_dataloader(args, "val")
        # The solver's own parallel model names a CUDA device and synchronises batch norms on CUDA.
        args.distributed = False
        parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        solver = Solver(args, parallel, optimizer, None, None, training, validation, None)
        args.distributed = True
        solver.train()


def clean_and_score() -> dict[str, float]:
    """Clean a voice with what was trained, and rate voices."""
    # What stands before a configuration is overwritten by it.
    given = {"config": "config/inference/FRCRN_SE_16K.yaml", "input-path": OUT / "noisy/0.wav", "use-cuda": CUDA}
    given |= {"output-dir": OUT / "cleaned", "checkpoint-dir": OUT / "checkpoints-0"}
    probekit.run_script(TRAIN / "inference.py", *options(**given))
    sys.path[0] = str(REPO / "speechscore")
    from speechscore import SpeechScore  # noqa: PLC0415 - found in its folder only

    noisy, clean, cleaned = (str(OUT / f"{folder}/0.wav") for folder in ("noisy", "clean", "cleaned"))
    # Of a voice that a hardly trained network cleaned, PESQ may find nothing to rate.
    rate, rated = SpeechScore(["PESQ", "MCD"]), {}
    for name, voice in (("noise", noisy), ("itself", clean)):
        scores = rate(voice, clean, score_rate=RATE)
        rated |= {f"{score.lower()}_of_{name}": float(scores[score]) for score in ("PESQ", "MCD")}
    scores = SpeechScore(["STOI", "SISDR"])(cleaned, clean, score_rate=RATE)
    estimate, reference = soundfile.read(cleaned)[0], soundfile.read(clean)[0]
    target = reference * (reference @ estimate) / (reference @ reference)
    expected = 10 * np.log10(np.sum(target**2) / np.sum((estimate - target) ** 2))
    return rated | {"stoi": float(scores["STOI"]), "si_sdr_error": float(abs(scores["SISDR"] - expected))}


if __name__ == "__main__":
    os.chdir(TRAIN)
    ranks = spread(train, before=write_voices)
    # The first rank alone writes it.
    events = EventAccumulator(str(OUT / "checkpoints-0/tensorboard"))
    events.Reload()
    losses, validations = ([one.value for one in events.Scalars(f"{name}_loss")] for name in ("Train", "Validation"))
    probekit.observe(
        epochs=len(losses),
        last_loss=losses[-1],
        loss_fell_by=losses[0] - losses[-1],
        validations=sum(map(math.isfinite, validations)),
        trained_there=all(rank["there"] for rank in ranks),
        compared_weights=len(ranks[0]["weights"]),
        ranks_apart=apart([rank["weights"] for rank in ranks]),
        **(clean_and_score() if NPROC == 1 else {}),
    )
