"""What a DPT head on a DINOv2 backbone has to compute, written down from the papers, for the Depth Anything probes.

Plain `torch.nn.functional` on the CPU, on a state dict; nothing of a repository is called. Like `probekit`, it lies
beside each probe script. torch is imported when something is computed.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn


#: Side of a patch in pixels.
PATCH = 14

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HEAD_WIDTH = 64
_LAST_LAYER = "depth_head.scratch.output_conv2.2"


def randomize(model: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """Give a model random weights under which its depth depends on the whole image, and return its state dict.

    The weights do not depend on how the model was initialized. Depth is positive everywhere: a final ReLU that cuts
    all of it off would leave nothing to see.
    """
    import torch  # noqa: PLC0415 - see the module's docstring

    generator = torch.Generator().manual_seed(seed)
    weights = model.state_dict()
    for name, weight in weights.items():
        if name.endswith(("pos_embed", "_token")):
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
        elif weight.dim() > 1:
            # The kernels of transposed convolutions have their inputs in front.
            transposed = name.endswith(("resize_layers.0.weight", "resize_layers.1.weight"))
            fan_in = weight.shape[0] if transposed else weight[0].numel()
            weight.copy_(torch.randn(weight.shape, generator=generator) * fan_in**-0.5)
        elif name.endswith("bias"):
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    weights[f"{_LAST_LAYER}.weight"].abs_()
    weights[f"{_LAST_LAYER}.bias"].abs_()
    return weights


def preprocess(rgb: Tensor, size: int) -> Tensor:
    """Scale an image so that its shorter side has a size, each side a multiple of the patch, and normalize it.

    Args:
        rgb: height by width by 3, 0 … 255.
        size: of the shorter side.

    Returns:
        1 by 3 by height by width.
    """
    import cv2  # noqa: PLC0415 - see the module's docstring
    import torch  # noqa: PLC0415 - likewise

    factor = size / min(rgb.shape[:2])
    height, width = (PATCH * round(factor * side / PATCH) for side in rgb.shape[:2])
    scaled = cv2.resize(rgb.double().numpy() / 255, (width, height), interpolation=cv2.INTER_CUBIC)
    normalized = (torch.from_numpy(scaled) - torch.tensor(_MEAN)) / torch.tensor(_DEVIATION)
    return normalized.float().permute(2, 0, 1)[None].contiguous()


def depth(weights: dict[str, Tensor], pixels: Tensor, blocks: Sequence[int]) -> Tensor:
    """Compute the depth before its last activation.

    Args:
        weights: state dict of backbone (`pretrained.`) and head (`depth_head.`).
        pixels: 1 by 3 by height by width.
        blocks: from which four blocks of the backbone the head gets its features.

    Returns:
        1 by 1 by height by width.
    """
    import torch  # noqa: PLC0415 - see the module's docstring

    with torch.inference_mode():
        grid = pixels.shape[-2] // PATCH, pixels.shape[-1] // PATCH
        return _head(weights, _backbone(weights, pixels, grid, blocks), grid)


def _backbone(weights: dict[str, Tensor], pixels: Tensor, grid: tuple[int, int], blocks: Sequence[int]) -> list[Tensor]:
    """A vision transformer with layer scale; returns maps of the features behind the given blocks."""
    import torch  # noqa: PLC0415 - see the module's docstring
    from torch.nn import functional as F  # noqa: N812, PLC0415 - as everybody calls it; likewise

    part = {name.removeprefix("pretrained."): weight for name, weight in weights.items()}

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, part[f"{name}.weight"], part[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], part[f"{name}.weight"], part[f"{name}.bias"], eps=1e-6)

    width = part["cls_token"].shape[-1]
    tokens = F.conv2d(pixels, part["patch_embed.proj.weight"], part["patch_embed.proj.bias"], stride=PATCH)
    tokens = tokens.flatten(2).transpose(1, 2)
    side = round((part["pos_embed"].shape[1] - 1) ** 0.5)
    positions = part["pos_embed"][:, 1:].reshape(1, side, side, width).permute(0, 3, 1, 2)
    # DINOv2 adds a tenth of a patch to the size.
    factors = (grid[0] + 0.1) / side, (grid[1] + 0.1) / side
    positions = F.interpolate(positions, scale_factor=factors, mode="bicubic").flatten(2).transpose(1, 2)
    x = torch.cat((part["cls_token"] + part["pos_embed"][:, :1], tokens + positions), dim=1)

    maps = []
    for index in range(max(blocks) + 1):
        block = f"blocks.{index}"
        query, key, value = (
            projected.unflatten(-1, (-1, _HEAD_WIDTH)).transpose(1, 2)
            for projected in linear(f"{block}.attn.qkv", norm(f"{block}.norm1", x)).chunk(3, dim=-1)
        )
        attention = (query @ key.transpose(-2, -1) * _HEAD_WIDTH**-0.5).softmax(-1)
        mixed = (attention @ value).transpose(1, 2).flatten(2)
        x = x + part[f"{block}.ls1.gamma"] * linear(f"{block}.attn.proj", mixed)
        hidden = F.gelu(linear(f"{block}.mlp.fc1", norm(f"{block}.norm2", x)))
        x = x + part[f"{block}.ls2.gamma"] * linear(f"{block}.mlp.fc2", hidden)
        if index in blocks:
            maps.append(norm("norm", x)[:, 1:].transpose(1, 2).unflatten(2, grid))
    return maps


def _head(weights: dict[str, Tensor], maps: list[Tensor], grid: tuple[int, int]) -> Tensor:
    """A dense prediction transformer's head: four resolutions, fused from coarse to fine."""
    from torch.nn import functional as F  # noqa: N812, PLC0415 - likewise

    part = {name.removeprefix("depth_head."): weight for name, weight in weights.items()}

    def convolve(name: str, x: Tensor, *, stride: int = 1) -> Tensor:
        kernel = part[f"{name}.weight"]
        return F.conv2d(x, kernel, part.get(f"{name}.bias"), stride=stride, padding=kernel.shape[-1] // 2)

    def enlarge(x: Tensor, size: tuple[int, ...]) -> Tensor:
        return F.interpolate(x, size=size, mode="bilinear", align_corners=True)

    def residual(name: str, x: Tensor) -> Tensor:
        return x + convolve(f"{name}.conv2", convolve(f"{name}.conv1", x.relu()).relu())

    levels = [convolve(f"projects.{index}", one) for index, one in enumerate(maps)]
    for index, factor in ((0, 4), (1, 2)):
        name = f"resize_layers.{index}"
        levels[index] = F.conv_transpose2d(levels[index], part[f"{name}.weight"], part[f"{name}.bias"], stride=factor)
    levels[3] = convolve("resize_layers.3", levels[3], stride=2)
    levels = [convolve(f"scratch.layer{index}_rn", level) for index, level in enumerate(levels, 1)]

    path = None
    for index in (4, 3, 2, 1):
        name, level = f"scratch.refinenet{index}", levels[index - 1]
        x = level if path is None else path + residual(f"{name}.resConfUnit1", level)
        finer = levels[index - 2].shape[2:] if index > 1 else tuple(2 * side for side in level.shape[2:])
        path = convolve(f"{name}.out_conv", enlarge(residual(f"{name}.resConfUnit2", x), finer))
    x = enlarge(convolve("scratch.output_conv1", path), tuple(PATCH * side for side in grid))
    return convolve("scratch.output_conv2.2", convolve("scratch.output_conv2.0", x).relu())
