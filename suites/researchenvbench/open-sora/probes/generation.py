"""C1, C3 and C4 of Open-Sora: its autoencoder learns a clip, or a clip is sampled as the script for inference does it.

Both are small and with random weights; text encoders, stock models, are left out. The diffusion model has no code for
the CPU: C1 has the autoencoder alone, whose import needs flash-attn all the same, with its causal convolutions computed
anew. In C3 and C4, so is a block's attention, and the block's output is the sum of what each rank has a share of.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os

import extensions
import torch
from attention import angles, attend, root_mean_square, turned
from observing import Watch, fit
from probekit import DEVICE, NPROC, OUT, REPO, finite, observe
from ranks import RANK, be_a_rank, relative_error, spread
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


extensions.require("flash_attn_2_cuda", distribution="flash-attn")
from opensora.registry import MODELS, build_module  # noqa: E402 - the line above says more where it fails
from opensora.utils.cai import get_booster, init_inference_environment  # noqa: E402 - likewise
from opensora.utils.config import read_config  # noqa: E402 - likewise
from opensora.utils.sampling import SamplingOption, prepare_api, sanitize_sampling_option  # noqa: E402 - likewise


AXES, FRAMES = [16, 24, 24], 5
SMALL = {"hidden_size": 256, "num_heads": 4, "axes_dim": AXES, "depth": 1, "depth_single_blocks": 2, "vec_in_dim": 32}


def autoencode() -> None:
    """Train the autoencoder on a moving pattern."""
    torch.manual_seed(0)
    small = {"type": "hunyuan_vae", "block_out_channels": (32, 64, 64, 64), "layers_per_block": 1, "norm_num_groups": 8}
    model, errors = build_module(small, MODELS, device_map=DEVICE, torch_dtype=torch.float32), []

    def note(module: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        side, layer = module.conv.kernel_size[0] // 2, module.conv
        padded = F.pad(inputs[0], (side,) * 4 + (2 * side, 0), mode="replicate")
        errors.append(relative_error(output, F.conv3d(padded, layer.weight, layer.bias, layer.stride)))

    places, times = torch.linspace(0, 12, 48), torch.arange(float(FRAMES))
    clip = (places[:, None] + places + times[:, None, None]).sin().expand(1, 3, -1, -1, -1).to(DEVICE)
    with Watch("CausalConv3d", note=note) as watch:
        losses = fit(lambda: F.mse_loss(model(clip)[0], clip), model.parameters(), steps=8, rate=2e-3)
    observe(convolutions=watch.calls["CausalConv3d"], elsewhere=watch.elsewhere, convolution_error=max(errors))
    observe(latent=model.encode(clip).numel(), loss_ratio=losses[-1] / losses[0])


def sample() -> dict[str, object]:
    """Sample a clip as one rank, and keep this rank's share of a block."""
    be_a_rank()
    name = "configs/diffusion/inference/256px_tp.py" if NPROC > 1 else "configs/diffusion/inference/256px.py"
    config, models, seen = read_config(str(REPO / name)), [], {}
    config.model.update(SMALL | {"context_in_dim": 32, "from_pretrained": None})
    config.ae.update({"from_pretrained": None, "block_out_channels": (32, 64, 128, 128)})
    config.sampling_option.update({"num_frames": FRAMES, "num_steps": 2})
    init_inference_environment()
    boosters = get_booster(config), get_booster(config, ae=True)
    torch.manual_seed(0)
    for part, booster in zip((config.model, config.ae), boosters, strict=True):
        model = build_module(part, MODELS, device_map=DEVICE, torch_dtype=torch.bfloat16).eval()
        models.append(booster.boost(model=model)[0].unwrap() if booster else model)
    block = models[0].single_blocks[-1]
    models[0].pe_embedder.register_forward_hook(lambda _, inputs, _output: seen.update(places=inputs[0]))
    block.norm.register_forward_hook(lambda _, inputs, _output: seen.update(qkv=inputs))
    block.linear2.register_forward_hook(lambda _, inputs, output: seen.update(given=inputs[0], said=output))
    option, texts = sanitize_sampling_option(SamplingOption(**config.sampling_option)), torch.randn(9, 16, 32)
    encoders = [lambda prompts, part=part, **_: part[[len(one) for one in prompts]] for part in (texts, texts[:, 0])]
    with extensions.explained("flash_attn_2_cuda"):
        clip = prepare_api(*models, *encoders, {})(option, seed=1, text=["rain"], channel=64)
    turns, norms = angles(seen["places"], AXES)[:, None], (block.norm.query_norm, block.norm.key_norm)
    query, key, value = (x.transpose(1, 2) for x in seen["qkv"])
    turned_ = [turned(root_mean_square(x, norm.scale), turns) for x, norm in zip((query, key), norms, strict=True)]
    wanted = attend(*turned_, value).transpose(1, 2).flatten(2)
    share = seen["given"].double() @ block.linear2.weight.double().mT
    torch.save([one.cpu() for one in (clip, seen["said"], share, block.linear2.bias)], OUT / f"kept-{RANK}.pt")
    error = relative_error(seen["given"][..., : wanted.shape[-1]], wanted)
    there = finite(clip) and clip.device.type == seen["said"].device.type == DEVICE
    return {"heads": query.shape[1], "error": error, "there": there}


def main() -> None:
    """Sample on all ranks, and hold their shares against each other."""
    ranks, kept = spread(sample), [torch.load(OUT / f"kept-{rank}.pt", weights_only=True) for rank in range(NPROC)]
    clips, said, shares, biases = zip(*kept, strict=True)
    values = {"ranks": len(ranks), "heads": sum(rank["heads"] for rank in ranks), "frames": clips[0].shape[2]}
    values |= {"there": all(rank["there"] for rank in ranks), "clip_spread": clips[0].float().std().item()}
    observe(**values, attention_error=max(rank["error"] for rank in ranks))
    observe(sum_error=relative_error(said[0], sum(shares) + biases[0].double()))
    observe(clip_error=max(relative_error(clip, clips[0]) for clip in clips))


if __name__ == "__main__":
    (autoencode if os.environ.get("PART") == "autoencoder" else main)()
