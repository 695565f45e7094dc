"""C3 and C4 of nano-vllm: its `LLM` generates with a tiny Qwen3 of random weights, on one rank or on all.

Three prompts are continued: two that share their first block of the cache, so that it is found by its hash, and a short
one. Prefill, decoding with the paged cache, sampling and tensor parallelism over NCCL are the repository's own. Every
token must be the best one, up to the rounding of 16 bits, for transformers' Qwen3 of the same weights in 32 bits on the
CPU; a token picked at random, or with part of the cache lost, is off by several standard deviations of the logits. The
rows of the embedding that rank 0 holds tell whether the model was really divided.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

import probekit
import torch
from nanovllm import LLM, SamplingParams
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM


VOCABULARY = 1024
NEW_TOKENS = 12
# Of the cache's blocks; two of the prompts share one.
BLOCK = 256
SIZE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 64}
SIZE |= {"num_key_value_heads": 2, "max_position_embeddings": 2 * BLOCK, "tie_word_embeddings": False}
# What the engine may take of the device beside what is in use, for its cache among other things.
BUDGET = 3 * 2**30


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Make a Qwen3 of random weights, wide enough apart for the best token to stand out."""
    torch.manual_seed(0)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    # Its base of rotations is that of the published Qwen3 models.
    config = Qwen3Config(VOCABULARY, rope_theta=1_000_000, initializer_range=0.2, **SIZE, **ends)
    return Qwen3ForCausalLM(config).to(torch.bfloat16).eval()


def make_prompts() -> list[list[int]]:
    """Make two long prompts that begin alike, and a short one."""
    first, second, third = probekit.token_batch(3, BLOCK + 40, vocabulary=VOCABULARY).tolist()
    return [first, first[:BLOCK] + second[BLOCK:], third[:20]]


@torch.inference_mode()
def distance(reference: Qwen3ForCausalLM, prompt: list[int], answer: list[int]) -> float:
    """How far the worst token of an answer is from the best one, in standard deviations of the logits."""
    logits = reference(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
    return ((logits.amax(1) - chosen) / logits.std(1)).max().item()


if __name__ == "__main__":
    tokenizer = probekit.word_tokenizer([f"w{index:04d}" for index in range(VOCABULARY - 4)])
    model = build_model(tokenizer)
    folder = str(probekit.OUT / "tiny-qwen3")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    free, total = torch.cuda.mem_get_info() if probekit.DEVICE == "cuda" else (BUDGET, BUDGET)
    limits = {"max_model_len": 2 * BLOCK, "max_num_batched_tokens": 4 * BLOCK, "max_num_seqs": 4}
    # As the repository's example does, but for the memory: its default is nine tenths of the device.
    limits |= {"enforce_eager": True, "gpu_memory_utilization": (total - free + BUDGET) / total}
    engine = LLM(folder, tensor_parallel_size=probekit.NPROC, **limits)
    prompts = make_prompts()
    sampling = SamplingParams(temperature=1e-5, max_tokens=NEW_TOKENS, ignore_eos=True)
    answers = [answer["token_ids"] for answer in engine.generate(prompts, sampling, use_tqdm=False)]

    reference = model.float()
    embedding = engine.model_runner.model.model.embed_tokens.weight
    probekit.observe(
        answers=len(answers),
        tokens=sum(map(len, answers)),
        worst_token=max(distance(reference, *pair) for pair in zip(prompts, answers, strict=True)),
        on_device=probekit.on_device(embedding) and probekit.on_device(engine.model_runner.kv_cache),
        rows_missing=VOCABULARY - embedding.shape[0] * probekit.NPROC,
    )
