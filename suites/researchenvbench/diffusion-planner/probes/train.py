"""C1, C3 and C4 of Diffusion Planner: the training of `train_predictor.py` on driving scenes from a seed, then a plan.

At the revision that could be read the script lacks an option that its decoder looks up, and always ends there: its
`get_args` and `model_training` are called, with no guidance unless said. All goes straight on: the future is known.
From it and what the model gave (in units of 20 m) a hook computes the losses; the last epoch's must be in the
checkpoint. What went in must be the future with noise of variance 1; ranks must end with equal weights.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import os
import runpy
import sys

import numpy as np
import torch
from probekit import DEVICE, NPROC, OUT, REPO, finite, observe, on_device
from ranks import spread


SCENES, BATCH, EPOCHS, AGENTS, PAST, FUTURE = 8, 4, 8, 10, 21, 80
OPTIONS = ["--encoder_depth=1", "--decoder_depth=1", "--num_heads=2", "--hidden_dim=64", f"--agent_num={AGENTS}"]
OPTIONS += [f"--train_epochs={EPOCHS}", f"--save_utd={EPOCHS}", "--warm_up_epoch=2", "--learning_rate=2e-3"]
OPTIONS += ["--num_workers=0", "--use_data_augment=false", "--use_wandb=false", f"--ddp={NPROC > 1}"]
OPTIONS += [f"--batch_size={BATCH * NPROC}", f"--port={os.environ.get('MASTER_PORT', '0')}", f"--device={DEVICE}"]
OPTIONS += [f"--train_set={OUT}", f"--train_set_list={OUT / 'scenes.json'}", f"--save_dir={OUT}"]


def write_scenes() -> None:
    """Write scenes in the format of the repository's preprocessing: metres, and ten steps a second."""
    random, when = np.random.default_rng(0), 0.1 * np.arange(1 - PAST, FUTURE + 1)
    for index in range(SCENES * NPROC):
        pace, start = random.uniform(3, 15, (1 + AGENTS, 1)), random.uniform(5, 30, (2, 1 + AGENTS, 1))
        state = np.zeros((1 + AGENTS, len(when), 11), np.float32)
        state[..., 0], state[..., 1], state[..., 2], state[..., 4] = start[0] + pace * when, start[1], 1, pace
        scene = {"ego_current_state": state[0, PAST - 1, :10], "neighbor_agents_past": state[1:, :PAST]}
        scene["ego_agent_future"], *scene["neighbor_agents_future"] = state[:, PAST:, [0, 1, 3]]
        scene["static_objects"] = random.uniform(1, 10, (5, 10)).astype(np.float32)
        for kind, count in (("lanes", 70), ("route_lanes", 25)):
            lanes = random.uniform(-1, 1, (count, 20, 12)).astype(np.float32)
            scene[kind], scene[f"{kind}_speed_limit"] = lanes, lanes[:, :1, 0]
            scene[f"{kind}_has_speed_limit"] = lanes[:, :1, 1] > 0
        np.savez(OUT / f"{index}.npz", **scene)
    (OUT / "scenes.json").write_text(json.dumps([f"{index}.npz" for index in range(SCENES * NPROC)]), encoding="utf-8")


def train() -> dict[str, object]:
    """Train as one rank, plan a batch, and return the loss, noise and place of each step, and the weights' sums."""
    steps, last = [], []

    def note(module: torch.nn.Module, inputs: tuple[dict[str, torch.Tensor]], output: object) -> None:
        if type(module).__name__ == "Diffusion_Planner" and module.training:
            scene, score = inputs[0], output[1]["score"][:, :, 1:].detach()
            last[:] = module, scene
            now = torch.cat([scene["ego_current_state"][:, None, :5], scene["neighbor_agents_past"][:, :, -1, :5]], 1)
            future = now[:, :, None, :4].expand_as(score).clone()
            future[..., 0] += now[..., 4:] * 0.1 * torch.arange(1, FUTURE + 1, device=score.device)
            error, time = (score - future).square().sum(-1), scene["diffusion_time"].view(-1, 1, 1, 1)
            share = (-0.25 * 19.9 * time**2 - 0.05 * time).exp()
            noise = (scene["sampled_trajectories"][:, :, 1:] - share * future) / (1 - share**2).sqrt()
            steps.append(((error[:, 0].mean() + error[:, 1:].mean()).item(), noise.std().item(), on_device(score)))

    torch.nn.modules.module.register_module_forward_hook(note)
    sys.argv = ["train_predictor.py", *OPTIONS]
    script = runpy.run_path(f"{REPO}/train_predictor.py")
    args = script["get_args"]()
    vars(args).setdefault("guidance_fn", None)
    script["model_training"](args)
    with torch.no_grad():
        plan = last[0].eval()(last[1])[1]["prediction"]
    weights = [weight.detach().double().sum().item() for weight in last[0].parameters()]
    return {"steps": steps, "weights": weights, "planned": plan.numel() * (finite(plan) and on_device(plan))}


ranks = spread(train, before=write_scenes)
seen = np.array([rank["steps"] for rank in ranks], float)
losses = seen[..., 0].mean(0).reshape(EPOCHS, -1).mean(1)
saved = torch.load(next(OUT.glob("training_log/*/*/latest.pth")), map_location="cpu", weights_only=False)
observe(
    ranks=len(ranks),
    there=bool(seen[..., 2].all()),
    noise_error=abs(seen[..., 1].mean() - 1),
    loss_error=abs(saved["loss"] / losses[-1] - 1),
    loss_ratio=losses[-1] / losses[0],
    other_weights=sum(rank["weights"] != ranks[0]["weights"] for rank in ranks),
    planned=min(rank["planned"] for rank in ranks),
)
