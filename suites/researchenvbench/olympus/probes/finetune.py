"""C1, C3 and C4 of Olympus: its script `mipha/train/train.py` tunes a tiny vision-language model.

The model is made of the repository's own classes, with random weights: the language model of Phi, the vision tower of
CLIP, and the projector between them. It learns to answer a request about an image by a routing token, as in the paper.
The script is run as it is, with the arguments of its own shell script but those for deepspeed; in C4 by torchrun, as
ranks of one process group. The vision tower is frozen: the script gives it half precision, whose gradients cannot be
scaled without deepspeed. The loss must go down, and in what the script saved, projector and language model must differ
from what they were. Hooks of torch see where it computed.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import json
import os

import probekit
import torch
from mipha.model import MiphaPhiConfig, MiphaPhiForCausalLM, MiphaVisionConfig, ProjectorConfig
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import CLIPImageProcessor, PreTrainedTokenizerFast


RANK = int(os.environ.get("RANK", "0"))
MODEL = probekit.OUT / "tiny-mipha"
DATA = probekit.OUT / "data"
RESULT = probekit.OUT / "tuned"
#: On CUDA the script scales gradients of half precision, and skips the first steps until the scale fits.
STEPS = 16
# Further than rounding to half precision moves a weight.
MOVED = 1e-3


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token a byte, and with one special token for everything, as Phi's has."""
    special = "<|endoftext|>"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(BPE({token: index for index, token in enumerate([special, *alphabet])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=special, eos_token=special, unk_token=special, model_max_length=512
    )


def write_model() -> None:
    """Write a checkpoint of random weights, with its tokenizer and its image processor."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    tower = MiphaVisionConfig(**size, projection_dim=64, image_size=32, patch_size=8, vision_model_name_or_path="clip")
    projector = ProjectorConfig(mm_projector_type="mlp2x_gelu", mm_hidden_size=64, hidden_size=64)
    config = MiphaPhiConfig(
        vision_config={"vision_tower": tower.to_dict(), "mm_projector": projector.to_dict()},
        vocab_size=len(tokenizer),
        max_position_embeddings=512,
        bos_token_id=0,
        eos_token_id=0,
        **size,
    )
    MiphaPhiForCausalLM(config).save_pretrained(MODEL)
    tokenizer.save_pretrained(MODEL)
    side = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=side).save_pretrained(MODEL)


def write_data() -> None:
    """Write images, and for each a request with its answer."""
    samples = []
    for index, image in enumerate(probekit.write_images(DATA, 2 * probekit.NPROC * STEPS, size=(48, 32))):
        question = {"from": "human", "value": "<image>\nMake it white."}
        answer = {"from": "gpt", "value": "<image_edit>make it white</image_edit>"}
        samples.append({"id": str(index), "image": image.name, "conversations": [question, answer]})
    (DATA / "data.json").write_text(json.dumps(samples), encoding="utf-8")


class Watch:
    """Sees where the parts of the model compute."""

    def __init__(self) -> None:
        self.seen = {"CLIPVisionTower": 0, "MiphaPhiModel": 0}
        self.elsewhere = 0

    def __call__(self, module: torch.nn.Module, _inputs: object, output: object) -> None:
        """Be a forward hook of every module."""
        name = type(module).__name__
        if name in self.seen:
            result = output if isinstance(output, torch.Tensor) else output[0]
            self.seen[name] += 1
            self.elsewhere += not (probekit.on_device(result) and probekit.finite(result))


def run_rank() -> None:
    """Run the script in the repository's root, as its shell script does, and write down what was seen."""
    watch = Watch()
    arguments = {
        "model_name_or_path": MODEL,
        "version": "v0",
        "data_path": DATA / "data.json",
        "image_folder": DATA,
        "tune_mm_mlp_adapter": True,
        "freeze_vision_tower": True,
        "freeze_backbone": False,
        "mm_use_im_start_end": False,
        "mm_use_im_patch_token": False,
        "image_aspect_ratio": "pad",
        "use_cpu": probekit.DEVICE == "cpu",
        "bf16": probekit.DEVICE == "cpu",
        "fp16": probekit.DEVICE == "cuda",
        "output_dir": RESULT,
        "max_steps": STEPS,
        "per_device_train_batch_size": 2,
        "evaluation_strategy": "no",
        "save_strategy": "no",
        "learning_rate": 5e-3,
        "logging_steps": 1,
        "model_max_length": 512,
        "gradient_checkpointing": False,
        "dataloader_num_workers": 0,
        "lazy_preprocess": True,
        "report_to": "none",
    }
    with torch.nn.modules.module.register_module_forward_hook(watch):
        probekit.run_script("mipha/train/train.py", *(f"--{name}={value}" for name, value in arguments.items()))
    seen = {"images": watch.seen["CLIPVisionTower"], "texts": watch.seen["MiphaPhiModel"], "elsewhere": watch.elsewhere}
    (probekit.OUT / f"rank-{RANK}.json").write_text(json.dumps(seen), encoding="utf-8")


def main() -> None:
    """Be a rank, or make the inputs, start the ranks, and write down what came out."""
    if "RANK" in os.environ:
        run_rank()
        return
    write_model()
    write_data()
    if probekit.NPROC > 1:
        probekit.run_ranks(__file__)
    else:
        run_rank()
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(probekit.OUT.glob("rank-*.json"))]
    history = json.loads((RESULT / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    losses = [entry["loss"] for entry in history if "loss" in entry]
    before = MiphaPhiForCausalLM.from_pretrained(MODEL).state_dict()
    after = MiphaPhiForCausalLM.from_pretrained(RESULT).state_dict()
    parts = {"projector": "model.mm_projector.", "language": "model.layers."}
    moved = {
        f"moved_{part}": sum((before[key] - after[key]).abs().max().item() > MOVED for key in before if prefix in key)
        for part, prefix in parts.items()
    }
    probekit.observe(
        ranks=len(ranks),
        images=min(rank["images"] for rank in ranks),
        texts=min(rank["texts"] for rank in ranks),
        elsewhere=max(rank["elsewhere"] for rank in ranks),
        steps=len(losses),
        loss_ratio=losses[-1] / losses[0],
        **moved,
    )


if __name__ == "__main__":
    main()
