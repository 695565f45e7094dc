"""C3 and C4 of MoBA: its example `examples/llama.py`, unchanged, and its attention with gradients.

The example gets a small Llama of random weights and a tokenizer with one token a byte, so that its fixed prompt has
chunks to choose among. What the model answers, and each token that was generated, is held against a Llama with
attention that is computed here; so are output and gradients of both implementations. A wrong choice is far off.
"""  # researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4
# ruff: noqa: E402 - the extension is looked at before what imports it, so that its fault is the one that is told

from __future__ import annotations

import extensions


extensions.require("flash_attn_2_cuda", distribution="flash-attn")
import torch
from attention import attend
from moba.moba_efficient import moba_attn_varlen
from moba.moba_naive import moba_attn_varlen_naive
from probekit import DEVICE, OUT, observe, on_device, run_script
from ranks import overall_error
from transformers import ByT5Tokenizer, LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


MODEL, HEADS, CHUNK, TOPK = OUT / "llama", 4, 4, 2
PROMPT, LENGTH = len("how are you?") + 1, 32  # The example's prompt with an end, and how far it generates.


def attend_to_blocks(parts: torch.Tensor | list[torch.Tensor], chunk: int, topk: int, prompt: int) -> torch.Tensor:
    """Attend to the own chunk and the best of those before it; after the prompt, to all. Shapes: (tokens, heads, …)."""
    place = torch.arange(len(parts[0]), device=parts[0].device)
    means = torch.stack([part.mean(0) for part in parts[1].split(chunk)])
    fit = torch.einsum("xhd,nhd->hxn", parts[0].float(), means.float())
    best = fit.masked_fill(place[: len(means)] >= place[:, None] // chunk, float("-inf")).topk(topk - 1).indices
    seen = torch.zeros_like(fit, dtype=torch.bool).scatter(-1, best, value=True)[:, :, place // chunk]
    seen |= (place[:, None] // chunk == place // chunk) | (place[:, None] >= prompt)
    heads = (part.transpose(0, 1) for part in parts)
    return attend(*heads, visible=seen & (place <= place[:, None])).transpose(0, 1)


def answers(tokens: torch.Tensor, prompt: int) -> torch.Tensor:
    """What the model answers with the attention above, on the CPU and in 32 bits."""

    def attention(_: object, *states: torch.Tensor, **__: object) -> tuple[torch.Tensor, None]:
        parts = [state.repeat_interleave(HEADS // state.shape[1], 1)[0].transpose(0, 1) for state in states[:3]]
        return attend_to_blocks(parts, CHUNK, TOPK, prompt)[None].float(), None

    ALL_ATTENTION_FUNCTIONS["plain"] = attention
    return LlamaForCausalLM.from_pretrained(MODEL, attn_implementation="plain").float()(tokens).logits[0].detach()


def packed(function: object) -> float:
    """Compare output and gradients of an implementation for two sequences in one."""
    lengths, chosen = (200, 440), {"moba_chunk_size": 64, "moba_topk": 3}
    parts = torch.randn(4, sum(lengths), HEADS, 64).to(DEVICE, torch.bfloat16)
    inputs, others = (parts[:3].clone().requires_grad_() for _ in range(2))
    with extensions.explained("flash_attn_2_cuda"):
        ends = torch.tensor([0, *lengths], device=DEVICE).cumsum(0, dtype=torch.int32)
        found = function(*inputs.unbind(), ends, 440, **chosen)
        found.backward(parts[3])
    wanted = torch.cat([attend_to_blocks(one, *chosen.values(), 440) for one in others.split(lengths, 1)])
    wanted.backward(parts[3].double())
    return max(map(overall_error, [found, *inputs.grad], [wanted, *others.grad]))


if __name__ == "__main__":
    torch.manual_seed(0)
    layers = {"num_hidden_layers": 8, "num_attention_heads": HEADS, "num_key_value_heads": 2, "eos_token_id": None}
    config = LlamaConfig(384, hidden_size=64, intermediate_size=128, initializer_range=0.2, **layers)
    LlamaForCausalLM(config).half().save_pretrained(MODEL)
    ByT5Tokenizer().save_pretrained(MODEL)
    observe(efficient_error=packed(moba_attn_varlen), naive_error=packed(moba_attn_varlen_naive))
    example = run_script("examples/llama.py", f"--model={MODEL}", "--attn=moba", "--moba-chunk-size=4", "--moba-topk=2")
    model, tokens = example["model"], example["tokens"].cpu()
    wanted, steps = answers(tokens, LENGTH), answers(tokens, PROMPT)[PROMPT - 1 : -1]
    observe(
        tokens=tokens.shape[1],
        answer_error=overall_error(model(tokens.to(model.device)).logits[0], wanted),
        effect_of_choice=overall_error(answers(tokens, 0), wanted),
        worst_token=((steps.amax(1) - steps.gather(1, tokens[0, PROMPT:, None])[:, 0]) / steps.std(1)).max().item(),
        on_device=all(on_device(weight) for weight in model.parameters()),
        missing_devices=max(0, min(2, torch.cuda.device_count()) - len({one.device for one in model.parameters()})),
    )
