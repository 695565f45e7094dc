"""C3 and C4 of chitu: its offline benchmark, `benchmarks/benchmark_offline.py`, unchanged, on one rank or on all.

The script loads a tiny Qwen2 of random weights and continues one prompt, with tensor parallelism in C4. It samples; the
output layer is scaled so that the best token is all but certain. A hook notes which tokens the embedding is given, as
they are fed back; it writes at once, since the script ends by replacing its own process.

After the prompt every token must be the best one, up to the rounding of 16 bits, for transformers' Qwen2 of the same
weights in 32 bits on the CPU. A token picked at random is off by several standard deviations of the logits.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import json
import os

import torch
from extensions import explained, require
from probekit import DEVICE, NPROC, OUT, observe, run_ranks, run_script, token_batch, word_tokenizer
from transformers import Qwen2Config, Qwen2ForCausalLM


VOCABULARY, LENGTH = 512, 12
PROMPT = (token_batch(1, LENGTH, vocabulary=VOCABULARY - 4)[0] + 4).tolist()
#: The configuration's model with other sizes, and one request.
OPTIONS = """models=Qwen2.5-0.5B models.dim=256 models.n_layers=4 models.n_heads=4 models.n_kv_heads=2
    models.vocab_size=512 models.intermediate_dim=512 models.tie_word_embeddings=False infer.pp_size=1 infer.dp_size=1
    infer.ep_size=1 infer.max_reqs=1 infer.max_seq_len=32 infer.prefill_chunk_size=1 infer.use_cuda_graph=False
    infer.attn_type=ref infer.cache_type=skew benchmark.iters=1 benchmark.num_reqs_list=[1] benchmark.input_len=12
    benchmark.output_len=12 benchmark.dataset=sharegpt"""


def write_inputs() -> Qwen2ForCausalLM:
    """Write a model, its tokenizer and a prompt, and return the model."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
    more = {"num_key_value_heads": 2, "rope_theta": 1e6, "initializer_range": 0.2, "tie_word_embeddings": False}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, **sizes, **more)).to(torch.bfloat16).eval()
    with torch.no_grad():
        model.lm_head.weight *= 16
        model.lm_head.weight[:4] = 0  # Special tokens, one of which would end the text.
    model.save_pretrained(OUT / "model")
    tokenizer = word_tokenizer([f"w{index:03d}" for index in range(VOCABULARY - 4)])
    tokenizer.save_pretrained(OUT / "model")
    turns = [{"value": " ".join(f"w{token - 4:03d}" for token in PROMPT)}, {"value": "w000"}]
    (OUT / "prompts.json").write_text(json.dumps([{"conversations": turns}]), encoding="utf-8")
    return model.float()


def generate() -> None:
    """Run the script as one rank, and note the tokens that its embedding is given."""
    notes = (OUT / f"rank-{os.environ['RANK']}.jsonl").open("a", encoding="utf-8")

    def look(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if type(module).__name__ == "VocabParallelEmbedding":
            print(json.dumps([inputs[0].flatten().tolist(), output.device.type]), file=notes, flush=True)

    torch.nn.modules.module.register_module_forward_hook(look)
    require("chitu.chitu_main", distribution="chitu")
    folders = f"models.ckpt_dir={OUT}/model models.tokenizer_path={OUT}/model benchmark.dataset_path={OUT}/prompts.json"
    with explained("chitu"):
        run_script("benchmarks/benchmark_offline.py", *OPTIONS.split(), *folders.split(), f"infer.tp_size={NPROC}")


def answer(rank: int) -> tuple[list[int], set[str]]:
    """The tokens that a rank was given after the prompt, and its kinds of device."""
    lines = (OUT / f"rank-{rank}.jsonl").read_text(encoding="utf-8").splitlines()
    calls = [json.loads(line) for line in lines]
    given = [token for tokens, _ in calls for token in tokens]
    starts = [index for index in range(len(given)) if given[index : index + LENGTH] == PROMPT]
    return given[starts[-1] + LENGTH :][: LENGTH - 1], {device for _, device in calls}


def main() -> None:
    """Be a rank, or write the inputs, run the ranks, and hold their tokens against transformers."""
    os.chdir(OUT)
    if "RANK" in os.environ:
        generate()
        return
    model = write_inputs()
    run_ranks(__file__)
    answers = [answer(rank) for rank in range(NPROC)]
    tokens = answers[0][0]
    logits = model(torch.tensor([PROMPT + tokens])).logits[0, LENGTH - 1 : -1].detach()
    behind = logits.amax(1) - logits[range(len(tokens)), tokens]
    observe(
        ranks=len(answers),
        tokens=len(tokens),
        different_tokens=len(set(tokens)),
        worst_token=(behind / logits.std(1)).max().item(),
        ranks_apart=sum(other != tokens for other, _ in answers),
        there=all(devices == {DEVICE} for _, devices in answers),
    )


if __name__ == "__main__":
    main()
