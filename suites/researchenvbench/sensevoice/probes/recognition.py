"""C1, C3 and C4 of SenseVoice: a small `SenseVoiceSmall` of its `model.py`, trained here, and served by its `api.py`.

The model has two layers and random weights, and the vocabulary of the released one, whose special tokens the code knows
by number. It is trained on a voice that is made here, by its own loss, until it knows the text by heart.

In C1 and C3 it is then laid where `api.py` looks for the released model. The service is started as it is, gets the
voice over HTTP, and must answer with exactly this text: features, encoder, CTC, tokens and clean-up all have to work.

In C4 every rank trains on another voice, in a parallel model. The ranks must end with the same weights, which takes
their gradients: funasr's own trainer, which the published harness runs, executes no file of this repository.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import probekit
import requests
import soundfile
import torch
import uvicorn
import yaml
from funasr.frontends.wav_frontend import WavFrontend
from funasr.utils.load_utils import extract_fbank
from model import SenseVoiceSmall
from probekit import DEVICE, NPROC, OUT


TEXT = "speak low"
TAGS = {"<|en|>": 24885, "<|NEUTRAL|>": 25004, "<|Speech|>": 24993, "<|woitn|>": 25017}
VOCABULARY = 25055
CHARACTERS = sorted(set(TEXT))
PORT = 50000

ENCODER = {
    "output_size": 64,
    "attention_heads": 4,
    "linear_units": 128,
    "num_blocks": 2,
    "tp_blocks": 1,
    "dropout_rate": 0.0,
    "positional_dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "kernel_size": 11,
    "sanm_shfit": 0,
}
FRONTEND = {"fs": 16000, "window": "hamming", "n_mels": 80, "lfr_m": 7, "lfr_n": 6, "dither": 0.0, "cmvn_file": None}


def tokens() -> list[str]:
    """Name every token: silence first, then the text's characters, and the special ones at their places."""
    named = {0: "<blank>", 1: "<s>", 2: "</s>", 3: "<unk>"}
    named |= {4 + index: "<space>" if one == " " else one for index, one in enumerate(CHARACTERS)}
    named |= {index: tag for tag, index in TAGS.items()}
    return [named.get(index, f"<unused {index}>") for index in range(VOCABULARY)]


def train(rank: int, steps: int) -> tuple[torch.nn.Module, list[float]]:
    """Teach a new model the text of one voice; ranks do it together, each with a voice of its own."""
    device = torch.device(DEVICE, rank) if DEVICE == "cuda" else torch.device(DEVICE)
    torch.manual_seed(0)
    model = SenseVoiceSmall(
        encoder="SenseVoiceEncoderSmall",
        encoder_conf=ENCODER,
        input_size=FRONTEND["n_mels"] * FRONTEND["lfr_m"],
        vocab_size=VOCABULARY,
        length_normalized_loss=True,
    ).to(device)
    trained = model
    if NPROC > 1:
        ids = [rank] if DEVICE == "cuda" else None
        trained = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, find_unused_parameters=True)
    voice, _ = soundfile.read(probekit.write_speech(OUT / f"voice-{rank}.wav", seconds=2, seed=rank), dtype="float32")
    speech, lengths = extract_fbank(voice, frontend=WavFrontend(**FRONTEND))
    text = torch.tensor([[*TAGS.values(), *(4 + CHARACTERS.index(one) for one in TEXT)]], device=device)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps):
        # The lengths are changed in place.
        given = (speech.to(device), lengths.clone().to(device), text, torch.tensor([text.shape[1]], device=device))
        loss, _, _ = trained(*given)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return model, losses


def save_as_released(model: torch.nn.Module, folder: Path) -> None:
    """Write a model as the released one lies on the hub, with a tokenizer of characters."""
    folder.mkdir(parents=True)
    torch.save(model.state_dict(), folder / "model.pt")
    (folder / "tokens.json").write_text(json.dumps(tokens()), encoding="utf-8")
    configuration = {
        "model": "SenseVoiceSmall",
        "model_conf": {"length_normalized_loss": True, "sos": 1, "eos": 2, "ignore_id": -1},
        "encoder": "SenseVoiceEncoderSmall",
        "encoder_conf": ENCODER,
        "frontend": "WavFrontend",
        "frontend_conf": FRONTEND,
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")


def ask_service() -> None:
    """Start the repository's service, and send it the voice."""
    import api  # noqa: PLC0415 - importing it loads the model from the current folder

    server = uvicorn.Server(uvicorn.Config(api.app, host="127.0.0.1", port=PORT))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise SystemExit("the service ended before it was ready")
        time.sleep(0.1)
    voice = (OUT / "voice-0.wav").read_bytes()
    answer = requests.post(
        f"http://127.0.0.1:{PORT}/api/v1/asr",
        files={"files": ("voice.wav", voice, "audio/wav")},
        data={"keys": "voice", "lang": "en"},
        timeout=120,
    )
    server.should_exit = True
    thread.join()
    answer.raise_for_status()
    (result,) = answer.json()["result"]
    print("answered:", result)
    probekit.observe(
        **{name: result[name] for name in ("key", "raw_text", "clean_text", "text")},
        served_by_repository=int(type(api.m) is SenseVoiceSmall),
        served_there=int(probekit.on_device(next(api.m.parameters()))),
    )


def observe_training(model: torch.nn.Module, losses: list[float]) -> None:
    """Put down the losses and where the model was."""
    probekit.observe(
        steps=len(losses),
        first_loss=losses[0],
        last_loss=losses[-1],
        loss_kept=losses[-1] / losses[0],
        trained_there=int(probekit.on_device(next(model.parameters()))),
    )


def be_rank(rank: int) -> None:
    """Train with the others, and write down the weights."""
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    model, losses = train(rank, steps=40)
    if rank == 0:
        observe_training(model, losses)
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, OUT / f"weights-{rank}.pt")
    torch.distributed.destroy_process_group()


def main() -> None:
    """Be a rank, or start the ranks and compare them, or train alone and serve."""
    if "LOCAL_RANK" in os.environ:
        be_rank(int(os.environ["LOCAL_RANK"]))
        return
    if NPROC > 1:
        probekit.run_ranks(__file__)
        ranks = [torch.load(OUT / f"weights-{rank}.pt") for rank in range(NPROC)]
        apart = max(float((ranks[0][name] - ranks[-1][name]).abs().max()) for name in ranks[0])
        probekit.observe(compared_weights=len(ranks[0]), ranks_apart=apart)
        return
    model, losses = train(0, steps=200)
    observe_training(model, losses)
    work = OUT / "work"
    save_as_released(model, work / "iic/SenseVoiceSmall")
    os.chdir(work)
    ask_service()


if __name__ == "__main__":
    main()
