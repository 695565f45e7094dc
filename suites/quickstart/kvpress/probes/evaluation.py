"""C1, C3 and C4 of kvpress: its own evaluation script, `evaluation/evaluate.py`, without a network.

The script loads a model, a tokenizer and a dataset by name. All three are made here, small and with fixed seeds, where
those names find them from the current folder: transformers and datasets take a local folder before a hub. kvpress
itself is run as it is.

It runs twice. Without a press its answers must be the ones that transformers' own greedy search gives for the same
model, which is what the dataset holds as the right answers. With the key-norm press at ratio 0.5 the lengths of
context and cache, which kvpress logs at level DEBUG, must show that half of the cache was dropped.

The right answers are computed on the CPU, so that nothing but kvpress touches an accelerator. C4 has `--device=auto`,
which spreads the layers of the model over the devices; two of them at least must have held some.
"""  # quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd

from __future__ import annotations

import json
import logging
import os
import random
import re
import runpy
import sys
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


REPO = Path(os.environ["RESEARCHENV_REPO"])
OUT = Path(os.environ["RESEARCHENV_OUT"])
DEVICE = os.environ["EVALUATION_DEVICE"]

MODEL = "tiny-llama"
WORDS = [f"w{index:03d}" for index in range(240)]
# More than one device has to get a share of them.
LAYERS = 8
CONTEXT_WORDS = 255
NEW_TOKENS = 8
ANSWER_PREFIX = "w001 w002"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer that has one token a word."""
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    vocabulary = {word: index for index, word in enumerate([*special.values(), *WORDS])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token=special["unk_token"]))
    backend.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=1024, **special)


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Make a Llama of random weights, wide enough apart for greedy search to have no ties."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config).eval()


@torch.inference_mode()
def greedy(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str) -> str:
    """Continue a prompt by transformers' own greedy search, without kvpress."""
    ids = tokenizer.encode(prompt, return_tensors="pt", add_special_tokens=False)
    generated = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=tokenizer.eos_token_id,
    )
    return tokenizer.decode(generated[0, ids.shape[1] :], skip_special_tokens=True)


def build_dataset(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> Dataset:
    """Make questions in the format of the RULER benchmark, with the model's own answers as the right ones."""
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    rows = []
    for task in ("niah_single_1", "vt"):
        context = " ".join(chooser.choices(WORDS, k=CONTEXT_WORDS))
        question = " ".join(chooser.choices(WORDS, k=8))
        answer = greedy(model, tokenizer, f"{tokenizer.bos_token}{context}\n{question}\n{ANSWER_PREFIX}")
        rows.append(
            {
                "context": context,
                "question": question,
                "answer_prefix": ANSWER_PREFIX,
                "answer": [answer.strip()],
                "task": task,
                "max_new_tokens": NEW_TOKENS,
            }
        )
    return Dataset.from_list(rows)


class LengthLog(logging.Handler):
    """Collects the lengths of context and cache that kvpress logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.context: list[int] = []
        self.cache: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take the number out of one message."""
        found = re.fullmatch(r"(Compressed )?Context Length: (\d+)", record.getMessage())
        if found:
            (self.cache if found[1] else self.context).append(int(found[2]))


def evaluate(press: str, ratio: float) -> LengthLog:
    """Run the evaluation script as `python evaluation/evaluate.py …` would."""
    script = REPO / "evaluation" / "evaluate.py"
    # The script takes flash attention wherever it can be imported, and that runs neither on a CPU nor in 32 bits. An
    # environment that has this extra must not fail for it, so for the script it is as if it were not installed.
    sys.modules["flash_attn"] = None
    lengths = LengthLog()
    logger = logging.getLogger("kvpress.pipeline")
    logger.addHandler(lengths)
    logger.setLevel(logging.DEBUG)
    sys.path[0] = str(script.parent)
    sys.argv = [
        str(script),
        f"--config_file={script.with_name('evaluate_config.yaml')}",
        f"--model={MODEL}",
        "--dataset=ruler",
        "--data_dir=256",
        f"--device={DEVICE}",
        f"--press_name={press}",
        f"--compression_ratio={ratio}",
        "--output_dir=results",
    ]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        logger.removeHandler(lengths)
    return lengths


def missing_devices(model: LlamaForCausalLM) -> int:
    """Tell how many more devices should have held at least one layer of the model: all of them, up to two."""
    layer = sum(weight.numel() * weight.element_size() for weight in model.model.layers[0].parameters())
    count = torch.cuda.device_count()
    used = sum(torch.cuda.max_memory_allocated(index) >= layer for index in range(count))
    return max(0, min(count, 2) - used)


def main() -> None:
    """Make the inputs, run the evaluation twice, and write down what was seen."""
    os.chdir(OUT)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    model.save_pretrained(MODEL)
    tokenizer.save_pretrained(MODEL)
    folder = Path("simonjegou/ruler/256")
    folder.mkdir(parents=True)
    build_dataset(model, tokenizer).to_parquet(folder / "test.parquet")

    plain = evaluate("no_press", 0.0)
    pressed = evaluate("knorm", 0.5)
    observed = {
        "contexts": len(pressed.context),
        "kept_without_press": sum(plain.cache) / sum(plain.context),
        "kept_with_press": sum(pressed.cache) / sum(pressed.context),
        "missing_devices": missing_devices(model),
    }
    Path("observed.json").write_text(json.dumps(observed), encoding="utf-8")
    print("observed:", observed)


if __name__ == "__main__":
    main()
