"""C1 and C3 of LettuceDetect: train a detector with its script, then find a hallucination with what was saved.

A ModernBERT, as in the paper, is made here, tiny and with random weights. `scripts/train.py` teaches it which words are
invented, on data in the format of RAGTruth and RAGBench, and saves it when it gets better on held-out answers.
`HallucinationDetector` loads what was saved, and must point at exactly the invented word of a new answer. Neither is
told a device: they take CUDA where there is one.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

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
from tokenizers.processors import TemplateProcessing
from transformers import ModernBertConfig, ModernBertForTokenClassification, set_seed


FACTS, INVENTIONS = ([f"{kind}{index:02d}" for index in range(20)] for kind in ("fact", "invention"))
QUESTION = "answer the question"
SIZE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
OPTIONS = """--ragtruth-path=ragtruth.json --ragbench-path=ragbench.json --model-name=untrained --output-dir=best
--batch-size=8 --epochs=3 --learning-rate=3e-3"""
chooser = random.Random(0)  # noqa: S311 - test data, no secret


def build_model() -> None:
    """Make a ModernBERT of random weights, with a tokenizer of words, which joins prompt and answer as BERT's does."""
    words = re.findall(r"\w+|[^\w\s]+", PromptUtils.format_context(["", ""], QUESTION, "en"))
    words = dict.fromkeys([*FACTS, *INVENTIONS, "the", "answer", "is", "and", "also", *words])
    tokenizer = probekit.word_tokenizer(list(words))
    joined = {"single": "<s> $A </s>", "pair": "<s> $A </s> $B </s>", "special_tokens": [("<s>", 1), ("</s>", 2)]}
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(**joined)
    tokenizer.save_pretrained("untrained")
    set_seed(0)
    ids = {"bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2, "pad_token_id": 3}
    # Of transformers 4: compiling takes a C compiler, Python's headers, and longer than all the rest.
    others = {"vocab_size": len(tokenizer), "max_position_embeddings": 512, "reference_compile": False}
    ModernBertForTokenClassification(ModernBertConfig(**SIZE, **ids, **others)).save_pretrained("untrained")


def make_answer() -> tuple[list[str], str, dict[str, object]]:
    """Make passages, an answer of which one word is invented, and where that word stands."""
    facts, invention = chooser.sample(FACTS, 4), chooser.choice(INVENTIONS)
    told = [facts[0], facts[2]]
    told.insert(chooser.randrange(3), invention)
    answer = f"the answer is {told[0]} and {told[1]} and also {told[2]}"
    start = answer.index(invention)
    span = {"start": start, "end": start + len(invention), "label": "invented"}
    return [" ".join(facts[:2]), " ".join(facts[2:])], answer, span


def write_samples(name: str, **counts: int) -> None:
    """Write as many samples of each split as are asked for, in the repository's format."""
    samples, kind = [], {"task_type": "qa", "dataset": name, "language": "en"}
    for split in (split for split, count in counts.items() for _ in range(count)):
        passages, answer, span = make_answer()
        prompt = PromptUtils.format_context(passages, QUESTION, "en")
        samples.append({"prompt": prompt, "answer": answer, "labels": [span], "split": split, **kind})
    (probekit.OUT / f"{name}.json").write_text(json.dumps(samples), encoding="utf-8")


if __name__ == "__main__":
    os.chdir(probekit.OUT)
    build_model()
    # The script holds a tenth of RAGTruth's training answers out.
    write_samples("ragtruth", train=40)
    write_samples("ragbench", train=36, dev=12)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        probekit.run_script("scripts/train.py", *OPTIONS.split())
    log = printed.getvalue()
    losses = [float(loss) for loss in re.findall(r"Average loss: (\S+)", log)]
    passages, answer, span = make_answer()
    detector = HallucinationDetector(method="transformer", model_path="best")
    asked = {"context": passages, "question": QUESTION, "answer": answer}
    found, tokens = (detector.predict(**asked, output_format=form) for form in ("spans", "tokens"))
    before, after = load_file("untrained/model.safetensors"), load_file("best/model.safetensors")
    probekit.observe(
        sizes=re.findall(r"Training samples: \d+, Test samples: \d+", log)[-1],
        epochs=len(losses),
        loss_left=losses[-1] / losses[0],
        best_f1=float(re.findall(r"Best F1 score: (\S+)", log)[-1]),
        weights_moved=sum((after[name] - before[name]).abs().sum().item() for name in before),
        exact=[[one["start"], one["end"]] for one in found] == [[span["start"], span["end"]]],
        confidence=max((one["confidence"] for one in found), default=0.0),
        tokens=len(tokens),
        hallucinated_tokens=sum(token["pred"] for token in tokens),
        trained_there=re.findall(r"Starting training on (\w+)", log) == [probekit.DEVICE],
        detected_there=probekit.on_device(next(detector.detector.model.parameters())),
    )
