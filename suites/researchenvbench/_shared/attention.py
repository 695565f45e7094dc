"""What attention has to give, in plain torch and double precision, for probes of code that has kernels for it."""
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    import torch


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, visible: torch.Tensor | None = None
) -> torch.Tensor:
    """Softmax attention over tensors of shape (…, tokens, width); `visible` is false where a token sees no other."""
    scores = query.double() @ key.double().mT * query.shape[-1] ** -0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(-1) @ value.double()


def root_mean_square(x: torch.Tensor, scale: torch.Tensor, *, epsilon: float = 1e-6) -> torch.Tensor:
    """Scale vectors to a mean square of 1, and then by learnt factors."""
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt() * scale.double()


def turned(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Turn each pair of the halves of vectors by its angle: rotary positions."""
    import torch  # noqa: PLC0415 - importing this module imports the standard library alone

    (first, second), cosine, sine = x.double().chunk(2, -1), angles.double().cos(), angles.double().sin()
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


def angles(places: torch.Tensor, widths: list[int], *, base: float = 10000) -> torch.Tensor:
    """The angles by which places with several axes, the last dimension, turn vectors that give each axis a width."""
    import torch  # noqa: PLC0415 - likewise

    rates = [base ** (-torch.arange(0, width, 2, device=places.device).double() / width) for width in widths]
    return torch.cat([places[..., axis, None].double() * rate for axis, rate in enumerate(rates)], -1)
