"""C1, C3 and C4 of kvpress: its own evaluation script, `evaluation/evaluate.py`, unchanged and without a network.

Model, tokenizer and dataset are made here, small, where the names that the script gets find them in the current folder.
It runs twice. Without a press its answers must be those of transformers' own greedy search, computed on the CPU. With
the key-norm press at ratio 0.5, the lengths that kvpress logs must show that half of the cache was dropped. C4 has
`--device=auto`, which spreads the model's layers over the devices; two of them at least must have held some.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import logging
import os
import random
import sys
from pathlib import Path

import probekit
import torch
from datasets import Dataset
from observing import logged
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


WORDS = [f"w{index:03d}" for index in range(240)]
NEW_TOKENS = 8
PREFIX = "w001 w002"
# More than one device has to get a share of the layers.
SIZE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4}
OPTIONS = f"""--config_file={probekit.REPO}/evaluation/evaluate_config.yaml --dataset=ruler --data_dir=256
--model=tiny-llama --output_dir=results --device={os.environ["EVALUATION_DEVICE"]}"""


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Make a Llama of random weights, wide enough apart for greedy search to have no ties."""
    torch.manual_seed(0)
    ids = {"vocab_size": len(tokenizer), "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    cache = {"num_key_value_heads": 2, "max_position_embeddings": 1024}
    return LlamaForCausalLM(LlamaConfig(**SIZE, **ids, **cache, initializer_range=0.2)).eval()


@torch.inference_mode()
def greedy(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompt: str) -> str:
    """Continue a prompt by transformers' own greedy search, without kvpress."""
    ids = tokenizer.encode(prompt, return_tensors="pt", add_special_tokens=False)
    settings = {"do_sample": False, "max_new_tokens": NEW_TOKENS, "pad_token_id": tokenizer.pad_token_id}
    generated = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    return tokenizer.decode(generated[0, ids.shape[1] :], skip_special_tokens=True).strip()


def write_dataset(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write questions in the format of the RULER benchmark, with the model's own answers as the right ones."""
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    rows = []
    for task in ("niah_single_1", "vt"):
        context, question = (" ".join(chooser.choices(WORDS, k=count)) for count in (255, 8))
        answer = greedy(model, tokenizer, f"{tokenizer.bos_token}{context}\n{question}\n{PREFIX}")
        row = {"context": context, "question": question, "answer_prefix": PREFIX, "answer": [answer], "task": task}
        rows.append(row | {"max_new_tokens": NEW_TOKENS})
    Path("simonjegou/ruler/256").mkdir(parents=True)
    Dataset.from_list(rows).to_parquet("simonjegou/ruler/256/test.parquet")


def evaluate(*press: str) -> tuple[list[float], list[float]]:
    """Run the evaluation script as `python evaluation/evaluate.py …` would; return lengths of contexts and caches."""
    with logged("kvpress.pipeline", r"Context Length: (\d+)", logging.DEBUG) as lengths:
        probekit.run_script("evaluation/evaluate.py", *OPTIONS.split(), *press)
    return lengths[::2], lengths[1::2]


def missing_devices(model: LlamaForCausalLM) -> int:
    """Tell how many more devices should have held at least one layer of the model: all of them, up to two."""
    layer = sum(weight.numel() * weight.element_size() for weight in model.model.layers[0].parameters())
    count = torch.cuda.device_count()
    used = sum(torch.cuda.max_memory_allocated(index) >= layer for index in range(count))
    return max(0, min(count, 2) - used)


if __name__ == "__main__":
    os.chdir(probekit.OUT)
    tokenizer = probekit.word_tokenizer(WORDS)
    model = build_model(tokenizer)
    model.save_pretrained("tiny-llama")
    tokenizer.save_pretrained("tiny-llama")
    write_dataset(model, tokenizer)
    # The script takes flash attention wherever it can be imported, and that runs neither on a CPU nor in 32 bits. An
    # environment that has this extra must not fail for it, so for the script it is as if it were not installed.
    sys.modules["flash_attn"] = None
    lengths, all_kept = evaluate("--press_name=no_press", "--compression_ratio=0.0")
    pressed, kept = evaluate("--press_name=knorm", "--compression_ratio=0.5")
    probekit.observe(
        contexts=len(pressed),
        kept_without_press=sum(all_kept) / sum(lengths),
        kept_with_press=sum(kept) / sum(pressed),
        missing_devices=missing_devices(model),
    )
