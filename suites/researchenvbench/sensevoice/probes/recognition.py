"""C1, C3 and C4 of SenseVoice: a small `SenseVoiceSmall` of its `model.py`, trained here, and served by its `api.py`.

It has two layers and random weights, and learns the text of a voice by heart, by its own loss. In C1 and C3 it is laid
where `api.py` looks for the released model; the service, started as it is, gets the voice over HTTP and must answer
with exactly this text. In C4 every rank trains on another voice by DDP, and all must end with the same weights:
funasr's own trainer, which the published harness runs, executes no file of this repository.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import os
import threading
import time

import probekit
import requests
import soundfile
import torch
import uvicorn
import yaml
from funasr.frontends.wav_frontend import WavFrontend
from funasr.utils.load_utils import extract_fbank
from model import SenseVoiceSmall
from observing import apart, fingerprint, fit
from probekit import NPROC, OUT
from ranks import RANK, process_group, spread


TEXT = "speak low"
# The vocabulary is the released one's: the code knows special tokens by number.
TAGS = {"<|en|>": 24885, "<|NEUTRAL|>": 25004, "<|Speech|>": 24993, "<|woitn|>": 25017}
CHARACTERS = {one: 4 + index for index, one in enumerate(sorted(set(TEXT)))}
VOCABULARY, PORT = 25055, 50000
CONFIGURATION = """
model: SenseVoiceSmall
model_conf: {length_normalized_loss: true, sos: 1, eos: 2, ignore_id: -1}
encoder: SenseVoiceEncoderSmall
encoder_conf: {output_size: 64, attention_heads: 4, linear_units: 128, num_blocks: 2, tp_blocks: 1, kernel_size: 11,
    sanm_shfit: 0, dropout_rate: 0.0, positional_dropout_rate: 0.0, attention_dropout_rate: 0.0}
frontend: WavFrontend
frontend_conf: {fs: 16000, window: hamming, n_mels: 80, lfr_m: 7, lfr_n: 6, dither: 0.0, cmvn_file: null}
tokenizer: CharTokenizer
tokenizer_conf: {unk_symbol: <unk>}
"""


def train() -> dict[str, object]:
    """Teach a new model the text of one voice; ranks do it together, each with a voice of its own."""
    conf = yaml.safe_load(CONFIGURATION)
    with process_group() as device:
        torch.manual_seed(0)
        names = {"encoder": conf["encoder"], "encoder_conf": conf["encoder_conf"], "vocab_size": VOCABULARY}
        model = trained = SenseVoiceSmall(**names, input_size=560, length_normalized_loss=True).to(device)
        if NPROC > 1:
            trained = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        path = probekit.write_speech(OUT / f"voice-{RANK}.wav", seconds=2, seed=RANK)
        voice, _ = soundfile.read(path, dtype="float32")
        features = extract_fbank(voice, frontend=WavFrontend(**conf["frontend_conf"]))
        speech, length = (one.to(device) for one in features)
        text = torch.tensor([[*TAGS.values(), *map(CHARACTERS.get, TEXT)]], device=device)
        size = torch.tensor([text.shape[1]], device=device)
        given = {"steps": 40 if NPROC > 1 else 200, "rate": 2e-3, "method": "AdamW"}
        # The lengths are changed in place.
        losses = fit(lambda: trained(speech, length.clone(), text, size.clone())[0], model.parameters(), **given)
        if NPROC == 1:
            save_as_released(model)
        there = probekit.on_device(next(model.parameters()))
        return {"kept": losses[-1] / losses[0], "there": there, "weights": fingerprint(model)}


def save_as_released(model: torch.nn.Module) -> None:
    """Write a model as the released one lies on the hub, with a tokenizer of characters."""
    folder = OUT / "iic/SenseVoiceSmall"
    folder.mkdir(parents=True)
    torch.save(model.state_dict(), folder / "model.pt")
    (folder / "config.yaml").write_text(CONFIGURATION, encoding="utf-8")
    named = {0: "<blank>", 1: "<s>", 2: "</s>", 3: "<unk>"} | {index: tag for tag, index in TAGS.items()}
    named |= {index: "<space>" if one == " " else one for one, index in CHARACTERS.items()}
    tokens = [named.get(index, f"<unused {index}>") for index in range(VOCABULARY)]
    (folder / "tokens.json").write_text(json.dumps(tokens), encoding="utf-8")


def ask_service() -> None:
    """Start the repository's service, and send it the voice."""
    os.chdir(OUT)
    import api  # noqa: PLC0415 - importing it loads the model from the current folder

    server = uvicorn.Server(uvicorn.Config(api.app, host="127.0.0.1", port=PORT))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.1)
    files = {"files": ("voice.wav", (OUT / "voice-0.wav").read_bytes(), "audio/wav")}
    address, about = f"http://127.0.0.1:{PORT}/api/v1/asr", {"keys": "voice", "lang": "en"}
    answer = requests.post(address, files=files, data=about, timeout=120)
    server.should_exit = True
    thread.join()
    (result,) = answer.json()["result"]
    served = type(api.m) is SenseVoiceSmall and probekit.on_device(next(api.m.parameters()))
    probekit.observe(**{name: result[name] for name in ("key", "raw_text", "clean_text", "text")}, served_there=served)


if __name__ == "__main__":
    ranks = spread(train)
    probekit.observe(
        loss_kept=max(rank["kept"] for rank in ranks),
        trained_there=all(rank["there"] for rank in ranks),
        compared_weights=len(ranks[0]["weights"]),
        ranks_apart=apart([rank["weights"] for rank in ranks]),
        ranks=len(ranks),
    )
    if NPROC == 1:
        ask_service()
