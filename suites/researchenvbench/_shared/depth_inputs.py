"""What both Depth Anything probes give to a DPT head on a DINOv2 backbone, and what its attention has to make of it."""
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from copy import deepcopy

import cv2
import numpy as np
import torch


def randomize(model: torch.nn.Module) -> torch.nn.Module:
    """Give a model random weights under which its depth depends on the whole image, and is positive everywhere.

    As it is made, it gives the same depth everywhere; and where a final ReLU cuts all of it off, nothing is seen.
    """
    generator = torch.Generator().manual_seed(0)
    for name, weight in model.state_dict().items():
        drawn = torch.randn(weight.shape, generator=generator)
        if name.endswith(("pos_embed", "_token")):
            weight.copy_(drawn * 0.5)
        elif weight.dim() > 1:
            # The kernels of transposed convolutions have their inputs in front.
            transposed = name.endswith(("resize_layers.0.weight", "resize_layers.1.weight"))
            weight.copy_(drawn * (weight.shape[0] if transposed else weight[0].numel()) ** -0.5)
        elif name.endswith("bias"):
            weight.copy_(drawn * 0.1)
        if name.startswith("depth_head.scratch.output_conv2.2"):
            weight.abs_()
    return model.eval()


def scale(image: np.ndarray, size: tuple[int, int]) -> torch.Tensor:
    """Scale an image in BGR to a width and a height, and normalize it: 1 by 3 by height by width."""
    pixels = cv2.resize(image[:, :, ::-1] / 255.0, size, interpolation=cv2.INTER_CUBIC)
    pixels = (pixels - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    return torch.from_numpy(pixels).float().permute(2, 0, 1)[None].contiguous()


def levels(depth: np.ndarray) -> np.ndarray:
    """Spread a depth over the gray levels from 0 to 255."""
    return (depth - depth.min()) / (depth.max() - depth.min()) * 255.0


@torch.no_grad()
def attention_error(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> float:
    """How far, relative to the largest, a module's output is from what the formula of multi-head attention gives."""
    reference = deepcopy(module).cpu().double()
    projected = reference.qkv(inputs[0].cpu().double()).chunk(3, -1)
    query, key, value = (one.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for one in projected)
    mixed = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1) @ value
    wanted = reference.proj(mixed.transpose(1, 2).flatten(2))
    return ((output.cpu().double() - wanted).abs().max() / wanted.abs().max()).item()
