"""C1, C3 and C4 of Texo: its training script, `src/train.py`, on formulas written here.

The model is the repository's own, smaller and with random weights. The metric `bleu`, which the script loads by name,
lies in the current folder, where `evaluate` looks before it asks a hub. Hooks note what the cross entropy got and gave,
and the weights at every step: the loss is computed anew from the logits and must fall, the weights must change at every
step and be equal on all ranks while their formulas differ.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import io
import operator
import os
import random

import torch
from datasets import Dataset
from observing import Watch, fingerprint
from PIL import Image, ImageDraw
from probekit import DEVICE, NPROC, OUT, REPO, observe, run_script
from ranks import spread


#: Samples of a rank's step, and its steps in each of two epochs.
BATCH, BATCHES = 2, 3
IGNORED = -100
METRIC = """
import datasets
import evaluate

class Bleu(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(description="Never asked: nothing is validated", citation="", features=features)
"""
#: The script's own configuration, with a model that has fewer channels, layers and pixels.
SETTINGS = f"""
hydra.run.dir={OUT}/run model=formulanet-S-distill-transfer model.pretrained='' training.optimizer.lr=1e-3
model.tokenizer_path={REPO}/data/tokenizer data.text_processor.tokenizer_path={REPO}/data/tokenizer
data.train_dataset_path={OUT}/formulas data.eval_dataset_path={OUT}/formulas data.train_batch_size={BATCH}
data.num_workers=1 training.lr_scheduler.num_warmup_steps=0 trainer.max_epochs=2 trainer.precision=32-true
trainer.accelerator={"gpu" if DEVICE == "cuda" else "cpu"} trainer.devices={NPROC}
+trainer.strategy={"ddp" if NPROC > 1 else "auto"} trainer.log_every_n_steps=1 trainer.val_check_interval=null
+trainer.limit_val_batches=0.0 trainer.callbacks=[] model.encoder.stem_channels=[3,16,24]
data.image_processor.image_size.width=128 data.image_processor.image_size.height=128
model.encoder.stage_config.stage1=[24,16,32,1,3,3,false,false]
model.encoder.stage_config.stage2=[32,24,64,1,3,3,true,false]
model.encoder.stage_config.stage3=[64,32,128,1,3,5,true,true]
model.encoder.stage_config.stage4=[128,64,256,1,3,5,true,true] model.encoder.hidden_size=256
model.decoder.d_model=128 model.decoder.decoder_attention_heads=4 model.decoder.decoder_ffn_dim=512
"""


def write_inputs() -> None:
    """Write the metric, and formulas with their images in the format of the repository's data sets."""
    (OUT / "bleu").mkdir()
    (OUT / "bleu" / "bleu.py").write_text(METRIC, encoding="utf-8")
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    rows = []
    for _ in range(BATCH * BATCHES * NPROC):
        text = " ".join(chooser.choices(["x", "y", "z", "+", "-", "=", "1", "2", "\\alpha", "\\beta"], k=12))
        image, file = Image.new("RGB", (240, 60), "white"), io.BytesIO()
        ImageDraw.Draw(image).text((20, 20), text.replace("\\", ""), fill="black")
        image.save(file, "PNG")
        rows.append({"image": file.getvalue(), "text": text})
    Dataset.from_list(rows).save_to_disk(str(OUT / "formulas"))


def train() -> dict[str, object]:
    """Run the script, as one rank, and note what the loss saw."""
    steps: list[dict] = []

    def note(module: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        if type(module).__name__ == "FormulaNet":
            steps[-1]["weights"] = fingerprint(module)
            return
        logits, labels = inputs[0].detach().double(), inputs[1].view(-1)
        chosen = logits.view(len(labels), -1).log_softmax(-1)[labels != IGNORED]
        expected = -chosen.gather(1, labels[labels != IGNORED, None]).mean().item()
        steps.append({"loss": output.item(), "error": abs(output.item() - expected), "labels": labels.tolist()})

    with Watch("CrossEntropyLoss", "FormulaNet", note=note) as watch:
        run_script("src/train.py", *SETTINGS.split())
    return {"steps": steps, "elsewhere": watch.elsewhere}


if __name__ == "__main__":
    os.chdir(OUT)
    ranks = spread(train, before=write_inputs)
    runs = [rank["steps"] for rank in ranks]
    weights = [[step["weights"] for step in run] for run in runs]
    steps = [step for run in runs for step in run]
    observe(
        ranks=len(ranks),
        steps=min(map(len, runs)),
        elsewhere=sum(rank["elsewhere"] for rank in ranks),
        loss_error=max(step["error"] for step in steps),
        first_loss=runs[0][0]["loss"],
        loss_ratio=runs[0][-1]["loss"] / runs[0][0]["loss"],
        tokens=min(sum(label != IGNORED for label in step["labels"]) for step in steps),
        steps_without_change=sum(map(operator.eq, weights[0], weights[0][1:])),
        ranks_out_of_step=sum(other != weights[0] for other in weights),
        ranks_with_equal_formulas=sum(run[0]["labels"] == runs[0][0]["labels"] for run in runs[1:]),
    )
