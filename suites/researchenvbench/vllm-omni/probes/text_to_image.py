"""C3 and C4 of vLLM-Omni: its example `text_to_image.py` makes an image with a small Qwen-Image of random weights.

The sizes of Z-Image, which the published benchmark loads, are fixed in the code; of Qwen-Image's transformer the number
of layers is not. The model has one, beside a small text encoder and autoencoder, in diffusers' format. The example runs
unchanged: it starts a worker for each device, in C4 with the image's tokens divided between two by Ulysses.

The image must be the one that diffusers' own pipeline makes of the same weights and noise, up to the rounding of 16
bits. The transformer's weights are scaled, so that its attention decides what is seen, and not the noise alone.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImagePipeline
from diffusers import QwenImageTransformer2DModel as Transformer
from extensions import require
from PIL import Image
from probekit import DEVICE, NPROC, OBSERVER, OUT, REPO, observe
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer
from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode


WIDTH, PROMPT = 3584, "a cup of coffee on the table"
TEXT = {"vocab_size": 512, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 28, "num_key_value_heads": 4, "bos_token_id": None, "eos_token_id": None}
ROTARY = {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": WIDTH}


@torch.no_grad()
def make_pipeline() -> QwenImagePipeline:
    """Make the model, with a tokenizer that has a token for each byte."""
    torch.manual_seed(0)
    Path("vocab.json").write_text(json.dumps({sign: token for token, sign in enumerate(bytes_to_unicode().values())}))
    Path("merges.txt").write_text("#version: 0.2\n")
    transformer = Transformer(num_layers=1)
    for weight in transformer.parameters():
        weight.mul_(2.5 if weight.dim() > 1 else 1)
    return QwenImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKLQwenImage(base_dim=16, z_dim=16, num_res_blocks=1, dim_mult=[1, 2, 4, 4]),
        text_encoder=Qwen2_5_VLForConditionalGeneration(
            Qwen2_5_VLConfig(text_config=TEXT | HEADS | ROTARY, vision_config=VISION, image_token_id=500)
        ),
        tokenizer=Qwen2Tokenizer("vocab.json", "merges.txt"),
        transformer=transformer,
    ).to(torch.bfloat16)


def shades(image: Image.Image) -> torch.Tensor:
    """The image's numbers, around their mean."""
    values = torch.tensor(list(image.convert("RGB").tobytes()), dtype=torch.float64)
    return values - values.mean()


def draw() -> torch.Tensor:
    """Write the model, and let diffusers draw the image on the device."""
    pipeline = make_pipeline()
    pipeline.save_pretrained("model")
    options = {"true_cfg_scale": 4.0, "height": 64, "width": 64, "num_inference_steps": 2}
    noise = torch.Generator(DEVICE).manual_seed(42)
    return shades(pipeline.to(DEVICE)(PROMPT, negative_prompt="", generator=noise, **options).images[0])


if __name__ == "__main__":
    os.chdir(OUT)
    require("vllm", distribution="vllm")
    wanted = draw()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    example = REPO / "examples/offline_inference/text_to_image/text_to_image.py"
    options = ["--seed=42", "--cfg_scale=4.0", "--num_images_per_prompt=1", "--num_inference_steps=2", "--height=64"]
    options += [f"--model={OUT}/model", f"--prompt={PROMPT}", f"--ulysses_degree={NPROC}"]
    # A process of its own, since its workers begin by importing the script that started them.
    subprocess.run([sys.executable, OBSERVER, example, *options, "--width=64", "--output=image.png"], check=True)
    found = shades(Image.open("image.png"))
    error = (found - wanted).norm() / wanted.norm() if found.shape == wanted.shape else torch.tensor(2.0)
    observe(numbers=len(found), contrast=wanted.std().item(), error=error.item())
