"""C1 and C3 of metavoice-src: its `inference.py` speaks a text with the voice of its own sample.

The script runs unchanged, with models of random weights where the hub's client keeps its files: two language models,
the speaker encoder, EnCodec, and the diffusion that makes sound of its codes. The decoder names `cuda` in its code;
where the tier has no such device, the CPU is meant. What the first language model gave token by token, with its cache
and guidance, must be what it gives for all of them at once on the CPU; the sound must be as long as its tokens.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os

import librosa
import torch
from audiocraft.models.unet import DiffusionUnet
from devices import TiersDevice
from fam.llm.model import GPT, GPTConfig
from hub import snapshot
from observing import told
from omegaconf import OmegaConf
from probekit import DEVICE, OUT, REPO, observe, on_device, run_script
from ranks import relative_error
from transformers import EncodecConfig, EncodecModel


AUDIO, BYTES = 1024, 256
SHAPE = {"n_layer": 2, "n_head": 4, "n_embd": 64, "bias": False, "block_size": 256, "spk_emb_on_text": True}
SHAPE |= {"norm_type": "rmsnorm", "rmsnorm_eps": 1e-5, "nonlinearity_type": "swiglu", "swiglu_multiple_of": 16}


def write_language_model(file: str, text: int, **sizes: object) -> GPT:
    """Write a model whose tokens of text start at a number, and return it."""
    model = GPT(GPTConfig(**SHAPE, **sizes), 256).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)
    # All vectors share a direction; the token that ends the sound is opposed to it, and so never comes.
    torch.nn.init.ones_(model.transformer.wpe.weight)
    torch.nn.init.constant_(model.transformer.wtes[0].weight[text - 1], -1)
    ranks = {bytes([value]): value for value in range(BYTES)}
    tokenizer = {"name": file, "pat_str": ".", "mergeable_ranks": ranks, "special_tokens": {"<|endoftext|>": BYTES}}
    meta = {"speaker_cond": True, "speaker_emb_size": 256, "tokenizer": tokenizer | {"offset": text}}
    saved = {"model": model.state_dict(), "model_args": SHAPE | sizes, "meta": meta}
    torch.save(saved | {"config": {"causal": "causal" not in sizes}}, file)
    return model


def write_models() -> GPT:
    """Write all models, and return the first language model."""
    folder = snapshot("metavoiceio/metavoice-1B-v0.1")
    torch.save({"model_state": {}}, folder / "speaker_encoder.pt")
    sizes = {"vocab_sizes": [AUDIO + BYTES + 2, AUDIO + 1], "target_vocab_sizes": [AUDIO] * 6, "causal": False}
    write_language_model(f"{folder}/second_stage.pt", AUDIO + 1, **sizes)
    EncodecModel(EncodecConfig(num_filters=4, hidden_size=16)).save_pretrained(snapshot("facebook/encodec_24khz"))
    unet = {"hidden": 8, "depth": 2, "codec_dim": 16}
    config = {"channels": 1, "schedule": {"num_steps": 1000}, "diffusion_unet": unet, "processor": {"use": False}}
    band = {"cfg": OmegaConf.create(config), "model_state": DiffusionUnet(1, **unet).state_dict()}
    diffusion = snapshot("facebook/multiband-diffusion") / "mbd_comp_8.pt"
    torch.save({"sample_rate": 24000, "n_bands": 1, 0: band | {"processor_state": {}}}, diffusion)
    return write_language_model(f"{folder}/first_stage.pt", 2 * AUDIO + 1, vocab_sizes=[2 * AUDIO + BYTES + 2])


@torch.no_grad()
def main() -> None:
    """Write the models, run the script, and look at its language models and its sound."""
    os.chdir(OUT)
    torch.manual_seed(0)
    model = write_models()
    calls = []
    told("GPT", lambda _, inputs, named, output: calls.append((inputs[0], named["speaker_embs"], output[0][0])))
    words = ("--text", "Hello world", "--spk_cond_path", REPO / "assets/bria.mp3", "--output_dir", OUT / "sound")
    numbers = ("--max_new_tokens", 60, "--enhancer", "None", "--dtype", "float32", "--device", DEVICE)
    with TiersDevice():
        run_script("fam/llm/inference.py", *words, *numbers)
    ids, voices, logits = zip(*calls, strict=True)
    tokens, found = torch.cat(ids, -1).cpu(), torch.cat(logits, 1)
    voice = voices[0][0].cpu()
    wanted = model(tokens, targets=tokens, speaker_embs=[voice, None])[0][0][:, -len(calls) :]
    spoken = tokens[0, 0, len(ids[0][0, 0]) :]
    frames = min(int((spoken < AUDIO).sum()), int(((spoken >= AUDIO) & (spoken < 2 * AUDIO)).sum()))
    sound, rate = librosa.load(next((OUT / "sound").glob("*.wav")), sr=None)
    observe(
        tokens=len(calls),
        logits_error=relative_error(found, wanted),
        there=on_device(found),
        voice=voice.norm().item(),
        guidance=relative_error(wanted[1], wanted[0]),
        frames=frames,
        seconds_missing=frames / 75 - len(sound) / rate,
        loudness=float(abs(sound).mean()),
    )


if __name__ == "__main__":
    main()
