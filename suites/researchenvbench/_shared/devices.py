"""Running code that names one device, on the tier's."""
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from probekit import DEVICE
from torch import tensor
from torch.overrides import TorchFunctionMode


class TiersDevice(TorchFunctionMode):
    """Within it, `torch.tensor` makes what is asked for on `cuda` on the device of the tier."""

    def __torch_function__(self, function, types, arguments=(), named=None):  # noqa: ANN001, ANN204
        """Make the call, with another device where that is named."""
        named = named or {}
        if function is tensor and named.get("device") == "cuda":
            named |= {"device": DEVICE}
        return function(*arguments, **named)
