"""C1, C3 and C4 of Auto1111SDK: the diffusion models that it bundles, trained by Lightning under DDP, and its upscaler.

The trainer `main.py` cannot start with the versions that the repository pins, so its toy configuration is trained here
as it does that. A hook computes the loss of every step anew, as the paper on EDM has it, from what went into the
network and what came out. The weights must change at every step and, with several ranks, be equal on all while their
images differ. The image that the SDK's upscaler enlarges must be the one that its network gives alone.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os

import numpy as np
import torch
from auto1111sdk.modules import paths  # noqa: F401 - it is what makes `sgm` importable for the SDK
from auto1111sdk.pipelines import EsrganPipelines
from omegaconf import OmegaConf
from PIL import Image
from probekit import DEVICE, NPROC, OUT, REPO, finite, observe, on_device, write_images
from pytorch_lightning import Trainer
from ranks import spread
from sgm.util import instantiate_from_config
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


CONFIG = "auto1111sdk/modules/generative/configs/example_training/toy/mnist.yaml"
STEPS, BATCH = 4, 4


def train() -> dict[str, object]:
    """Train the model of the configuration, as one rank, and note what each step saw; then draw samples."""
    network, steps = [], []

    def note(module: torch.nn.Module, inputs: tuple, output: object) -> None:
        if type(module).__name__ == "OpenAIWrapper":
            network[:] = [tensor.detach().double() for tensor in (*inputs[:2], output)]
        elif type(module).__name__ == "DiffusionEngine":
            scaled, time, raw = network
            sigma = (4 * time).exp().view(-1, 1, 1, 1)
            scale = (sigma**2 + 1).sqrt()
            error = (scaled + sigma * raw) / scale - inputs[0]
            wanted = ((scale / sigma * error) ** 2).mean().item()
            weights = [weight.detach().double().sum().item() for weight in module.parameters()]
            steps.append((output[0].item(), wanted, inputs[0].sum().item(), weights, on_device(raw)))

    torch.nn.modules.module.register_module_forward_hook(note)
    torch.manual_seed(0)
    config = OmegaConf.load(REPO / CONFIG)
    config.model.params.network_config.params.num_res_blocks = 1
    config.model.params.sampler_config.params.update(num_steps=4, device=DEVICE)
    engine = instantiate_from_config(config.model)
    engine.learning_rate = 1e-3
    images = F.interpolate(torch.rand(STEPS * BATCH * NPROC, 1, 7, 7) * 2 - 1, size=28, mode="bilinear")
    loader = torch.utils.data.DataLoader([{"jpg": image} for image in images], BATCH)
    accelerator = "gpu" if DEVICE == "cuda" else "cpu"
    options = {"logger": False, "enable_checkpointing": False, "max_epochs": 1}
    Trainer(accelerator=accelerator, devices=NPROC, strategy="ddp", **options).fit(engine, loader)
    samples = engine.to(DEVICE).log_images({"jpg": images[:BATCH]})["samples"]
    return {"steps": steps, "sampled": finite(samples) and samples.shape == (BATCH, 1, 28, 28)}


@torch.no_grad()
def upscale() -> dict[str, float]:
    """Enlarge an image; give the mean differences, in gray levels, from the network's own and from plain pixels."""
    name, file = "R-ESRGAN AnimeVideo", OUT / "upscaler.pth"
    torch.manual_seed(0)
    network = EsrganPipelines.real_esrgan_info[name]["model"]()
    for weight in network.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) * weight[0].numel() ** -0.5)
    # The SDK reads only the older of torch's formats.
    torch.save({"params": network.state_dict()}, file, _use_new_zipfile_serialization=False)
    image = Image.open(write_images(OUT, 1, size=(40, 32))[0])
    upscaler = EsrganPipelines.RealEsrganPipeline(name, str(file), os.environ["COMMANDLINE_ARGS"])
    found = np.array(upscaler.upscale(image, 4), dtype=float)
    padded = F.pad(torch.tensor(np.array(image)).permute(2, 0, 1)[None] / 255, (0, 10, 0, 10), "reflect")
    both = network(padded.flip(1)).flip(1), F.interpolate(padded, scale_factor=4.0)
    alone, plain = (abs(one[0].clamp(0, 1).permute(1, 2, 0).numpy()[:128, :160] * 255 - found).mean() for one in both)
    return {"upscale_error": float(alone), "upscale_change": float(plain)}


def main() -> None:
    """Train on all ranks, hold their notes against each other, and upscale."""
    os.chdir(OUT)
    ranks = spread(train)
    losses, wanted, pixels, weights, there = zip(*(step for rank in ranks for step in rank["steps"]), strict=True)
    observe(
        ranks=len(ranks),
        steps=len(losses),
        there=all(there),
        first_loss=losses[0],
        loss_error=max(abs(one - other) / other for one, other in zip(losses, wanted, strict=True)),
        batches=len(set(pixels)),
        states=len({str(state) for state in weights}),
        sampled=all(rank["sampled"] for rank in ranks),
        **upscale(),
    )


if __name__ == "__main__":
    main()
