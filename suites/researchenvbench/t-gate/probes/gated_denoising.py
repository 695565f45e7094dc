"""C3 of T-GATE: its PixArt-alpha and SDXL loaders on tiny pipelines of random weights, gated and not.

The repository's `main.py` names models of a hub and the device cuda. What it does with them is done here: a diffusers
pipeline goes through the repository's loader, and `pipe.tgate` denoises. PixArt is what the published benchmark runs,
from a prompt; SDXL is the other kind of network (a U-Net), from given embeddings.

Hooks that only look on tell, for every attention layer and step, whether the layer computed (its query projection ran)
or gave back what it had cached, and whether what it gave back is the cached tensor of the paper: the last computed
output, and the mean of both halves of the batch once the gate step is over. Never gated, `tgate` must give the image of
the plain pipeline; gated, another one. A loop that gates nothing is off in the counts, one that does nothing in all.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import probekit
import torch
from diffusers import (
    AutoencoderKL,
    DPMSolverMultistepScheduler,
    PixArtAlphaPipeline,
    PixArtTransformer2DModel,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from tgate import TgatePixArtAlphaLoader, TgateSDXLLoader
from transformers import T5Config, T5EncoderModel


STEPS = 10
#: Cross-attention is computed in steps 0 to 5 (6), self-attention in steps 0, 1, 3, 5, 6 and 8 (6).
GATED = {"gate_step": 6, "sp_interval": 3, "fi_interval": 2, "warm_up": 1}
UNGATED = {"gate_step": STEPS + 1, "sp_interval": 1, "fi_interval": 1, "warm_up": 0}
WORDS = ["an", "alpaca", "made", "of", "colorful", "building", "blocks"]


def autoencoder() -> AutoencoderKL:
    """Make a tiny decoder of latents, which are half as wide as the image."""
    down, up = ["DownEncoderBlock2D"] * 2, ["UpDecoderBlock2D"] * 2
    return AutoencoderKL(down_block_types=down, up_block_types=up, block_out_channels=[32, 64], latent_channels=4)


def pixart() -> tuple[PixArtAlphaPipeline, torch.nn.Module, dict[str, object]]:
    """Make a PixArt-alpha pipeline, its denoiser, and its inputs."""
    tokenizer = probekit.word_tokenizer(WORDS)
    encoder = T5Config(vocab_size=len(tokenizer), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    denoiser = PixArtTransformer2DModel(
        sample_size=16,
        num_layers=3,
        num_attention_heads=4,
        attention_head_dim=8,
        cross_attention_dim=32,
        caption_channels=32,
    )
    parts = (tokenizer, T5EncoderModel(encoder).eval(), autoencoder(), denoiser, DPMSolverMultistepScheduler())
    inputs = {"prompt": " ".join(WORDS), "clean_caption": False, "use_resolution_binning": False}
    return PixArtAlphaPipeline(*parts), denoiser, inputs


def sdxl() -> tuple[StableDiffusionXLPipeline, torch.nn.Module, dict[str, object]]:
    """Make an SDXL pipeline without text encoders, its denoiser, and its inputs."""
    denoiser = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(2, 4),
        use_linear_projection=True,
        cross_attention_dim=32,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 16,
    )
    pipe = StableDiffusionXLPipeline(
        autoencoder(), None, None, None, None, denoiser, DPMSolverMultistepScheduler(), add_watermarker=False
    )
    words, pooled = torch.randn(2, 1, 7, 32), torch.randn(2, 1, 16)
    inputs = {"prompt_embeds": words[0], "pooled_prompt_embeds": pooled[0]}
    inputs |= {"negative_prompt_embeds": words[1], "negative_pooled_prompt_embeds": pooled[1]}
    return pipe, denoiser, {name: tensor.to(probekit.DEVICE) for name, tensor in inputs.items()}


class Watch:
    """Looks on at every attention layer of a denoiser."""

    def __init__(self, denoiser: torch.nn.Module) -> None:
        self.layers = [module for module in denoiser.modules() if type(module).__name__ == "Attention"]
        denoiser.register_forward_pre_hook(self._begin)
        for layer in self.layers:
            layer.to_q.register_forward_hook(lambda *_, layer=layer: self._fresh.add(layer))
            layer.register_forward_hook(self._look, with_kwargs=True)
        self.reset(UNGATED["gate_step"])

    def raise_voice(self, factor: float) -> None:
        """Let attention say more than it does with fresh weights, so that a missing one is seen in the image."""
        for layer in self.layers:
            layer.to_out[0].weight.data.mul_(factor)

    def reset(self, gate_step: int) -> None:
        """Forget what was seen."""
        self.gate_step = gate_step
        self.step = -1
        self._fresh: set[torch.nn.Module] = set()
        self._cached: dict[torch.nn.Module, torch.Tensor] = {}
        self.calls = {"cross": 0, "self": 0}
        self.computed = {"cross": 0, "self": 0}
        self.reuse_error = 0.0
        self.elsewhere = 0

    def _begin(self, *_: object) -> None:
        self.step += 1
        self._fresh.clear()

    def _look(self, layer: torch.nn.Module, _: tuple, keywords: dict[str, object], output: torch.Tensor) -> None:
        kind = "self" if keywords.get("encoder_hidden_states") is None else "cross"
        self.calls[kind] += 1
        self.elsewhere += not probekit.on_device(output)
        if layer in self._fresh:
            self.computed[kind] += 1
            self._cached[layer] = sum(output.chunk(2)) / 2 if self.step == self.gate_step - 1 else output
        else:
            self.reuse_error = max(self.reuse_error, (output - self._cached[layer]).abs().max().item())


def probe(name: str, loader: object, made: tuple[object, torch.nn.Module, dict[str, object]]) -> None:
    """Denoise with the plain pipeline, with T-GATE that never gates, and with T-GATE, and note what was seen."""
    pipe, denoiser, inputs = made
    pipe = loader(pipe).to(probekit.DEVICE)
    pipe.set_progress_bar_config(disable=True)
    inputs |= {"num_inference_steps": STEPS, "height": 32, "width": 32, "output_type": "pt"}

    def image(method: object, **options: int) -> torch.Tensor:
        return method(**inputs, **options, generator=torch.Generator().manual_seed(0)).images

    watch = Watch(denoiser)
    watch.raise_voice(200)
    plain = image(pipe)
    watch.reset(UNGATED["gate_step"])
    ungated = image(pipe.tgate, **UNGATED)
    reused_ungated = sum(watch.calls.values()) - sum(watch.computed.values())
    watch.reset(GATED["gate_step"])
    gated = image(pipe.tgate, **GATED)
    layers = len(watch.layers) / 2
    seen = {
        "shape": str(tuple(gated.shape)),
        "there": probekit.on_device(gated) and watch.elsewhere == 0,
        "finite": probekit.finite(gated) and probekit.finite(ungated),
        "ungated_error": ((ungated - plain).std() / plain.std()).item(),
        "ungated_reused": reused_ungated,
        "gated_change": ((gated - plain).std() / plain.std()).item(),
        "steps": watch.step + 1,
        "cross_steps": watch.calls["cross"] / layers,
        "cross_computed": watch.computed["cross"] / layers,
        "self_steps": watch.calls["self"] / layers,
        "self_computed": watch.computed["self"] / layers,
        "reuse_error": watch.reuse_error,
    }
    probekit.observe(**{f"{name}_{field}": value for field, value in seen.items()})


def main() -> None:
    """Probe both kinds of networks."""
    torch.manual_seed(0)
    probe("pixart", TgatePixArtAlphaLoader, pixart())
    probe("sdxl", TgateSDXLLoader, sdxl())


if __name__ == "__main__":
    main()
