"""What went into a module and came out of it, while a repository's own script calls it."""
# pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from probekit import on_device


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


class Calls:
    """The calls of the modules of a class, in their order.

    Attributes:
        modules: of that class, or of one made from it, as parallel models are.
        kept: what was kept of each call.
        elsewhere: how many had their (first) result on another device than the tier's.
    """

    def __init__(self, name: str, keep: Callable[[tuple, dict, Any], object]) -> None:
        """Look at calls; `keep` takes arguments, named arguments and output, and gives what is kept unless None."""
        self.modules: list[torch.nn.Module] = []
        self.kept: list[Any] = []
        self.elsewhere = 0
        self._name, self._keep = name, keep

    def __enter__(self) -> Self:
        """Begin to look."""
        self._watching = torch.nn.modules.module.register_module_forward_pre_hook(self._meet)
        return self

    def __exit__(self, *_: object) -> None:
        """Look at no further modules."""
        self._watching.remove()

    def _meet(self, module: torch.nn.Module, _: tuple) -> None:
        if module not in self.modules and any(kind.__name__ == self._name for kind in type(module).__mro__):
            self.modules.append(module)
            # Hooks for all modules do not get named arguments.
            module.register_forward_hook(self._look, with_kwargs=True)

    def _look(self, _: torch.nn.Module, inputs: tuple, named: dict, output: torch.Tensor | tuple) -> None:
        self.elsewhere += not on_device(output if isinstance(output, torch.Tensor) else output[0])
        if (kept := self._keep(inputs, named, output)) is not None:
            self.kept.append(kept)


class FlowCall:
    """One call of a model that learns a flow from noise to data, by the mean of squared differences."""

    def __init__(self, output: torch.Tensor, **inputs: torch.Tensor) -> None:
        """Keep inputs and output, and the loss's gradient when it is there."""
        self.inputs = {name: value.detach().cpu() for name, value in inputs.items()}
        self.output, self.gradient = output.detach().double().cpu(), torch.zeros(0)
        output.register_hook(self._keep)

    def _keep(self, gradient: torch.Tensor) -> None:
        self.gradient = gradient.detach().double().cpu()

    def target(self) -> torch.Tensor:
        """What the output was compared with: the gradient is twice the difference by the number of values."""
        return self.output - self.gradient * self.output.numel() / 2


def normal_error(noise: torch.Tensor) -> float:
    """How far the mean of noise is from 0, or its deviation from 1."""
    return max(noise.mean().abs().item(), (noise.std() - 1).abs().item())
