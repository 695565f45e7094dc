"""C3 and C4 of SpecForge: `scripts/train_eagle3.py` trains a draft model online, with a tiny target made here.

Target (a Qwen2 with random weights), tokenizer and conversations are written here. Each loss, from the repository's own
kernel, is computed anew from the logits of both models, and must fall. The draft's weights must change and be the same
on all ranks at every step, while their conversations differ.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import random

import extensions
import torch
from observing import Watch, fingerprint, told
from probekit import NPROC, OUT, observe, on_device, run_script, word_tokenizer
from ranks import be_a_rank, in_step, spread
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


SIZE = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
DRAFT_VOCABULARY, TURNS, CHATS, EPOCHS = 48, 3, 8, 5


def write_inputs() -> None:
    """Write target, tokenizer, the draft's configuration and conversations, as many for each rank."""
    from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: PLC0415 - where it is missing, this is what fails

    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    words = [f"word{index}" for index in range(60)]
    tokenizer = word_tokenizer([*words, "<|", "|>", "im_start", "im_end", "user", "assistant"])
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=len(tokenizer), num_hidden_layers=8, initializer_range=0.2, **SIZE)
    Qwen2ForCausalLM(config).save_pretrained(OUT / "target")
    tokenizer.save_pretrained(OUT / "target")
    draft = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1, **SIZE}
    draft |= {"vocab_size": len(tokenizer), "draft_vocab_size": DRAFT_VOCABULARY, "max_position_embeddings": 128}
    (OUT / "draft.json").write_text(json.dumps(draft | {"pad_token_id": 0}), encoding="utf-8")
    lines = []
    for _ in range(CHATS * NPROC):
        ask, answer = (" ".join(chooser.choices(words, k=20)) for _ in range(2))
        text = f"<|im_start|>user\n{ask}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
        lines.append(json.dumps({"text": text}))
    (OUT / "chats.jsonl").write_text("\n".join(lines), encoding="utf-8")


def train() -> dict[str, object]:
    """Run the script as one rank, and note what the draft model was given and said."""
    extensions.require("sgl_kernel", distribution="sgl-kernel")
    steps, said = [], []

    def tell(model: torch.nn.Module, _: tuple, options: dict, output: tuple) -> None:
        known, target = model.draft_model.t2d, options["target"]
        mask, share = known[target.argmax(-1)] * options["loss_mask"][..., 0], target[..., known].double().softmax(-1)
        wanted = []
        for turn, logarithms in enumerate(said):
            masks, shares = F.pad(mask, (0, turn))[:, turn:], F.pad(share, (0, 0, 0, turn))[:, turn:]
            wanted.append(-(masks * (shares * logarithms).sum(-1)).mean().item())
        values = {"losses": torch.stack(output[0]).tolist(), "wanted": wanted, "there": on_device(target)}
        values |= {"weights": fingerprint(model.draft_model), "chats": options["input_ids"].sum(1).tolist()}
        steps.append(values | {"each": wanted[0] / mask.double().mean().item()})
        said.clear()

    def note(_: torch.nn.Module, _inputs: tuple, output: torch.Tensor) -> None:
        if output.shape[-1] == DRAFT_VOCABULARY:
            said.append(output.detach().double().log_softmax(-1))  # The loss overwrites the logits.

    be_a_rank()
    told("OnlineEagle3Model", tell)
    paths = {"--target-model-path": "target", "--draft-model-config": "draft.json", "--train-data-path": "chats.jsonl"}
    paths |= {"--cache-dir": "cache", "--output-dir": "run"}
    numbers = {"--ttt-length": TURNS, "--batch-size": 2, "--num-epochs": EPOCHS, "--save-interval": CHATS // 2 * EPOCHS}
    numbers |= {"--max-length": 64, "--learning-rate": 2e-3, "--warmup-ratio": 0, "--max-grad-norm": 5}
    numbers |= {"--log-interval": 1, "--build-dataset-num-proc": 1, "--dataloader-num-workers": 0}
    options = {name: OUT / path for name, path in paths.items()} | numbers
    options |= {"--target-model-backend": "hf", "--attention-backend": "sdpa", "--chat-template": "qwen"}
    with extensions.explained("triton"), Watch("Linear", note=note):
        run_script("scripts/train_eagle3.py", "--is-preformatted", *(part for pair in options.items() for part in pair))
    return {"steps": steps}


if __name__ == "__main__":
    ranks = [rank["steps"] for rank in spread(train, before=write_inputs)]
    notes = [step for steps in ranks for step in steps]
    pairs = [pair for step in notes for pair in zip(step["losses"], step["wanted"], strict=True)]
    values = {"ranks": len(ranks), "steps": min(map(len, ranks)), "losses": len(pairs) // len(notes)}
    # An epoch's steps are compared with another's: batches differ.
    each, epoch = [step["each"] for step in ranks[0]], CHATS // 2
    values |= {"loss_ratio": sum(each[-epoch:]) / sum(each[:epoch])}
    observe(**values, there=all(step["there"] for step in notes))
    observe(loss_error=max(abs(loss - wanted) / wanted for loss, wanted in pairs))
    observe(**in_step([[step["weights"] for step in steps] for steps in ranks]))
    observe(ranks_with_equal_chats=sum(other[0]["chats"] == ranks[0][0]["chats"] for other in ranks[1:]))
