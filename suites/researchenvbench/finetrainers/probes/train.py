"""C3 and C4 of finetrainers: its script `train.py` fine-tunes a tiny Wan by LoRA on videos made here.

The model is written here, with random weights, in the format that the script loads. One rank runs the Accelerate
backend, several the repository's own, as the published runs do. Hooks of torch look on: what went into the transformer
must give the same in diffusers' own, and what came back as gradient tells the loss and the target, which must be that
of flow matching: the noise that it stands for is normal. The LoRA must grow, and be the same on ranks that saw
different videos. The script swallows its exceptions, so nothing else counts.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json

import imageio_ffmpeg
import torch
from calls import Calls, FlowCall, normal_error
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
from probekit import NPROC, OUT, observe, run_script, word_tokenizer
from ranks import relative_error, spread
from transformers import UMT5Config, UMT5EncoderModel


MODEL, STEPS, SIDE, FRAMES = OUT / "model", 4, 32, 5
WORDS = ["red", "blue", "green", "cube", "sphere", "crushed", "pressed", "slow", "fast"]


def write_inputs() -> None:
    """Write the model, and a video of moving noise with a caption for each step and rank."""
    torch.manual_seed(0)
    tokenizer = word_tokenizer(WORDS)
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    text_encoder = UMT5EncoderModel(UMT5Config(vocab_size=len(tokenizer), **sizes))
    heads = {"num_attention_heads": 2, "attention_head_dim": 24, "num_layers": 2, "rope_max_seq_len": 32}
    transformer = WanTransformer3DModel(**heads, text_dim=32, freq_dim=32, ffn_dim=64)
    vae = AutoencoderKLWan(base_dim=8, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    WanPipeline(tokenizer, text_encoder, transformer, vae, FlowMatchEulerDiscreteScheduler()).save_pretrained(MODEL)
    videos, rows = OUT / "videos", []
    videos.mkdir()
    for index in range(STEPS * NPROC):
        writer = imageio_ffmpeg.write_frames(str(videos / f"{index}.mp4"), (SIDE, SIDE), fps=8)
        writer.send(None)
        for frame in torch.randint(256, (FRAMES, SIDE, SIDE, 3), dtype=torch.uint8):
            writer.send(frame.numpy().tobytes())
        writer.close()
        rows.append(json.dumps({"file_name": f"{index}.mp4", "caption": f"{WORDS[index % 9]} cube crushed"}))
    (videos / "metadata.jsonl").write_text("\n".join(rows), encoding="utf-8")
    data = {"data_root": str(videos), "dataset_type": "video", "video_resolution_buckets": [[FRAMES, SIDE, SIDE]]}
    (OUT / "data.json").write_text(json.dumps({"datasets": [data]}), encoding="utf-8")


def train() -> dict[str, object]:
    """Run the script, as one rank, and hold what its transformer saw against diffusers' and flow matching."""
    names = "hidden_states", "timestep", "encoder_hidden_states"
    with Calls(
        "WanTransformer3DModel", lambda _, named, out: FlowCall(out[0], **{k: named[k] for k in names})
    ) as calls:
        run_script(
            "train.py",
            *("--model_name", "wan", "--pretrained_model_name_or_path", MODEL, "--dataset_config", OUT / "data.json"),
            *("--training_type", "lora", "--rank", 4, "--lora_alpha", 4, "--target_modules", "to_q", "to_k", "to_v"),
            *("--transformer_dtype", "fp32", "--text_encoder_dtype", "fp32", "--vae_dtype", "fp32", "--seed", 0),
            *("--train_steps", STEPS, "--lr", 0.01, "--lr_warmup_steps", 0, "--checkpointing_steps", STEPS),
            *("--parallel_backend", "accelerate" if NPROC == 1 else "ptd", "--dp_degree", NPROC),
            *("--output_dir", OUT / "run"),
        )
    first = calls.kept[0]
    with torch.no_grad():
        wanted = WanTransformer3DModel.from_pretrained(MODEL / "transformer")(**first.inputs, return_dict=False)[0]
    mixed, time = first.inputs["hidden_states"], first.inputs["timestep"].item() / 1000
    return {
        "steps": len(calls.kept),
        "elsewhere": calls.elsewhere,
        "output_error": relative_error(first.output, wanted),
        "noise_error": normal_error(mixed + (1 - time) * first.target()),
        "lora": [one.double().norm().item() for name, one in calls.modules[0].named_parameters() if "lora_B" in name],
        "video": mixed.double().sum().item(),
    }


if __name__ == "__main__":
    ranks = spread(train, before=write_inputs)
    loras, videos = [rank.pop("lora") for rank in ranks], {rank.pop("video") for rank in ranks}
    smallest, same = min(map(min, loras)), all(lora == loras[0] for lora in loras)
    worst = {name: max(rank[name] for rank in ranks) for name in ranks[0]}
    observe(ranks=len(ranks), videos=len(videos), smallest_lora=smallest, same_lora=same, **worst)
