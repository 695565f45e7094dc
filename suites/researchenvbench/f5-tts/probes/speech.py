"""C1, C3 and C4 of F5-TTS: data prepared, a small model trained and heard, by its own scripts.

Its `prepare_csv_wavs.py` makes a data set of short voices that are written here. Its `Trainer` fits a DiT of two layers
with its configuration F5TTS_Small otherwise, in C4 by `train.py`, where half as many updates show that the ranks shared
the data. Losses are those of its progress bar, the optimizer's state tells the device. In C1 and C3 its command line
then speaks with that checkpoint and a vocoder of random weights, as long as asked for.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

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
from datasets import Dataset
from f5_tts.model import CFM, DiT, Trainer
from f5_tts.model.dataset import CustomDataset
from f5_tts.model.utils import get_tokenizer
from observing import options
from probekit import DEVICE, NPROC, OUT, REPO
from ranks import spread
from vocos import Vocos


BATCHES = {"batch_size_per_gpu": 4, "batch_size_type": "sample"}
OPTIM = {"epochs": 12, "learning_rate": 5e-3, "num_warmup_updates": 1}
RATE, HOP, MELS = 24000, 256, 100
TEXT = "some call me nature"
# It is found by this name with the tokenizer that is trained with.
DATA, CHECKPOINTS = OUT / "voices_custom", OUT / "training"
SPECTROGRAM = {"sample_rate": RATE, "n_fft": 1024, "hop_length": HOP, "n_mels": MELS, "padding": "center"}
HEAD = {"dim": 32, "n_fft": 1024, "hop_length": HOP, "padding": "center"}
BACKBONE = {"input_channels": MELS, "dim": 32, "intermediate_dim": 64, "num_layers": 2}
VOCODER = {
    "feature_extractor": {"class_path": "vocos.feature_extractors.MelSpectrogramFeatures", "init_args": SPECTROGRAM},
    "backbone": {"class_path": "vocos.models.VocosBackbone", "init_args": BACKBONE},
    "head": {"class_path": "vocos.heads.ISTFTHead", "init_args": HEAD},
}


def prepare() -> None:
    """Write voices with their texts, have the repository prepare them, and write its configuration, made small."""
    rows = [f"wavs/{index}.wav|{TEXT} {'abcdefgh'[index % 8]}" for index in range(16)]
    for index in range(16):
        probekit.write_speech(OUT / f"raw/wavs/{index}.wav", seconds=1, rate=RATE, seed=index)
    (OUT / "raw/metadata.csv").write_text("\n".join(["audio_file|text", *rows]) + "\n", encoding="utf-8")
    probekit.run_script("src/f5_tts/train/datasets/prepare_csv_wavs.py", OUT / "raw", DATA, "--pretrain", "--workers=1")
    probekit.observe(prepared=len(durations()), shortest=min(durations()), longest=max(durations()))
    settings = yaml.safe_load((REPO / "src/f5_tts/configs/F5TTS_Small.yaml").read_text(encoding="utf-8"))
    settings["hydra"]["run"]["dir"] = str(OUT / "hydra")
    settings["model"] |= {"tokenizer": "custom", "tokenizer_path": str(DATA / "vocab.txt")}
    settings["model"]["arch"] |= {"dim": 64, "depth": 2, "heads": 2, "text_dim": 64, "conv_layers": 1}
    # train.py looks for data and writes checkpoints relative to its own package.
    root = Path(str(files("f5_tts"))) / "../.."
    settings["datasets"] |= {"name": os.path.relpath(OUT / "voices", root / "data"), "num_workers": 1} | BATCHES
    settings["optim"] |= OPTIM
    settings["ckpts"] |= {"logger": None, "log_samples": False, "save_dir": os.path.relpath(CHECKPOINTS, root)}
    (OUT / "tiny.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def durations() -> list[float]:
    """The durations that the repository found, in seconds."""
    return json.loads((DATA / "duration.json").read_text(encoding="utf-8"))["duration"]


def train() -> None:
    """Train in this process as `train.py` does, for which the package must be installed from where its data are."""
    model = yaml.safe_load((OUT / "tiny.yaml").read_text(encoding="utf-8"))["model"]
    characters, size = get_tokenizer(model["tokenizer_path"], model["tokenizer"])
    transformer = DiT(**model["arch"], text_num_embeds=size, mel_dim=MELS)
    flow = CFM(transformer, mel_spec_kwargs=model["mel_spec"], vocab_char_map=characters)
    trainer = Trainer(flow, checkpoint_path=str(CHECKPOINTS), logger=None, **OPTIM, **BATCHES)
    data = CustomDataset(Dataset.from_file(str(DATA / "raw.arrow")), durations(), **model["mel_spec"])
    trainer.train(data, num_workers=1, resumable_with_seed=666)


def work() -> dict[str, object]:
    """Train, of several ranks each by `train.py`, and keep what the progress bar says."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        if NPROC == 1:
            train()
        else:
            if DEVICE == "cpu":
                # As `accelerate launch --cpu` does; without it, every rank trains by itself.
                os.environ["ACCELERATE_USE_CPU"] = "true"
            probekit.run_script("src/f5_tts/train/train.py", f"--config-path={OUT}", "--config-name=tiny.yaml")
    sys.stderr.write(said.getvalue().replace("\r", "\n")[-4000:])
    return {"shown": re.findall(r"loss=([^,\]]+), update=(\d+)", said.getvalue())}


def speak() -> None:
    """Have the command line say a sentence for two seconds after a reference of two seconds."""
    folder = OUT / "checkpoints/vocos-mel-24khz"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(VOCODER), encoding="utf-8")
    torch.manual_seed(0)
    torch.save(Vocos.from_hparams(folder / "config.yaml").state_dict(), folder / "pytorch_model.bin")
    (OUT / "work").mkdir()
    os.chdir(OUT / "work")
    voice = probekit.write_speech(OUT / "reference.wav", seconds=2, rate=RATE, seed=99)
    given = options(model="F5TTS_Small", model_cfg=OUT / "tiny.yaml", ckpt_file=CHECKPOINTS / "model_last.pt")
    given += options(vocab_file=DATA / "vocab.txt", ref_audio=voice, ref_text=TEXT, gen_text="nature call me some")
    given += options(output_dir=OUT, output_file="spoken.wav", nfe_step=4, fix_duration=4, device=DEVICE)
    sys.argv = ["infer_cli", *given, "--load_vocoder_from_local"]
    seen = runpy.run_module("f5_tts.infer.infer_cli", run_name="__main__", alter_sys=True)
    sound, rate = soundfile.read(OUT / "spoken.wav")
    there = sum(probekit.on_device(next(seen[name].parameters())) for name in ("ema_model", "vocoder"))
    probekit.observe(rate=rate, seconds=len(sound) / rate, loudness=float(abs(sound).mean()), spoken_there=there)


if __name__ == "__main__":
    ranks = spread(work, before=prepare)
    losses = list({int(update): float(loss) for loss, update in ranks[0]["shown"]}.values())
    checkpoint = torch.load(CHECKPOINTS / "model_last.pt", weights_only=False)
    state = checkpoint["optimizer_state_dict"]["state"].values()
    probekit.observe(
        updates=checkpoint["update"],
        updates_seen=len(losses),
        last_loss=mean(losses[-4:]),
        loss_fell_by=mean(losses[:4]) - mean(losses[-4:]),
        trained_there=sum(probekit.on_device(one["exp_avg"]) for one in state) / len(state),
        # The output layer starts with zeros.
        output_weights=float(checkpoint["ema_model_state_dict"]["ema_model.transformer.proj_out.weight"].abs().sum()),
    )
    if NPROC == 1:
        speak()
