"""C1 and C3 of Kokoro-FastAPI: its service, started by uvicorn, and two requests for speech like OpenAI's.

The service takes a folder with a model from its settings: here Kokoro with random weights, small where its
configuration allows it. The voice is one of the repository's. Text becomes phonemes by espeak, in Spanish, for English
wants a model of spaCy, which is no package of an index. A hook keeps the sound of every call of the model: what the
service answers as PCM must be a piece of exactly that, sample for sample, and an MP3 must last about as long.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time

import av
import numpy as np
import requests
import torch
import uvicorn
from kokoro import KModel
from observing import Watch
from probekit import DEVICE, OUT, REPO, observe, on_device


VOICE, TEXT, RATE = "ef_dora", "Hola, esto es una prueba.", 24000
PARTS = ("bert", "bert_encoder", "predictor", "decoder", "text_encoder")
BERT = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "num_hidden_layers": 1}
SMALLER = {"n_layer": 1, "max_dur": 8, "plbert": BERT | {"max_position_embeddings": 512}}


def write_model() -> None:
    """Make the folder of a model, and tell the service where it is."""
    folder = OUT / "models/v1_0"
    folder.mkdir(parents=True)
    config = json.loads((REPO / "api/src/models/v1_0/config.json").read_text(encoding="utf-8")) | SMALLER
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save({}, OUT / "nothing.pth")
    torch.manual_seed(0)
    model = KModel("hexgrad/Kokoro-82M", config=config, model=str(OUT / "nothing.pth"))
    torch.save({part: getattr(model, part).state_dict() for part in PARTS}, folder / "kokoro-v1_0.pth")
    os.environ |= {"MODEL_DIR": str(OUT / "models"), "VOICES_DIR": str(REPO / "api/src/voices/v1_0")}
    os.environ |= {"DEFAULT_VOICE": VOICE, "USE_GPU": str(DEVICE == "cuda").lower(), "DEVICE_TYPE": DEVICE}
    os.environ |= {"TEMP_FILE_DIR": str(OUT / "temp"), "OUTPUT_DIR": str(OUT / "output")}


def start() -> tuple[uvicorn.Server, threading.Thread, str]:
    """Start the service as `uvicorn api.src.main:app` does, and wait until it is there."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config("api.src.main:app"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            sys.exit("the service ended before it answered")
        time.sleep(0.2)
    return server, thread, f"http://127.0.0.1:{listener.getsockname()[1]}"


def speak(address: str, form: str) -> bytes:
    """Request speech."""
    wanted = {"model": "kokoro", "input": TEXT, "voice": VOICE, "response_format": form, "stream": False}
    answer = requests.post(f"{address}/v1/audio/speech", json=wanted, timeout=300)
    answer.raise_for_status()
    return answer.content


def is_piece(samples: np.ndarray, sound: np.ndarray) -> bool:
    """Whether 16-bit samples are a piece of a sound, in which silence was cut off at both ends."""
    whole = np.clip(sound * 32767, -32768, 32767).astype(np.int16)
    windows = np.lib.stride_tricks.sliding_window_view(whole, len(samples)) if 0 < len(samples) <= len(whole) else []
    return any(np.array_equal(window, samples) for window in windows)


if __name__ == "__main__":
    write_model()
    heard, there = [], []

    def _note(model: KModel, _inputs: tuple, output: object) -> None:
        heard.append(output.audio.numpy().copy())
        there.append(on_device(next(model.decoder.parameters())))

    with Watch("KModel", note=_note):
        server, thread, service = start()
        healthy = requests.get(f"{service}/health", timeout=60).json()["status"] == "healthy"
        warmups = len(heard)
        samples = np.frombuffer(speak(service, "pcm"), np.int16)
        spoken = heard[warmups:]
        (OUT / "speech.mp3").write_bytes(speak(service, "mp3"))
        server.should_exit = True
        thread.join()
    with av.open(str(OUT / "speech.mp3")) as sound:
        decoded = sum(frame.samples / frame.sample_rate for frame in sound.decode(audio=0))
    observe(
        healthy=healthy,
        warmups=warmups,
        exact=len(spoken) == 1 and is_piece(samples, spoken[0]),
        seconds=len(samples) / RATE,
        deviation=float(samples.std()),
        mp3_longer_by=decoded - len(samples) / RATE,
        there=all(there),
    )
