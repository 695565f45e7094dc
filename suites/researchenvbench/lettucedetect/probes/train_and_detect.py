"""C1 and C3 of LettuceDetect: train a detector with its script, then find a hallucination with what was saved.

A token classifier of the kind that the paper trains, a ModernBERT, is made here: tiny and with random weights. The
repository's own `scripts/train.py` teaches it which words are invented, on data in the format of RAGTruth and RAGBench.
The script saves the model when it gets better on held-out answers; `HallucinationDetector` loads what was saved, and
must point at exactly the invented word of an answer that was in neither set. A script that does nothing saves nothing,
and a model that learned nothing points elsewhere.

Neither the script nor the detector is told a device: they take CUDA where there is one.

researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re

import probekit
from lettucedetect import HallucinationDetector
from lettucedetect.detectors.prompt_utils import PromptUtils
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import ModernBertConfig, ModernBertForTokenClassification, PreTrainedTokenizerFast, set_seed


FACTS = [f"fact{index:02d}" for index in range(20)]
INVENTIONS = [f"invention{index:02d}" for index in range(20)]
FILLERS = ["the", "answer", "is", "and", "also"]
QUESTION = "answer the question"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token a word, which joins prompt and answer as BERT's does."""
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    template = PromptUtils.format_context(["", ""], QUESTION, "en")
    words = [word for word, _ in Whitespace().pre_tokenize_str(template)]
    everything = dict.fromkeys([*special.values(), *FACTS, *INVENTIONS, *FILLERS, *words])
    vocabulary = {word: index for index, word in enumerate(everything)}
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
    set_seed(0)
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


def write_samples(name: str, chooser: random.Random, **counts: int) -> None:
    """Write as many samples of each split as are asked for, in the repository's format."""
    samples = []
    for split, count in counts.items():
        for _ in range(count):
            passages, answer, span = make_answer(chooser)
            prompt = PromptUtils.format_context(passages, QUESTION, "en")
            sample = {"prompt": prompt, "answer": answer, "labels": [span], "split": split}
            samples.append(sample | {"task_type": "qa", "dataset": name, "language": "en"})
    (probekit.OUT / f"{name}.json").write_text(json.dumps(samples), encoding="utf-8")


def train() -> str:
    """Run the training script as `python scripts/train.py …` would, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            probekit.run_script(
                "scripts/train.py",
                "--ragtruth-path=ragtruth.json",
                "--ragbench-path=ragbench.json",
                "--model-name=untrained",
                "--output-dir=best",
                "--batch-size=8",
                "--epochs=3",
                "--learning-rate=3e-3",
            )
        finally:
            text = printed.getvalue()
    print(text)
    return text


def main() -> None:
    """Train, detect, and write down what was seen."""
    os.chdir(probekit.OUT)
    chooser = random.Random(0)  # noqa: S311 - test data, no secret
    tokenizer = build_tokenizer()
    build_model(tokenizer).save_pretrained("untrained")
    tokenizer.save_pretrained("untrained")
    # The script holds a tenth of RAGTruth's training answers out.
    write_samples("ragtruth", chooser, train=40)
    write_samples("ragbench", chooser, train=36, dev=12)
    log = train()
    losses = [float(loss) for loss in re.findall(r"Average loss: (\S+)", log)]
    before, after = load_file("untrained/model.safetensors"), load_file("best/model.safetensors")

    passages, answer, span = make_answer(chooser)
    detector = HallucinationDetector(method="transformer", model_path="best")
    found = detector.predict(context=passages, question=QUESTION, answer=answer, output_format="spans")
    tokens = detector.predict(context=passages, question=QUESTION, answer=answer, output_format="tokens")
    probekit.observe(
        epochs=len(losses),
        loss_left=losses[-1] / losses[0],
        best_f1=float(re.findall(r"Best F1 score: (\S+)", log)[-1]),
        weights_moved=sum((after[name] - before[name]).abs().sum().item() for name in before),
        spans=len(found),
        exact=[[one["start"], one["end"]] for one in found] == [[span["start"], span["end"]]],
        confidence=found[0]["confidence"] if found else 0.0,
        tokens=len(tokens),
        hallucinated_tokens=sum(token["pred"] for token in tokens),
        trained_there=re.findall(r"Starting training on (\w+)", log) == [probekit.DEVICE],
        detected_there=probekit.on_device(next(detector.detector.model.parameters())),
    )


if __name__ == "__main__":
    main()
