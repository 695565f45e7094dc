"""C3 and C4 of FunMusic: `inference.py` makes music from a text, and `train.py` trains the flow model on all ranks.

Both scripts run unchanged, on the repository's configuration with fewer channels, and on weights and tokens that are
made here. For C3 the best token is taken at each step, so that the language model's states, with flash attention and a
cache, must be those of transformers' eager Qwen2, which sees all steps at once. For C4 the loss's gradient tells what
the flow was compared with: the noise in that must be normal. Ranks get different tokens and keep the same weights.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import wave

import pandas as pd
import torch
from calls import Calls, FlowCall, normal_error
from extensions import require
from hyperpyyaml import load_hyperpyyaml
from inspiremusic.music_tokenizer.env import AttrDict
from inspiremusic.music_tokenizer.models import Encoder, Generator, Quantizer
from inspiremusic.wavtokenizer.decoder.pretrained import WavTokenizer
from observing import fingerprint
from probekit import DEVICE, NPROC, OUT, REPO, observe, run_script, token_batch, word_tokenizer
from ranks import relative_error, spread
from transformers import Qwen2Config, Qwen2ForCausalLM


CODEC = {
    "n_codes": 4096,
    "n_code_groups": 2,
    "residul_layer": 2,
    "codebook_loss_lambda": 1,
    "commitment_loss_lambda": 1,
}
CODEC |= {"resblock": "2", "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3]]}
CODEC |= {"upsample_rates": [4] * 4, "upsample_kernel_sizes": [8] * 4, "upsample_initial_channel": 32}
BACKBONE = {"input_channels": 512, "dim": 64, "intermediate_dim": 64, "num_layers": 1, "adanorm_num_embeddings": 4}
WAVES = {"feature_extractor": ("feature_extractors.EncodecFeatures", {"vq_bins": 4096})}
WAVES |= {"backbone": ("models.VocosBackbone", BACKBONE)}
WAVES |= {"head": ("heads.ISTFTHead", {"dim": 64, "n_fft": 1280, "hop_length": 320})}
CHANGES = {"../../pretrained_models/InspireMusic-Base/": f"{OUT}/", "_input_size: 512": "_input_size: 64"}
CHANGES |= {"size: 896": "size: 64", "top_k: 350": "top_k: 1", "infer_cfg_ratio: 3.0": "infer_cfg_ratio: 1.0"}
CHANGES |= {"max_epoch: 200": "max_epoch: 3", "warmup_steps: 500": "warmup_steps: 1", "accum_grad: 2": "accum_grad: 1"}
CHANGES |= {"num_mid_blocks: 8": "num_mid_blocks: 1", "n_blocks: 4": "n_blocks: 1", "num_blocks: 3": "num_blocks: 1"}


def write_inputs() -> None:
    """Write what the configuration names, and a list of tables with tokens: one for each rank."""
    torch.manual_seed(0)
    word_tokenizer(["slow", "soft", "piano", "and", "drums"]).save_pretrained(OUT)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_key_value_heads": 1}
    config = Qwen2Config(vocab_size=64, num_attention_heads=2, initializer_range=0.2, **sizes)
    Qwen2ForCausalLM(config).half().save_pretrained(OUT)
    codec, waves = OUT / "music_tokenizer", OUT / "wavtokenizer"
    codec.mkdir()
    waves.mkdir()
    (codec / "config.json").write_text(json.dumps(CODEC), encoding="utf-8")
    parts = {"generator": Generator, "quantizer": Quantizer, "encoder": Encoder}
    torch.save({name: part(AttrDict(CODEC)).state_dict() for name, part in parts.items()}, codec / "model.pt")
    home = "inspiremusic.wavtokenizer.decoder."
    classes = {name: {"class_path": home + one, "init_args": sizes} for name, (one, sizes) in WAVES.items()}
    (waves / "config.yaml").write_text(json.dumps({"model": {"init_args": classes}}), encoding="utf-8")
    vocoder = WavTokenizer.from_hparams_feat(str(waves / "config.yaml"))
    torch.save({"state_dict": vocoder.state_dict()}, waves / "model.pt")
    text = (REPO / "examples/music_generation/conf/inspiremusic_base.yaml").read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        text = text.replace(old, new)
    (OUT / "config.yaml").write_text(text, encoding="utf-8")
    for rank in range(NPROC):
        tokens = token_batch(60, 4, vocabulary=4096, seed=rank).tolist()
        row = {"utt": f"piece-{rank}", "text": "slow soft piano", "time_start": 0.0, "time_end": 1.0, "chorus": "intro"}
        row |= {"acoustic_token": tokens, "semantic_token": [[codes[0] for codes in tokens]]}
        pd.DataFrame([row]).to_parquet(OUT / f"{rank}.parquet")
    (OUT / "data.list").write_text("\n".join(f"{OUT}/{rank}.parquet" for rank in range(NPROC)), encoding="utf-8")


def generate() -> dict[str, object]:
    """Make music, and hold the states of the language model against those of transformers' own."""
    if DEVICE == "cuda":
        require("flash_attn_2_cuda", distribution="flash-attn")
    torch.save(load_hyperpyyaml((OUT / "config.yaml").read_text(encoding="utf-8"))["llm"].state_dict(), OUT / "llm.pt")
    with Calls("Qwen2ForCausalLM", lambda _, named, out: (named["inputs_embeds"], out.hidden_states[-1])) as calls:
        run_script(
            "inspiremusic/bin/inference.py",
            *("--task", "text-to-music", "--gpu", 0 if DEVICE == "cuda" else -1, "--fast", "--chorus", "intro"),
            *("--config", OUT / "config.yaml", "--prompt_data", OUT / "data.list", "--llm_model", OUT / "llm.pt"),
            *("--music_tokenizer", OUT / "music_tokenizer", "--wavtokenizer", OUT / "wavtokenizer"),
            *("--max_generate_audio_seconds", 1.0, "--output_sample_rate", 24000, "--result_dir", OUT / "music"),
        )
    given, states = (torch.cat(part, 1).float().cpu() for part in zip(*calls.kept, strict=True))
    reference = Qwen2ForCausalLM.from_pretrained(OUT, attn_implementation="eager", torch_dtype=torch.float32)
    with torch.no_grad():
        error = relative_error(states, reference(inputs_embeds=given, output_hidden_states=True).hidden_states[-1])
    with wave.open(str(OUT / "music/piece-0.wav")) as file:
        seconds, values = file.getnframes() / file.getframerate(), len(set(file.readframes(24000)))
    seen = {"state_error": error, "seconds": seconds, "values": values}
    return {"steps": len(calls.kept), "elsewhere": calls.elsewhere, **seen}


def train() -> dict[str, object]:
    """Train the flow model, as one rank, and look for the noise in what it was compared with."""
    with Calls(
        "ConditionalDecoder", lambda x, _, out: FlowCall(out, x=x[0], t=x[3]) if out.requires_grad else None
    ) as calls:
        run_script(
            "inspiremusic/bin/train.py",
            *("--train_engine", "torch_ddp", "--model", "flow", "--config", OUT / "config.yaml", "--num_workers", 1),
            *("--train_data", OUT / "data.list", "--cv_data", OUT / "data.list", "--model_dir", OUT / "trained"),
            *("--ddp.dist_backend", "nccl" if DEVICE == "cuda" else "gloo", "--prefetch", 2, "--pin_memory"),
            *("--tensorboard_dir", OUT / "board"),
        )
    first = calls.kept[0]
    noise = first.inputs["x"].double() - first.inputs["t"].view(-1, 1, 1) * first.target()
    seen = {"steps": len(calls.kept), "elsewhere": calls.elsewhere, "noise_error": normal_error(noise)}
    return seen | {"weights": fingerprint(calls.modules[0]), "piece": first.inputs["x"].sum().item()}


if __name__ == "__main__":
    ranks = spread(generate if NPROC == 1 else train, before=write_inputs)
    weights, pieces = [rank.pop("weights", []) for rank in ranks], {rank.pop("piece", 0.0) for rank in ranks}
    worst = {name: max(rank[name] for rank in ranks) for name in ranks[0]}
    observe(ranks=len(ranks), pieces=len(pieces), same_weights=all(one == weights[0] for one in weights), **worst)
