"""C1, C3 and C4 of Texo: its training script, `src/train.py`, on formulas written here.

The model is the repository's own, only smaller and with random weights. The script loads the metric `bleu` by name as
soon as it is imported; one is put where that name finds it, in the current folder: `evaluate` looks there before it
asks a hub.

A hook of torch looks on, and changes nothing: at every step it notes what went into the cross entropy and what came
out, and a fingerprint of the weights. The loss is computed anew from the logits, it must fall, the weights must change
at every step and, with several ranks, be equal on all of them while their formulas differ.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import io
import json
import os
import random
from typing import TYPE_CHECKING

from probekit import DEVICE, NPROC, OUT, REPO, observe, run_ranks, run_script


if TYPE_CHECKING:
    import torch

#: C4 has several ranks, the other tiers have this process alone.
RANKS = NPROC if os.environ.get("RANKS") == "all" else 1
BATCH = 2
#: Per rank, in each of two epochs.
BATCHES = 3
STEPS = 2 * BATCHES
IGNORED = -100

#: The configuration's model with fewer channels and layers, and its images with fewer pixels.
SMALLER = [
    "data.image_processor.image_size.width=128",
    "data.image_processor.image_size.height=128",
    "model.encoder.stem_channels=[3,16,24]",
    "model.encoder.stage_config.stage1=[24,16,32,1,3,3,false,false]",
    "model.encoder.stage_config.stage2=[32,24,64,1,3,3,true,false]",
    "model.encoder.stage_config.stage3=[64,32,128,1,3,5,true,true]",
    "model.encoder.stage_config.stage4=[128,64,256,1,3,5,true,true]",
    "model.encoder.hidden_size=256",
    "model.decoder.d_model=128",
    "model.decoder.decoder_attention_heads=4",
    "model.decoder.decoder_ffn_dim=512",
]

BLEU = '''
"""BLEU of whole strings, up to four words, without smoothing."""
import math
from collections import Counter

import datasets
import evaluate


class Bleu(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(description="BLEU", citation="", features=features)

    def _compute(self, predictions, references, tokenizer):
        pairs = [(tokenizer(one), tokenizer(other)) for one, other in zip(predictions, references)]
        logarithms = 0.0
        for order in range(1, 5):
            grams = [[Counter(zip(*(words[i:] for i in range(order)))) for words in pair] for pair in pairs]
            found = sum((one & other).total() for one, other in grams)
            if not found:
                return {"bleu": 0.0}
            logarithms += math.log(found / sum(one.total() for one, _ in grams)) / 4
        ratio = sum(len(other) for _, other in pairs) / sum(len(one) for one, _ in pairs)
        return {"bleu": math.exp(logarithms + min(0.0, 1 - ratio))}
'''


def write_inputs() -> None:
    """Write the metric, and formulas with their images in the format of the repository's data sets."""
    from datasets import Dataset  # noqa: PLC0415 - what the environment lacks must fail where it is needed
    from PIL import Image, ImageDraw  # noqa: PLC0415 - likewise

    (OUT / "bleu").mkdir()
    (OUT / "bleu" / "bleu.py").write_text(BLEU, encoding="utf-8")
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    rows = []
    for _ in range(BATCH * BATCHES * RANKS):
        text = " ".join(chooser.choices(["x", "y", "z", "+", "-", "=", "1", "2", "\\alpha", "\\beta"], k=12))
        image = Image.new("RGB", (240, 60), "white")
        ImageDraw.Draw(image).text((20, 20), text.replace("\\", ""), fill="black")
        file = io.BytesIO()
        image.save(file, "PNG")
        rows.append({"image": file.getvalue(), "text": text})
    Dataset.from_list(rows).save_to_disk(str(OUT / "formulas"))


def train() -> None:
    """Run the script, as one rank, and note what the loss saw."""
    import torch  # noqa: PLC0415 - what the environment lacks must fail where it is needed

    steps: list[dict[str, object]] = []

    def note(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if type(module).__name__ == "CrossEntropyLoss":
            logits, labels = inputs
            labels = labels.view(-1)
            chosen = logits.detach().double().view(len(labels), -1).log_softmax(-1)[labels != IGNORED]
            expected = -chosen.gather(1, labels[labels != IGNORED, None]).mean()
            note = {"loss": output.item(), "expected": expected.item(), "device": logits.device.type}
            steps.append(note | {"labels": labels.tolist()})
        if type(module).__name__ == "FormulaNet":
            steps[-1]["weights"] = [weight.detach().double().sum().item() for weight in module.parameters()]

    torch.nn.modules.module.register_module_forward_hook(note)
    run_script(
        "src/train.py",
        f"hydra.run.dir={OUT / 'run'}",
        "model=formulanet-S-distill-transfer",
        f"model.tokenizer_path={REPO / 'data' / 'tokenizer'}",
        f"data.text_processor.tokenizer_path={REPO / 'data' / 'tokenizer'}",
        "model.pretrained=''",
        f"data.train_dataset_path={OUT / 'formulas'}",
        f"data.eval_dataset_path={OUT / 'formulas'}",
        *SMALLER,
        f"data.train_batch_size={BATCH}",
        "data.num_workers=1",
        "training.optimizer.lr=1e-3",
        "training.lr_scheduler.num_warmup_steps=0",
        f"trainer.accelerator={'gpu' if DEVICE == 'cuda' else 'cpu'}",
        f"trainer.devices={RANKS}",
        f"+trainer.strategy={'ddp' if RANKS > 1 else 'auto'}",
        "trainer.precision=32-true",
        "trainer.max_epochs=2",
        "trainer.log_every_n_steps=1",
        "trainer.val_check_interval=null",
        "+trainer.limit_val_batches=0.0",
        "trainer.callbacks=[]",
    )
    (OUT / f"rank-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(steps), encoding="utf-8")


def compare(ranks: list[list[dict]]) -> None:
    """Hold the ranks' notes against plain torch, and against each other."""
    notes = [note for steps in ranks for note in steps]
    weights = [[note["weights"] for note in steps] for steps in ranks]
    observe(
        ranks=len(ranks),
        steps=min(len(steps) for steps in ranks),
        on_other_devices=sum(note["device"] != DEVICE for note in notes),
        loss_error=max(abs(note["loss"] - note["expected"]) for note in notes),
        first_loss=ranks[0][0]["loss"],
        loss_ratio=ranks[0][-1]["loss"] / ranks[0][0]["loss"],
        tokens=min(sum(label != IGNORED for label in note["labels"]) for note in notes),
        steps_without_change=sum(weights[0][step] == weights[0][step - 1] for step in range(1, len(weights[0]))),
        ranks_out_of_step=sum(other != weights[0] for other in weights[1:]),
        ranks_with_equal_formulas=sum(other[0]["labels"] == ranks[0][0]["labels"] for other in ranks[1:]),
    )


def main() -> None:
    """Be a rank, or write the formulas, run the ranks, and look at what they noted."""
    os.chdir(OUT)
    if "RANK" in os.environ:
        train()
        return
    write_inputs()
    if RANKS > 1:
        run_ranks(__file__)
    else:
        train()
    compare([json.loads((OUT / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS)])


if __name__ == "__main__":
    main()
