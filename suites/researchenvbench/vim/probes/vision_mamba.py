"""C1, C3 and C4 of Vim: Vision Mamba of `vim/models_mamba.py`, trained on devices by `vim/main.py`, unchanged.

The script trains the released tiny model. Hooks look on: the loss must fall, each mixer of the first step must give
what a recurrence in both directions gives from its weights in double precision, and several ranks must end up with
equal weights although their losses differ.
The kernels take nothing from the CPU, so no environment runs a model there. In C1 (`PART`) the model is made, images
are embedded, and the repository's own plain version of its scan is compared in a mixer, forward and backward.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
import random
from copy import deepcopy

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from extensions import explained, require
from probekit import DEVICE, NPROC, OUT, observe, on_device, run_script, selective_scan
from ranks import relative_error, spread


MODEL = "vim_tiny_patch16_224_bimambav2_final_pool_mean_abs_pos_embed_with_midclstok_div2"
OPTIONS = """--input-size=64 --batch-size=4 --epochs=1 --warmup-epochs=0 --unscale-lr --lr=2e-3 --num_workers=0
    --no-repeated-aug --mixup=0 --cutmix=0 --smoothing=0 --drop-path=0 --color-jitter=0 --reprob=0 --aa="""


def write_images() -> None:
    """Write noise as images of two classes: 32 for each rank's training, in batches of 4."""
    for folder in ("train/one", "train/two", "val/one", "val/two"):
        (OUT / "images" / folder).mkdir(parents=True)
        for index in range(16 * NPROC):
            pixels = random.Random(f"{folder}{index}").randbytes(3 * 64 * 64)  # noqa: S311 - test data
            (OUT / "images" / folder / f"{index}.ppm").write_bytes(b"P6 64 64 255\n" + pixels)


def mix(mixer: torch.nn.Module, tokens: torch.Tensor, scan: object = None) -> torch.Tensor:
    """Compute what a mixer gives from its weights, by the repository's `selective_scan_ref` or by a recurrence here."""
    inner, gate = mixer.in_proj(tokens).mT.chunk(2, 1)
    total = 0
    for way, order in (("", []), ("_b", [-1])):
        conv, project, step, skip = (getattr(mixer, name + way) for name in ("conv1d", "x_proj", "dt_proj", "D"))
        decay = -(mixer.A_b_log if way else mixer.A_log).exp()
        part = F.silu(conv(inner.flip(order))[..., : tokens.shape[1]])
        delta, *maps = project(part.mT).mT.split([mixer.dt_rank, mixer.d_state, mixer.d_state], 1)
        delta = F.softplus(step(delta.mT)).mT
        if scan:
            total += scan(part, delta, decay, *maps, skip).flip(order)
        else:
            states = selective_scan(part.mT, delta.mT, decay, [values.mT for values in maps])
            total += (states + skip * part.mT).mT.flip(order)
    return mixer.out_proj((total * F.silu(gate) / 2).mT)


def refer() -> None:
    """C1: look at what of the model runs on the CPU."""
    ops = require("mamba_ssm.ops.selective_scan_interface", distribution="mamba_ssm")
    model = run_script("vim/models_mamba.py")[MODEL](img_size=64)
    tokens = model.patch_embed(torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)))
    mixer, count = model.layers[0].mixer, sum(weight.numel() for weight in model.parameters())
    outputs = [mix(mixer, tokens, scan) for scan in (ops.selective_scan_ref, None)]
    weights = list(mixer.parameters())
    gradients = [torch.autograd.grad(output.square().mean(), weights, retain_graph=True) for output in outputs]
    errors = {"mixer_error": relative_error(*outputs), "gradient_error": max(map(relative_error, *gradients))}
    observe(weights=count, **errors)


def train() -> dict[str, object]:
    """Run the training script as one rank, and note what loss and mixers saw."""
    seen, model = {"losses": [], "mixer_errors": []}, []

    @torch.no_grad()
    def look(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if (kind := type(module).__name__) == "DistillationLoss":
            seen["losses"].append(output.item() if on_device(output) else 0.0)
        elif kind == "VisionMamba":
            model[:] = module.parameters()
        elif kind == "Mamba" and not seen["losses"]:
            exact = mix(deepcopy(module).cpu().double(), inputs[0].cpu().double())
            seen["mixer_errors"].append(relative_error(output, exact))

    torch.nn.modules.module.register_module_forward_hook(look)
    where = f"--model={MODEL} --device={DEVICE} --data-path={OUT / 'images'} --output_dir={OUT / 'run'}"
    with explained("mamba_ssm"):
        run_script("vim/main.py", *where.split(), *OPTIONS.split())
    return seen | {"weights": [weight.sum().item() for weight in model]}


def main() -> None:
    """Take the tier's part, and write down what was seen."""
    os.chdir(OUT)
    require("causal_conv1d_cuda", distribution="causal_conv1d")
    require("selective_scan_cuda", distribution="mamba_ssm")
    if os.environ["PART"] == "reference":
        refer()
        return
    first, *others = ranks = spread(train, before=write_images)
    observe(
        ranks=len(ranks),
        steps=min(len(rank["losses"]) for rank in ranks),
        mixers=len(first["mixer_errors"]),
        mixer_error=max(first["mixer_errors"]),
        first_loss=first["losses"][0],
        loss_ratio=first["losses"][-1] / first["losses"][0],
        ranks_out_of_step=sum(rank["weights"] != first["weights"] for rank in others),
        ranks_with_equal_losses=sum(rank["losses"] == first["losses"] for rank in others),
    )


if __name__ == "__main__":
    main()
