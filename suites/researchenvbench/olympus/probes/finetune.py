"""C1, C3 and C4 of Olympus: its script `mipha/train/train.py` tunes a tiny vision-language model.

The model is made of the repository's own classes with random weights: Phi's language model, CLIP's vision tower, and
the projector. It learns to answer a request about an image by a routing token, as in the paper. The script runs as it
is, with the arguments of its own shell script but those for deepspeed. The vision tower is frozen: the script gives it
half precision, whose gradients cannot be scaled without deepspeed. The loss must go down, and projector and language
model must differ from what they were. Hooks see where it computed.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json

import probekit
from mipha.model import MiphaPhiConfig, MiphaPhiForCausalLM, MiphaVisionConfig, ProjectorConfig
from observing import Watch, options
from probekit import DEVICE, NPROC, OUT
from ranks import spread
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import CLIPImageProcessor, PreTrainedTokenizerFast, set_seed


MODEL, DATA, RESULT = OUT / "tiny-mipha", OUT / "data", OUT / "tuned"
#: On CUDA the script scales gradients of half precision, and skips the first steps until the scale fits.
STEPS = 16
SIZE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
PARTS = {"projector": "model.mm_projector.", "language": "model.layers."}


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token a byte, and with one special token for everything, as Phi's has."""
    special = "<|endoftext|>"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(BPE({token: index for index, token in enumerate([special, *alphabet])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    named = dict.fromkeys(("bos_token", "eos_token", "unk_token"), special)
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=512, **named)


def write_inputs() -> None:
    """Write a checkpoint of random weights, and images with a request and its answer for each."""
    set_seed(0)
    tokenizer = build_tokenizer()
    tower = MiphaVisionConfig(**SIZE, projection_dim=64, image_size=32, patch_size=8, vision_model_name_or_path="clip")
    projector = ProjectorConfig(mm_projector_type="mlp2x_gelu", mm_hidden_size=64, hidden_size=64)
    vision = {"vision_tower": tower.to_dict(), "mm_projector": projector.to_dict()}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "max_position_embeddings": 512}
    config = MiphaPhiConfig(vision_config=vision, vocab_size=len(tokenizer), **ends, **SIZE)
    MiphaPhiForCausalLM(config).save_pretrained(MODEL)
    tokenizer.save_pretrained(MODEL)
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(MODEL)
    question = {"from": "human", "value": "<image>\nMake it white."}
    answer = {"from": "gpt", "value": "<image_edit>make it white</image_edit>"}
    images = probekit.write_images(DATA, 2 * NPROC * STEPS, size=(48, 32))
    samples = [{"id": image.stem, "image": image.name, "conversations": [question, answer]} for image in images]
    (DATA / "data.json").write_text(json.dumps(samples), encoding="utf-8")


def tune() -> dict[str, object]:
    """Run the script in the repository's root, as its shell script does."""
    given = options(model_name_or_path=MODEL, version="v0", data_path=DATA / "data.json", image_folder=DATA)
    given += options(tune_mm_mlp_adapter=True, freeze_vision_tower=True, freeze_backbone=False, lazy_preprocess=True)
    given += options(mm_use_im_start_end=False, mm_use_im_patch_token=False, image_aspect_ratio="pad", logging_steps=1)
    given += options(use_cpu=DEVICE == "cpu", bf16=DEVICE == "cpu", fp16=DEVICE == "cuda", output_dir=RESULT)
    given += options(max_steps=STEPS, per_device_train_batch_size=2, evaluation_strategy="no", save_strategy="no")
    given += options(learning_rate=5e-3, model_max_length=512, gradient_checkpointing=False, report_to="none")
    with Watch("CLIPVisionTower", "MiphaPhiModel") as watch:
        probekit.run_script("mipha/train/train.py", *given, "--dataloader_num_workers=0")
    return {
        "elsewhere": watch.elsewhere,
        "images": watch.calls["CLIPVisionTower"],
        "texts": watch.calls["MiphaPhiModel"],
    }


if __name__ == "__main__":
    ranks = spread(tune, before=write_inputs)
    history = json.loads((RESULT / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    losses = [entry["loss"] for entry in history if "loss" in entry]
    before, after = (MiphaPhiForCausalLM.from_pretrained(one).state_dict() for one in (MODEL, RESULT))
    # Further than rounding to half precision moves a weight.
    moved = [name for name in before if (before[name] - after[name]).abs().max().item() > 1e-3]  # noqa: PLR2004
    probekit.observe(
        ranks=len(ranks),
        images=min(rank["images"] for rank in ranks),
        texts=min(rank["texts"] for rank in ranks),
        elsewhere=max(rank["elsewhere"] for rank in ranks),
        steps=len(losses),
        loss_ratio=losses[-1] / losses[0],
        **{f"moved_{part}": sum(prefix in name for name in moved) for part, prefix in PARTS.items()},
    )
