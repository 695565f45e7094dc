"""C1 and C3 of Kokoro-FastAPI: its service, started by uvicorn, and two requests for speech like OpenAI's.

The service takes a folder with a model from its settings. Here that is Kokoro with random weights, small where its
configuration allows it; the voice is one of the repository's. Text becomes phonemes by espeak, in Spanish: English
wants a model of spaCy, which is no package of an index.

A hook of torch keeps the sound of every call of the model, and looks where it was computed. What the service answers
as PCM must be a piece of exactly that sound, sample for sample, and an MP3 must last about as long.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import threading
import time
import urllib.request

import av
import numpy as np
import probekit
import torch
import uvicorn
from kokoro import KModel
from probekit import DEVICE, OUT, REPO


VOICE, TEXT, RATE = "ef_dora", "Hola, esto es una prueba.", 24000
PARTS = ("bert", "bert_encoder", "predictor", "decoder", "text_encoder")
SMALLER = {
    "n_layer": 1,
    "max_dur": 8,
    "plbert": {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": 512,
        "num_hidden_layers": 1,
    },
}


def write_model() -> None:
    """Make the folder of a model where the service looks for it."""
    folder = OUT / "models/v1_0"
    folder.mkdir(parents=True)
    config = json.loads((REPO / "api/src/models/v1_0/config.json").read_text(encoding="utf-8")) | SMALLER
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save({}, OUT / "nothing.pth")
    torch.manual_seed(0)
    model = KModel("hexgrad/Kokoro-82M", config=config, model=str(OUT / "nothing.pth"))
    torch.save({part: getattr(model, part).state_dict() for part in PARTS}, folder / "kokoro-v1_0.pth")


class Listener:
    """Keeps what the model says."""

    def __init__(self) -> None:
        self.sounds: list[np.ndarray] = []
        self.elsewhere = 0
        torch.nn.modules.module.register_module_forward_hook(self.hear)

    def hear(self, module: torch.nn.Module, _inputs: object, output: object) -> None:
        """Take the sound of a call, and check where its decoder's weights are."""
        if isinstance(module, KModel):
            self.sounds.append(output.audio.numpy())
            self.elsewhere += not probekit.on_device(next(module.decoder.parameters()))


def start() -> tuple[uvicorn.Server, threading.Thread, str]:
    """Start the service as `uvicorn api.src.main:app` does, and wait until it answers."""
    os.environ.update(
        MODEL_DIR=str(OUT / "models"),
        VOICES_DIR=str(REPO / "api/src/voices/v1_0"),
        DEFAULT_VOICE=VOICE,
        USE_GPU=str(DEVICE == "cuda").lower(),
        DEVICE_TYPE=DEVICE,
        TEMP_FILE_DIR=str(OUT / "temp"),
        OUTPUT_DIR=str(OUT / "output"),
    )
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config("api.src.main:app", host="127.0.0.1", port=port))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            sys.exit("the service ended before it answered")
        time.sleep(0.2)
    return server, thread, f"http://127.0.0.1:{port}"


def speak(address: str, form: str) -> bytes:
    """Request speech."""
    wanted = {"model": "kokoro", "input": TEXT, "voice": VOICE, "response_format": form, "stream": False}
    body = json.dumps(wanted).encode()
    request = urllib.request.Request(f"{address}/v1/audio/speech", body, {"Content-Type": "application/json"})  # noqa: S310 - this host
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310 - this host
        return answer.read()


def is_piece(samples: np.ndarray, sound: np.ndarray) -> bool:
    """Whether 16-bit samples are a piece of a sound, in which silence was cut off at both ends."""
    whole = np.clip(sound * 32767, -32768, 32767).astype(np.int16)
    windows = np.lib.stride_tricks.sliding_window_view(whole, len(samples)) if 0 < len(samples) <= len(whole) else []
    return any(np.array_equal(window, samples) for window in windows)


def main() -> None:
    """Start the service, have it speak, and write down what was heard."""
    write_model()
    listener = Listener()
    server, thread, address = start()
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=60) as answer:  # noqa: S310 - this host
            healthy = json.load(answer)["status"] == "healthy"
        warmups = len(listener.sounds)
        samples = np.frombuffer(speak(address, "pcm"), np.int16)
        spoken = listener.sounds[warmups:]
        (OUT / "speech.mp3").write_bytes(speak(address, "mp3"))
    finally:
        server.should_exit = True
        thread.join()
    with av.open(io.BytesIO((OUT / "speech.mp3").read_bytes())) as sound:
        decoded = sum(frame.samples / frame.sample_rate for frame in sound.decode(audio=0))
    probekit.observe(
        healthy=healthy,
        warmups=warmups,
        calls=len(spoken),
        exact=len(spoken) == 1 and is_piece(samples, spoken[0]),
        seconds=len(samples) / RATE,
        deviation=float(samples.std()),
        mp3_longer_by=decoded - len(samples) / RATE,
        on_other_devices=listener.elsewhere,
    )


if __name__ == "__main__":
    main()
