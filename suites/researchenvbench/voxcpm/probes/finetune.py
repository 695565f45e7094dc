"""C3 of VoxCPM: its fine-tuning script with LoRA, run as its documentation says, and speech from what it saved.

The script gets a model of random weights in a small configuration, made of the repository's own classes, with a
tokenizer of characters, and is trained on two sounds. The losses of diffusion and of the stop predictor must fall. Then
the pipeline `VoxCPM` loads model and LoRA weights and speaks; with LoRA switched off and the same noise it must say
something else. The script names its folder of sources itself; the package is imported here, so it must be installed.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import contextlib
import json
import re
import string

import numpy as np
import probekit
import torch
from probekit import DEVICE, OUT
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import LlamaTokenizerFast
from voxcpm import VoxCPM
from voxcpm.model.voxcpm import LoRAConfig, VoxCPMConfig, VoxCPMModel
from voxcpm.modules.audiovae import AudioVAE


MODEL, RUN = OUT / "model", OUT / "run"
TEXTS = ["the first sound", "and another one"]
RATE, STEPS, PATCHES = 16000, 24, 6
LONG = {"type": "longrope", "long_factor": [1.0] * 8, "short_factor": [1.0] * 8}
LM = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 128}
LM |= {"num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
LM |= {"bos_token_id": 1, "eos_token_id": 2, "use_mup": False, "scale_emb": 1.0, "dim_model_base": 64}
LM |= {"scale_depth": 1.4, "rope_scaling": LONG | {"original_max_position_embeddings": 512}}
WIDTHS = {"hidden_dim": 64, "ffn_dim": 128, "num_heads": 4, "num_layers": 1}
VAE = {"encoder_dim": 8, "encoder_rates": [2, 5, 8], "latent_dim": 16, "decoder_dim": 32, "decoder_rates": [8, 5, 2]}
CONFIG = {"lm_config": LM, "encoder_config": WIDTHS, "dit_config": {**WIDTHS, "cfm_config": {}}, "max_length": 256}
CONFIG |= {"patch_size": 2, "feat_dim": 16, "residual_lm_num_layers": 1, "scalar_quantization_latent_dim": 16}
# In training the repository casts to this type and relies on CUDA's autocast for the weights.
CONFIG |= {"dtype": "bfloat16" if DEVICE == "cuda" else "float32", "audio_vae_config": VAE | {"sample_rate": RATE}}
TRAINING = {"pretrained_path": str(MODEL), "train_manifest": str(OUT / "train.jsonl"), "save_path": str(RUN)}
TRAINING |= {"sample_rate": RATE, "batch_size": 2, "num_workers": 0, "num_iters": STEPS, "max_steps": 0}
TRAINING |= {"warmup_steps": 1, "log_interval": 1, "save_interval": 1000, "learning_rate": 0.02}
TRAINING |= {"lora": {"enable_lm": True, "enable_dit": True, "r": 4, "alpha": 8}}


def write_inputs() -> int:
    """Make model, sounds and configuration; return how many samples of sound a patch of features stands for."""
    MODEL.mkdir()
    (MODEL / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    tokens = {token: index for index, token in enumerate(["<unk>", "<s>", "</s>", "▁", *string.ascii_lowercase])}
    backend = Tokenizer(models.BPE(tokens, [], unk_token="<unk>"))  # noqa: S106 - no secret
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.save(str(OUT / "tokenizer.json"))
    tokenizer = LlamaTokenizerFast(tokenizer_file=str(OUT / "tokenizer.json"))
    tokenizer.save_pretrained(MODEL)
    torch.manual_seed(0)
    config = VoxCPMConfig.model_validate(CONFIG)
    vae = AudioVAE(config.audio_vae_config)
    torch.save({"state_dict": vae.state_dict()}, MODEL / "audiovae.pth")
    state = VoxCPMModel(config, tokenizer, vae).state_dict()
    torch.save({name: value for name, value in state.items() if "audio_vae" not in name}, MODEL / "pytorch_model.bin")
    rows = []
    for index, text in enumerate(TEXTS):
        audio = probekit.write_speech(OUT / f"sound-{index}.wav", seconds=0.5, rate=RATE, seed=index)
        rows.append(json.dumps({"audio": str(audio), "text": text}))
    (OUT / "train.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    # JSON is YAML, too.
    (OUT / "train.yaml").write_text(json.dumps(TRAINING), encoding="utf-8")
    return config.patch_size * vae.chunk_size


def speak(*, lora: bool) -> tuple[VoxCPM, np.ndarray]:
    """Have the pipeline load what was saved and say a text, with LoRA or without."""
    saved = RUN / "latest"
    config = LoRAConfig(**json.loads((saved / "lora_config.json").read_text(encoding="utf-8"))["lora_config"])
    options = {"load_denoiser": False, "optimize": False, "lora_config": config, "lora_weights_path": str(saved)}
    pipeline = VoxCPM.from_pretrained(str(MODEL), **options)
    pipeline.tts_model.set_lora_enabled(lora)
    torch.manual_seed(0)
    settings = {"inference_timesteps": 4, "min_len": PATCHES, "max_len": PATCHES, "retry_badcase": False}
    # Its mask has one dimension, which CUDA's kernels take, and of those for the CPU the plain one alone.
    with sdpa_kernel(SDPBackend.MATH) if DEVICE == "cpu" else contextlib.nullcontext():
        return pipeline, pipeline.generate(text=TEXTS[0], **settings)


if __name__ == "__main__":
    patch = write_inputs()
    probekit.run_script("scripts/train_voxcpm_finetune.py", "--config_path", OUT / "train.yaml")
    log = (RUN / "train.log").read_text(encoding="utf-8")
    diffusion, stop = zip(*re.findall(r"loss/diff: (\S+), loss/stop: (\S+),", log), strict=True)
    weights = load_file(RUN / "latest/lora_weights.safetensors")
    moments = torch.load(RUN / "latest/optimizer.pth")["state"].values()
    (pipeline, speech), (_, plain) = speak(lora=True), speak(lora=False)
    length = min(len(speech), len(plain))
    probekit.observe(
        steps=len(diffusion),
        diffusion_loss_ratio=sum(map(float, diffusion[-4:])) / sum(map(float, diffusion[:4])),
        stop_loss_ratio=float(stop[-1]) / float(stop[0]),
        # These start as zeros.
        lora_untrained=sum(name.endswith("lora_B") and not value.any().item() for name, value in weights.items()),
        lora_tensors=len(weights),
        patches=len(speech) / patch,
        speech_level=float(np.abs(speech).max()),
        lora_effect=float(np.abs(speech[:length] - plain[:length]).max()),
        trained_there=all(probekit.on_device(moment["exp_avg"]) for moment in moments),
        spoken_there=all(map(probekit.on_device, pipeline.tts_model.parameters())),
    )
