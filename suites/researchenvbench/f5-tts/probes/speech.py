"""C1, C3 and C4 of F5-TTS: data prepared, a small model trained and heard, by its own scripts.

The repository's `prepare_csv_wavs.py` makes a data set of short voices that are written here. Its `Trainer` fits a DiT
of two layers with its configuration F5TTS_Small otherwise; the losses are those of its progress bar, and the
optimizer's state tells the device. In C1 and C3 the command line `python -m f5_tts.infer.infer_cli` then speaks with
that checkpoint and a vocoder of Vocos with random weights, and the sound must be as long as asked for.

In C4 every rank is `train.py`, unchanged. That the ranks shared the data is seen by the number of updates: half as many
as one rank would need.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import sys
from importlib.resources import files
from pathlib import Path
from statistics import mean

import probekit
import soundfile
import torch
import yaml
from probekit import DEVICE, NPROC, OUT, REPO


CLIPS, BATCH, EPOCHS = 16, 4, 12
RATE, HOP, MELS = 24000, 256, 100
TEXT = "some call me nature"
# It is found by this name with the tokenizer that is trained with.
DATA = OUT / "voices_custom"
CONFIGURATION = OUT / "tiny.yaml"
CHECKPOINTS = OUT / "training"


def write_data() -> None:
    """Write voices with their texts, and have the repository prepare them."""
    rows = [f"wavs/{index}.wav|{TEXT} {'abcdefgh'[index % 8]}" for index in range(CLIPS)]
    for index in range(CLIPS):
        probekit.write_speech(OUT / f"raw/wavs/{index}.wav", seconds=1, rate=RATE, seed=index)
    (OUT / "raw/metadata.csv").write_text("\n".join(["audio_file|text", *rows]) + "\n", encoding="utf-8")
    probekit.run_script("src/f5_tts/train/datasets/prepare_csv_wavs.py", OUT / "raw", DATA, "--pretrain", "--workers=1")
    durations = json.loads((DATA / "duration.json").read_text(encoding="utf-8"))["duration"]
    probekit.observe(prepared=len(durations), shortest=min(durations), longest=max(durations))


def write_configuration() -> dict:
    """Write the repository's configuration with a model that is small, for a short training without a tracker."""
    settings = yaml.safe_load((REPO / "src/f5_tts/configs/F5TTS_Small.yaml").read_text(encoding="utf-8"))
    # train.py looks for data and writes checkpoints relative to its own package.
    package = Path(str(files("f5_tts")))
    settings["hydra"]["run"]["dir"] = str(OUT / "hydra")
    settings["model"] |= {"tokenizer": "custom", "tokenizer_path": str(DATA / "vocab.txt")}
    settings["model"]["arch"] |= {"dim": 64, "depth": 2, "heads": 2, "text_dim": 64, "conv_layers": 1}
    settings["datasets"] |= {
        "name": os.path.relpath(OUT / "voices", package / "../../data"),
        "batch_size_type": "sample",
        "batch_size_per_gpu": BATCH,
        "num_workers": 1,
    }
    settings["optim"] |= {"epochs": EPOCHS, "learning_rate": 5e-3, "num_warmup_updates": 1}
    settings["ckpts"] |= {
        "logger": None,
        "log_samples": False,
        "save_dir": os.path.relpath(CHECKPOINTS, package / "../.."),
    }
    CONFIGURATION.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return settings


def train(settings: dict) -> None:
    """Fit a model in this process with the repository's trainer, as its `train.py` does, wherever it is installed."""
    from datasets import Dataset  # noqa: PLC0415 - what starts the ranks needs no more than their files
    from f5_tts.model import CFM, DiT, Trainer  # noqa: PLC0415 - likewise
    from f5_tts.model.dataset import CustomDataset  # noqa: PLC0415 - likewise
    from f5_tts.model.utils import get_tokenizer  # noqa: PLC0415 - likewise

    model, optim = settings["model"], settings["optim"]
    characters, size = get_tokenizer(model["tokenizer_path"], model["tokenizer"])
    transformer = DiT(**model["arch"], text_num_embeds=size, mel_dim=MELS)
    trainer = Trainer(
        CFM(transformer, mel_spec_kwargs=model["mel_spec"], vocab_char_map=characters),
        epochs=EPOCHS,
        learning_rate=optim["learning_rate"],
        num_warmup_updates=optim["num_warmup_updates"],
        checkpoint_path=str(CHECKPOINTS),
        batch_size_per_gpu=BATCH,
        batch_size_type="sample",
        logger=None,
    )
    # Its load_dataset fails for data outside of the repository.
    durations = json.loads((DATA / "duration.json").read_text(encoding="utf-8"))["duration"]
    data = CustomDataset(Dataset.from_file(str(DATA / "raw.arrow")), durations, **model["mel_spec"])
    trainer.train(data, num_workers=1, resumable_with_seed=666)


def train_as_rank() -> None:
    """Be a rank of `train.py`."""
    if DEVICE == "cpu":
        # As `accelerate launch --cpu` does; without it, every rank trains by itself.
        os.environ["ACCELERATE_USE_CPU"] = "true"
    probekit.run_script("src/f5_tts/train/train.py", f"--config-path={OUT}", f"--config-name={CONFIGURATION.name}")


@contextlib.contextmanager
def progress(rank: int):  # noqa: ANN201 - a context manager
    """Keep what the progress bar says, and print it in the end."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    finally:
        print(said.getvalue().replace("\r", "\n")[-4000:], file=sys.stderr)
        (OUT / f"progress-{rank}.txt").write_text(said.getvalue(), encoding="utf-8")


def observe_training() -> None:
    """Put down what the progress bar of the first rank said, and what the checkpoint holds."""
    said = (OUT / "progress-0.txt").read_text(encoding="utf-8")
    shown = re.findall(r"loss=([^,\]]+), update=(\d+)", said)
    losses = list({int(update): float(loss) for loss, update in shown}.values())
    checkpoint = torch.load(CHECKPOINTS / "model_last.pt", weights_only=False)
    state = checkpoint["optimizer_state_dict"]["state"].values()
    probekit.observe(
        updates=checkpoint["update"],
        updates_seen=len(losses),
        first_loss=mean(losses[:4]),
        last_loss=mean(losses[-4:]),
        loss_fell_by=mean(losses[:4]) - mean(losses[-4:]),
        trained_there=sum(probekit.on_device(one["exp_avg"]) for one in state) / len(state),
        # The output layer starts with zeros.
        output_weights=float(checkpoint["ema_model_state_dict"]["ema_model.transformer.proj_out.weight"].abs().sum()),
    )


def write_vocoder(folder: Path) -> None:
    """Write a vocoder for this kind of spectrogram, small and with random weights."""
    from vocos import Vocos  # noqa: PLC0415 - C4 needs none

    spectrogram = {"sample_rate": RATE, "n_fft": 1024, "hop_length": HOP, "n_mels": MELS, "padding": "center"}
    backbone = {"input_channels": MELS, "dim": 32, "intermediate_dim": 64, "num_layers": 2}
    parts = {
        "feature_extractor": ("feature_extractors.MelSpectrogramFeatures", spectrogram),
        "backbone": ("models.VocosBackbone", backbone),
        "head": ("heads.ISTFTHead", {"dim": 32, "n_fft": 1024, "hop_length": HOP, "padding": "center"}),
    }
    folder.mkdir(parents=True)
    configuration = {part: {"class_path": f"vocos.{name}", "init_args": given} for part, (name, given) in parts.items()}
    (folder / "config.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    torch.manual_seed(0)
    torch.save(Vocos.from_hparams(folder / "config.yaml").state_dict(), folder / "pytorch_model.bin")


def speak() -> None:
    """Have the command line say a sentence for two seconds after a reference of two seconds."""
    write_vocoder(OUT / "checkpoints/vocos-mel-24khz")
    (OUT / "work").mkdir()
    os.chdir(OUT / "work")
    options = {
        "model": "F5TTS_Small",
        "model_cfg": CONFIGURATION,
        "ckpt_file": CHECKPOINTS / "model_last.pt",
        "vocab_file": DATA / "vocab.txt",
        "ref_audio": probekit.write_speech(OUT / "reference.wav", seconds=2, rate=RATE, seed=99),
        "ref_text": TEXT,
        "gen_text": "nature call me some",
        "output_dir": OUT,
        "output_file": "spoken.wav",
        "nfe_step": 4,
        "fix_duration": 4,
        "device": DEVICE,
    }
    given = [f"--{name}={value}" for name, value in options.items()]
    sys.argv = ["infer_cli", *given, "--load_vocoder_from_local"]
    seen = runpy.run_module("f5_tts.infer.infer_cli", run_name="__main__", alter_sys=True)
    sound, rate = soundfile.read(OUT / "spoken.wav")
    probekit.observe(
        rate=rate,
        seconds=len(sound) / rate,
        loudness=float(abs(sound).mean()),
        spoken_there=sum(probekit.on_device(next(seen[name].parameters())) for name in ("ema_model", "vocoder")),
    )


def main() -> None:
    """Be a rank; or prepare, train by itself or by ranks, and see what came out."""
    if "LOCAL_RANK" in os.environ:
        with progress(int(os.environ["RANK"])):
            train_as_rank()
        return
    write_data()
    settings = write_configuration()
    if NPROC > 1:
        probekit.run_ranks(__file__)
        observe_training()
        return
    with progress(0):
        train(settings)
    observe_training()
    speak()


if __name__ == "__main__":
    main()
