"""C1, C3 and C4 of ClearerVoice-Studio: training of FRCRN by its own `train.py`, then inference and scores.

`train/speech_enhancement/train.py` runs unchanged, from its own folder, with its own configuration of FRCRN_SE_16K and
random weights, over short noisy voices that are made here. The losses are read from what it logs for tensorboard. In
C1 and C3 its `inference.py` then cleans a voice with the checkpoint that training left, and SpeechScore rates voices:
by PESQ and MCD, which are compiled extensions and know a voice from its noisy copy, and by SI-SDR, which is computed
here, too.

In C4 every rank is `train.py`, which insists on NCCL and CUDA. Without CUDA, the same network, loader, sampler and
solver are put together here as `train.py` does, with a parallel model for the CPU. The ranks train on different voices;
that they end with the same weights shows that they exchanged their gradients.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import probekit
import soundfile
import torch
import yaml
from probekit import DEVICE, NPROC, OBSERVER, OUT, REPO
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


TRAIN = REPO / "train/speech_enhancement"
CONFIGURATION = "config/{}/FRCRN_SE_16K.yaml"
RATE = 16000
VOICES = 2
# Epochs are counted from 0.
LAST_EPOCH = 2


def write_voices(path: Path) -> None:
    """Write pairs of a noisy and a clean voice, and the list of them that training reads."""
    noise = np.random.default_rng(0)
    lines = []
    for index in range(VOICES):
        clean = probekit.write_speech(OUT / f"clean/{index}.wav", seconds=1, rate=RATE, seed=index)
        voice, _ = soundfile.read(clean)
        noisy = OUT / f"noisy/{index}.wav"
        noisy.parent.mkdir(exist_ok=True)
        soundfile.write(noisy, voice + 0.3 * voice.std() * noise.standard_normal(voice.size), RATE)
        lines.append(f"{noisy} {clean} 1.0\n")
    path.write_text("".join(lines), encoding="utf-8")


def options(voices: Path, rank: int) -> dict[str, object]:
    """What training is told; each rank has checkpoints of its own, since every rank writes them."""
    return {
        "use_cuda": int(DEVICE == "cuda"),
        "checkpoint_dir": OUT / f"checkpoints-{rank}",
        "train_from_last_checkpoint": 0,
        "init_checkpoint_path": OUT / "none",
        "tr_list": voices,
        "cv_list": voices,
        "batch_size": 2,
        "accu_grad": 0,
        "effec_batch_size": 2,
        "num_workers": 0,
        "max_epoch": LAST_EPOCH,
        "print_freq": 1,
    }


def train(voices: Path, rank: int) -> None:
    """Run `train.py` as it is."""
    given = options(voices, rank)
    given["checkpoint_dir"].mkdir()
    # Some of its options are written with hyphens.
    hyphens = {"use_cuda", "tr_list", "cv_list", "max_epoch"}
    arguments = [f"--{name.replace('_', '-') if name in hyphens else name}={value}" for name, value in given.items()]
    config = CONFIGURATION.format("train")
    probekit.run_script(TRAIN / "train.py", f"--config={config}", *arguments, f"--local-rank={rank}")


def train_on_cpu(voices: Path, rank: int) -> None:
    """Do what `train.py` does with several ranks, on the CPU, where it can't: its process group is NCCL's."""
    sys.path[0] = str(TRAIN)
    from dataloader.dataloader import get_dataloader  # noqa: PLC0415 - found in the folder of the script only
    from networks import network_wrapper  # noqa: PLC0415 - likewise
    from solver import Solver  # noqa: PLC0415 - likewise

    settings = yaml.safe_load((TRAIN / CONFIGURATION.format("train")).read_text(encoding="utf-8"))
    args = Namespace(**settings | options(voices, rank))
    args.device, args.local_rank, args.world_size, args.distributed = torch.device("cpu"), rank, NPROC, True
    args.load_fbank = args.tt_list = None
    args.checkpoint_save_freq = 50
    args.checkpoint_dir.mkdir()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.distributed.init_process_group("gloo")
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
    torch.distributed.destroy_process_group()


def checkpoint(rank: int) -> dict[str, object]:
    """Load the last checkpoint of a rank, where its tensors were."""
    folder = OUT / f"checkpoints-{rank}"
    return torch.load(folder / (folder / "last_checkpoint").read_text(encoding="utf-8").strip())


def observe_training(rank: int) -> None:
    """Put down the losses, and where the optimizer kept its state."""
    events = EventAccumulator(str(OUT / f"checkpoints-{rank}/tensorboard"))
    events.Reload()
    losses = [event.value for event in events.Scalars("Train_loss")]
    state = checkpoint(rank)["optimizer"]["state"].values()
    probekit.observe(
        epochs=len(losses),
        first_loss=losses[0],
        last_loss=losses[-1],
        loss_fell_by=losses[0] - losses[-1],
        validations=sum(math.isfinite(event.value) for event in events.Scalars("Validation_loss")),
        trained_there=sum(probekit.on_device(parameter["exp_avg"]) for parameter in state) / len(state),
    )


def si_sdr(estimate: np.ndarray, reference: np.ndarray) -> float:
    """Ratio of what the estimate shares with the reference to the rest of it, in decibels."""
    target = reference * (reference @ estimate) / (reference @ reference)
    return 10 * np.log10(np.sum(target**2) / np.sum((estimate - target) ** 2))


def clean_and_score() -> None:
    """Clean a voice with what was trained, and rate voices."""
    paths = {"input-path": OUT / "noisy/0.wav", "output-dir": OUT / "cleaned", "checkpoint-dir": OUT / "checkpoints-0"}
    arguments = [f"--{name}={path}" for name, path in paths.items()]
    config = CONFIGURATION.format("inference")
    probekit.run_script(TRAIN / "inference.py", f"--config={config}", *arguments, f"--use-cuda={int(DEVICE == 'cuda')}")

    sys.path[0] = str(REPO / "speechscore")
    from speechscore import SpeechScore  # noqa: PLC0415 - found in its folder only

    noisy, clean, cleaned = (str(OUT / f"{folder}/0.wav") for folder in ("noisy", "clean", "cleaned"))
    # Of a voice that a hardly trained network cleaned, PESQ may find nothing to rate.
    rate = SpeechScore(["PESQ", "MCD"])
    worse, same = rate(noisy, clean, score_rate=RATE), rate(clean, clean, score_rate=RATE)
    scores = SpeechScore(["STOI", "SISDR"])(cleaned, clean, score_rate=RATE)
    expected = si_sdr(soundfile.read(cleaned)[0], soundfile.read(clean)[0])
    probekit.observe(
        pesq_of_noise=float(worse["PESQ"]),
        pesq_of_itself=float(same["PESQ"]),
        mcd_of_noise=float(worse["MCD"]),
        mcd_of_itself=float(same["MCD"]),
        stoi=float(scores["STOI"]),
        si_sdr_error=float(abs(scores["SISDR"] - expected)),
    )


def main() -> None:
    """Be a rank, or start the ranks, or train alone; then look at what came out."""
    os.chdir(TRAIN)
    voices = OUT / "voices.scp"
    if "LOCAL_RANK" in os.environ:
        (train if DEVICE == "cuda" else train_on_cpu)(voices, int(os.environ["LOCAL_RANK"]))
        return
    write_voices(voices)
    if NPROC > 1:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={NPROC}"]
        subprocess.run([*launcher, OBSERVER, __file__], check=True)
        observe_training(0)
        models = [checkpoint(rank)["model"] for rank in range(NPROC)]
        weights = [name for name, tensor in models[0].items() if name.endswith((".weight", ".bias"))]
        apart = max(float((models[0][name].cpu() - models[-1][name].cpu()).abs().max()) for name in weights)
        probekit.observe(compared_weights=len(weights), ranks_apart=apart)
        return
    train(voices, 0)
    observe_training(0)
    clean_and_score()


if __name__ == "__main__":
    main()
