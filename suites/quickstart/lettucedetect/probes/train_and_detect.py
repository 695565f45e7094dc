"""C1 and C3 of LettuceDetect: train a detector with its trainer, then find a hallucination with its command line.

A token classifier of the kind that the paper trains, a ModernBERT, is made here: tiny and with random weights. With
`lettucedetect.models.trainer`, as the repository's training script uses it (the sdist does not hold that script), it
learns which words are invented. The trainer saves the model when it gets better on held-out answers; the command line
loads what was saved, and must point at exactly the invented word of an answer that was in neither set.

Neither the trainer nor the command line is told a device: they take CUDA where there is one.
"""  # quickstart canary 569aaf7d-14da-4161-9027-b7039039a2dd

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import runpy
import sys
from pathlib import Path

import torch
from lettucedetect import HallucinationDataset, HallucinationDetector, HallucinationSample
from lettucedetect.detectors.prompt_utils import PromptUtils
from lettucedetect.models.trainer import Trainer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch.utils.data import DataLoader
from transformers import (
    DataCollatorForTokenClassification,
    ModernBertConfig,
    ModernBertForTokenClassification,
    PreTrainedTokenizerFast,
)


OUT = Path(os.environ["RESEARCHENV_OUT"])
DEVICE = os.environ["RESEARCHENV_DEVICE"]

FACTS = [f"fact{index:02d}" for index in range(20)]
INVENTIONS = [f"invention{index:02d}" for index in range(20)]
FILLERS = ["the", "answer", "is", "and", "also"]
QUESTION = "answer the question"
BEST = "best"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token a word, which joins prompt and answer as BERT's does."""
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    template = PromptUtils.format_context(["", ""], QUESTION, "en")
    words = dict.fromkeys(word for word, _ in Whitespace().pre_tokenize_str(template))
    vocabulary = {word: index for index, word in enumerate([*special.values(), *FACTS, *INVENTIONS, *FILLERS])}
    for word in words:
        vocabulary.setdefault(word, len(vocabulary))
    backend = Tokenizer(WordLevel(vocabulary, unk_token=special["unk_token"]))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=512, **special)


def build_model(tokenizer: PreTrainedTokenizerFast) -> ModernBertForTokenClassification:
    """Make a ModernBERT of random weights."""
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        num_labels=2,
        # Of transformers 4: compiling takes a C compiler, Python's headers, and longer than all the rest.
        reference_compile=False,
    )
    return ModernBertForTokenClassification(config)


def make_answer(chooser: random.Random) -> tuple[list[str], str, dict[str, object]]:
    """Make passages, an answer of which one word is invented, and where that word stands."""
    facts = chooser.sample(FACTS, 4)
    invention = chooser.choice(INVENTIONS)
    told = [facts[0], facts[2]]
    told.insert(chooser.randrange(3), invention)
    answer = f"the answer is {told[0]} and {told[1]} and also {told[2]}"
    start = answer.index(invention)
    span = {"start": start, "end": start + len(invention), "label": "invented"}
    return [" ".join(facts[:2]), " ".join(facts[2:])], answer, span


def make_loader(tokenizer: PreTrainedTokenizerFast, chooser: random.Random, count: int) -> DataLoader:
    """Make samples in the form that the repository trains on."""
    samples = []
    for _ in range(count):
        passages, answer, span = make_answer(chooser)
        prompt = PromptUtils.format_context(passages, QUESTION, "en")
        samples.append(HallucinationSample(prompt, answer, [span], "train", "qa", "made here", "en"))
    dataset = HallucinationDataset(samples, tokenizer, max_length=512)
    collator = DataCollatorForTokenClassification(tokenizer=tokenizer, label_pad_token_id=-100)
    return DataLoader(dataset, batch_size=8, collate_fn=collator)


def detect(passages: list[str], answer: str) -> list[dict[str, object]]:
    """Run the console script's module as `python -m lettucedetect.cli …` would, and read what it prints."""
    sys.argv = ["lettucedetect", f"--model={BEST}", "--context=" + "\n\n".join(passages), f"--answer={answer}"]
    sys.argv += [f"--question={QUESTION}", "--format=spans"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_module("lettucedetect.cli", run_name="__main__")
    return json.loads(printed.getvalue())


def main() -> None:
    """Train, detect, and write down what was seen."""
    os.chdir(OUT)
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    untrained = sum(parameter.abs().sum().item() for parameter in model.parameters())
    trainer = Trainer(
        model=model,
        tokenizer=tokenizer,
        train_loader=make_loader(tokenizer, chooser, 64),
        test_loader=make_loader(tokenizer, chooser, 16),
        epochs=4,
        learning_rate=3e-3,
        save_path=BEST,
    )
    best_f1 = trainer.train()
    trained = sum(parameter.abs().sum().item() for parameter in model.parameters())

    passages, answer, span = make_answer(chooser)
    found = detect(passages, answer)
    detector = HallucinationDetector(method="transformer", model_path=BEST)
    tokens = detector.predict(context=passages, question=QUESTION, answer=answer, output_format="tokens")
    observed = {
        "best_f1": best_f1,
        "weights_moved": abs(trained - untrained),
        "spans": len(found),
        "exact": [[one["start"], one["end"]] for one in found] == [[span["start"], span["end"]]],
        "confidence": found[0]["confidence"] if found else 0.0,
        "tokens": len(tokens),
        "hallucinated_tokens": sum(token["pred"] for token in tokens),
        "trained_there": trainer.device.type == next(model.parameters()).device.type == DEVICE,
        "detected_there": next(detector.detector.model.parameters()).device.type == DEVICE,
    }
    Path("observed.json").write_text(json.dumps(observed), encoding="utf-8")
    print("observed:", observed)


if __name__ == "__main__":
    main()
