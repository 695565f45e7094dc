"""C3 of T-GATE: its PixArt-alpha and SDXL loaders on tiny pipelines of random weights, gated and not.

As in the repository's `main.py`, a diffusers pipeline goes through a loader, and `pipe.tgate` denoises. Hooks tell of
every attention layer whether it computed (its query projection ran) or gave back what it had computed last, as the
paper says: the mean of both halves of the batch once the gate step is over. Never gated, the image is the plain one.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from collections import Counter

import diffusers
import probekit
import torch
from tgate import TgatePixArtAlphaLoader, TgateSDXLLoader
from transformers import T5Config, T5EncoderModel


#: Cross-attention is computed in steps 0 to 5 (6), self-attention in steps 0, 1, 3, 5, 6 and 8 (6).
GATED = {"gate_step": 6, "sp_interval": 3, "fi_interval": 2, "warm_up": 1}
UNGATED = {"gate_step": 11, "sp_interval": 1, "fi_interval": 1, "warm_up": 0}
WORDS = ["an", "alpaca", "made", "of", "colorful", "building", "blocks"]
PIXART = {"num_layers": 3, "num_attention_heads": 4, "attention_head_dim": 8, "caption_channels": 32}
UNET = {"block_out_channels": (32, 64), "attention_head_dim": (2, 4), "use_linear_projection": True}
UNET |= {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "addition_embed_type": "text_time"}
UNET |= {"up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "addition_time_embed_dim": 8}
# Latents are half as wide as the image.
DECODER = {"block_out_channels": [32, 64], "up_block_types": ["UpDecoderBlock2D"] * 2, "latent_channels": 4}
DECODER |= {"down_block_types": ["DownEncoderBlock2D"] * 2}


def pixart() -> tuple[diffusers.DiffusionPipeline, torch.nn.Module, dict[str, object]]:
    """Make a PixArt-alpha pipeline, its denoiser, and its inputs."""
    tokenizer = probekit.word_tokenizer(WORDS)
    encoder = T5Config(vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    denoiser = diffusers.PixArtTransformer2DModel(sample_size=16, cross_attention_dim=32, **PIXART)
    parts = tokenizer, T5EncoderModel(encoder).eval(), diffusers.AutoencoderKL(**DECODER), denoiser
    inputs = {"prompt": " ".join(WORDS), "clean_caption": False, "use_resolution_binning": False}
    return diffusers.PixArtAlphaPipeline(*parts, diffusers.DPMSolverMultistepScheduler()), denoiser, inputs


def sdxl() -> tuple[diffusers.DiffusionPipeline, torch.nn.Module, dict[str, object]]:
    """Make an SDXL pipeline without text encoders, its denoiser, and its inputs."""
    sizes = {"sample_size": 16, "cross_attention_dim": 32, "projection_class_embeddings_input_dim": 6 * 8 + 16}
    denoiser = diffusers.UNet2DConditionModel(**sizes, **UNET)
    parts = diffusers.AutoencoderKL(**DECODER), None, None, None, None, denoiser
    pipe = diffusers.StableDiffusionXLPipeline(*parts, diffusers.DPMSolverMultistepScheduler(), add_watermarker=False)
    words, pooled = torch.randn(2, 1, 7, 32).to(probekit.DEVICE), torch.randn(2, 1, 16).to(probekit.DEVICE)
    inputs = {"prompt_embeds": words[0], "pooled_prompt_embeds": pooled[0]}
    return pipe, denoiser, inputs | {"negative_prompt_embeds": words[1], "negative_pooled_prompt_embeds": pooled[1]}


def watch(denoiser: torch.nn.Module) -> Counter[str]:
    """Count what every attention layer does; they speak up, so that a missing one is seen in the image."""
    seen, fresh, last = Counter(), set(), {}

    def look(layer: torch.nn.Module, _: tuple, named: dict[str, object], output: torch.Tensor) -> None:
        kind = "self" if named.get("encoder_hidden_states") is None else "cross"
        seen[f"{kind}_{'computed' if layer in fresh else 'reused'}"] += 1
        seen["elsewhere"] += not probekit.on_device(output)
        if layer in fresh:
            last[layer] = output
        else:
            wanted = last[layer] if len(output) == len(last[layer]) else sum(last[layer].chunk(2)) / 2
            seen["reuse_error"] = max(seen["reuse_error"], (output - wanted).abs().max().item())
        fresh.discard(layer)

    for layer in (module for module in denoiser.modules() if type(module).__name__ == "Attention"):
        layer.to_out[0].weight.data.mul_(200)
        layer.to_q.register_forward_hook(lambda *_, layer=layer: fresh.add(layer))
        layer.register_forward_hook(look, with_kwargs=True)
    return seen


def probe(name: str, loader: object, made: tuple[object, torch.nn.Module, dict[str, object]]) -> None:
    """Denoise with the plain pipeline, with T-GATE that never gates, and with T-GATE, and note what was seen."""
    pipe, denoiser, inputs = loader(made[0]).to(probekit.DEVICE), made[1], made[2]
    inputs |= {"num_inference_steps": 10, "height": 32, "width": 32, "output_type": "pt"}

    def image(method: object, **options: int) -> torch.Tensor:
        return method(**inputs, **options, generator=torch.Generator().manual_seed(0)).images

    seen = watch(denoiser)
    plain, ungated = image(pipe), image(pipe.tgate, **UNGATED)
    found = {f"{field}_before": count for field, count in seen.items()}
    seen.clear()
    gated = image(pipe.tgate, **GATED)
    found |= {**seen, "there": probekit.on_device(gated), "shape": str(tuple(gated.shape))}
    for which, other in (("ungated", ungated), ("gated", gated)):
        found[f"{which}_change"] = ((other - plain).std() / plain.std()).item()
    probekit.observe(**{f"{name}_{field}": value for field, value in found.items()})


if __name__ == "__main__":
    torch.manual_seed(0)
    probe("pixart", TgatePixArtAlphaLoader, pixart())
    probe("sdxl", TgateSDXLLoader, sdxl())
