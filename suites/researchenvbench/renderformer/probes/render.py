"""C1, C3 and C4 of RenderFormer: `scene_processor/convert_scene.py` converts example scenes, `infer.py` renders them.

A small model with random weights lies where the script loads it from. Each rank renders a scene of its own, as it is
and changed: with its triangles in another order, or moved with the camera, it must give the same image, without
materials another. Also, it must be what the script renders on the CPU in 32 bits, without Triton.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import imageio.v3
import numpy as np
import torch
from probekit import DEVICE, NPROC, OUT, REPO, finite, observe, on_device, run_script
from ranks import RANK, relative_error, spread
from renderformer.models.config import RenderFormerConfig
from renderformer.models.renderformer import RenderFormer


HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "ATTN_IMPL": "sdpa"}
SCENES, CHANGES = ("init-template", "fox-in-the-wild"), ("shuffled", "moved", "bare")
SMALLER = {"latent_dim": 128, "num_layers": 2, "num_heads": 2, "dim_feedforward": 256, "vertex_pe_num_freqs": 6}
SMALLER |= {f"view_transformer_{name}": value for name, value in (("latent_dim", 128), ("n_heads", 2), ("n_layers", 4))}
SMALLER |= {"view_transformer_ffn_hidden_dim": 256, "dpt_features": 32, "dpt_out_channels": [16, 32, 64, 64]}


def prepare() -> None:
    """Save the model, convert and change each scene, and render it on the CPU."""
    torch.manual_seed(0)
    RenderFormer(RenderFormerConfig(**SMALLER)).save_pretrained(OUT / "model")
    for scene in SCENES[:NPROC]:
        arguments = [REPO / "examples" / f"{scene}.json", "--mesh_path", OUT / scene / "mesh.obj"]
        run_script("scene_processor/convert_scene.py", *arguments, "--output_h5_path", OUT / f"{scene}.h5")
        change(scene)
        command = [sys.executable, "infer.py", *options(scene, "fp32"), f"--output_dir={OUT / 'expected'}"]
        subprocess.run(command, cwd=REPO, env=os.environ | HIDDEN, check=True)


def change(scene: str) -> None:
    """Write a scene with its triangles in another order, moved together with its camera, and without materials."""
    with h5py.File(OUT / f"{scene}.h5") as file:
        plain = {name: file[name][()] for name in file}
    order = np.random.default_rng(0).permutation(len(plain["triangles"]))
    shift, camera = np.float32([0.5, -0.25, 0.125]), plain["c2w"].copy()
    camera[:, :3, 3] += shift
    shuffled = {name: plain[name][order] for name in ("triangles", "vn", "texture")}
    moved = {"triangles": plain["triangles"] + shift, "c2w": camera}
    for name, changed in zip(CHANGES, (shuffled, moved, {"texture": 0 * plain["texture"]}), strict=True):
        with h5py.File(OUT / f"{scene}-{name}.h5", "w") as file:
            file.update(plain | changed)


def options(scene: str, precision: str) -> list[str]:
    """The script's options for a scene."""
    return [f"--h5_file={OUT / scene}.h5", f"--model_id={OUT / 'model'}", "--resolution=64", f"--precision={precision}"]


def image(folder: str, scene: str) -> torch.Tensor:
    """Read an image with high dynamic range that the script has written."""
    return torch.from_numpy(imageio.v3.imread(OUT / folder / f"{scene}_view_0.exr"))


def render() -> dict[str, object]:
    """Render this rank's scene and its changed versions, and compare the images."""
    there: list[bool] = []

    def note(module: torch.nn.Module, _: object, output: object) -> None:
        if isinstance(module, RenderFormer):
            there.append(on_device(output) and finite(output))

    torch.nn.modules.module.register_module_forward_hook(note)
    if DEVICE == "cuda":
        torch.cuda.set_device(RANK)
    scene, precision = SCENES[RANK], "fp16" if DEVICE == "cuda" else "fp32"
    for version in (scene, *(f"{scene}-{name}" for name in CHANGES)):
        run_script("infer.py", *options(version, precision), f"--output_dir={OUT / 'images'}")
    plain = image("images", scene)
    seen = {"error": relative_error(plain, image("expected", scene)), "there": sum(there)}
    return seen | {name: relative_error(image("images", f"{scene}-{name}"), plain) for name in CHANGES}


ranks = spread(render, before=prepare)
worst = {name: max(rank[name] for rank in ranks) for name in ("error", "shuffled", "moved")}
observe(ranks=len(ranks), there=min(rank["there"] for rank in ranks), bare=min(rank["bare"] for rank in ranks), **worst)
