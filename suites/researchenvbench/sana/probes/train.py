"""C3 and C4 of Sana: its transformer with linear attention, trained by its flow scheduler as the training script does.

That script (`train_scripts/train.py`) builds models of 600 million weights and more, by name, and downloads a text
encoder; here the same class is small, and captions are random. Every call of linear attention, and of cross attention
over captions of several lengths, is computed anew from the module's weights, and the loss from what the model gave; it
must fall. A step on shares of a batch must be the step on all of it, and that on one share alone another.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
# ruff: noqa: E402 - the extension is looked at before what imports it, so that its fault is the one that is told

from __future__ import annotations

import inspect

import extensions


extensions.require("xformers.ops", distribution="xformers")
import torch
from attention import attend
from diffusion import Scheduler
from diffusion.model.builder import build_model
from diffusion.model.nets.sana_multi_scale import SanaMS
from observing import Watch, fit
from probekit import data_parallel_step, observe
from ranks import process_group, relative_error, spread
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


HEADS, BATCH, TOKENS, WATCHED = 4, 4, 6, ("LiteLA", "MultiHeadCrossAttention")
SIZES = {"input_size": 8, "patch_size": 1, "hidden_size": 64, "depth": 2, "num_heads": HEADS, "linear_head_dim": 16}
KINDS = {"attn_type": "linear", "ffn_type": "glumbconv", "use_pe": False, "class_dropout_prob": 0.0}
CAPTIONS, SIGMA = {"caption_channels": 32, "model_max_length": TOKENS}, {"pred_sigma": False, "learn_sigma": False}
#: Along straight lines between image and noise, as the repository's configurations have it.
FLOW = {"noise_schedule": "linear_flow", "flow_shift": 3.0, **SIGMA}


def expected(module: torch.nn.Module, inputs: tuple) -> torch.Tensor:
    """Compute what an attention module should give, from its weights and inputs."""
    part = {name: weight.detach().double() for name, weight in module.state_dict().items()}

    def projected(x: torch.Tensor, name: str, count: int) -> list[torch.Tensor]:
        values = F.linear(x.detach().double(), part[f"{name}.weight"], part.get(f"{name}.bias"))
        return [one.unflatten(-1, (HEADS, -1)).transpose(-3, -2) for one in values.chunk(count, -1)]

    if type(module).__name__ == "LiteLA":
        query, key, value = projected(inputs[0], "qkv", 3)
        query, key = query.relu(), key.relu()
        mixed = query @ (key.mT @ value) / (query @ key.sum(-2).unsqueeze(-1) + 1e-8)
    else:
        captions = [projected(caption, "kv_linear", 2) for caption in inputs[1][0].split(list(inputs[2]))]
        queries = projected(inputs[0], "q_linear", 1)[0]
        mixed = torch.stack([attend(query, *pair) for query, pair in zip(queries, captions, strict=True)])
    return F.linear(mixed.transpose(-3, -2).flatten(-2), part["proj.weight"], part["proj.bias"])


def work() -> dict[str, object]:
    """Train as a rank, and return what was seen."""
    # That velocities are predicted has two names in the revisions that could be read.
    (velocity,) = {"predict_v", "predict_flow_v"} & set(inspect.signature(Scheduler).parameters)
    flow, errors = Scheduler("1000", **FLOW, **{velocity: True}), []

    def loss(model: torch.nn.Module, *batch: torch.Tensor) -> torch.Tensor:
        def watched(*inputs: torch.Tensor, **named: object) -> torch.Tensor:
            given.append(model(*inputs, **named))
            return given[-1]

        image, noise, text, mask, time = batch
        given, options = [], {"y": text, "mask": mask, "data_info": {}}
        found = flow.training_losses(watched, image, time, model_kwargs=options, noise=noise)["loss"].mean()
        errors.append(relative_error(found, (given[0] - (noise - image)).square().mean()))
        return found

    with process_group() as device:
        torch.manual_seed(0)
        model = build_model("SanaMS", **SIZES, **KINDS, **CAPTIONS, **SIGMA).to(device)
        mask = torch.arange(TOKENS) < torch.arange(2, 2 + BATCH)[:, None]
        parts = [*torch.randn(2, BATCH, 4, 8, 8), torch.randn(BATCH, 1, TOKENS, 32), mask[:, None, None].short()]
        batch = [part.to(device) for part in (*parts, torch.arange(100, 900, 200))]
        with Watch(*WATCHED, note=lambda *seen: errors.append(relative_error(seen[2], expected(*seen[:2])))) as watch:
            losses = fit(lambda: loss(model, *batch), model.parameters(), steps=20, rate=2e-3)
        steps = data_parallel_step(model.eval(), batch, loss)
    seen = {"calls": min(watch.calls[name] for name in WATCHED), "elsewhere": watch.elsewhere, "error": max(errors)}
    return seen | steps | {"first_loss": losses[0], "ratio": losses[-1] / losses[0], "same": type(model) is SanaMS}


ranks = spread(work)
worst = {name: max(rank[name] for rank in ranks) for name in ranks[0] if name not in {"calls", "same", "share_error"}}
least = {name: min(rank[name] for rank in ranks) for name in ("calls", "same", "share_error")}
observe(ranks=len(ranks), **worst, **least)
