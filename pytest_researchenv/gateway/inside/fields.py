"""Which fields of a request go on to the service. Pure.

A service quotes the name of a field that it does not know, and refuses it: with a name of their own, agents could have
it say anything. What is not listed is dropped without a word, since tools add fields of services that are not this one.
"""

from __future__ import annotations


__all__ = ["known_fields"]

_EVERYWHERE = {"model", "stream", "tools", "tool_choice", "metadata", "temperature", "top_p"}

#: Left out on purpose: what changes prices or the place of work (`service_tier`, `speed`, `inference_geo`, `provider`,
#: `modalities`, `prediction`), has the service reach elsewhere (`mcp_servers`, `web_search_options`, `prompt`), makes
#: several answers (`n`, `best_of`) or very large ones (`logprobs`, `top_logprobs`).
_FIELDS = {
    "anthropic-messages": {
        "messages",
        "system",
        "max_tokens",
        "stop_sequences",
        "top_k",
        "thinking",
        "cache_control",
        "context_management",
        "output_config",
        "output_format",
        "container",
        "diagnostics",
    },
    "openai-responses": {
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "parallel_tool_calls",
        "reasoning",
        "text",
        "include",
        "store",
        "stream_options",
        "truncation",
        "context_management",
        "previous_response_id",
        "conversation",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "client_metadata",
        "user",
    },
    "openai-chat": {
        "messages",
        "functions",
        "function_call",
        "max_tokens",
        "max_completion_tokens",
        "parallel_tool_calls",
        "stream_options",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "response_format",
        "reasoning",
        "reasoning_effort",
        "include_reasoning",
        "thinking",
        "enable_thinking",
        "thinking_budget",
        "chat_template_kwargs",
        "verbosity",
        "store",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "user",
        "usage",
        "top_k",
        "min_p",
        "do_sample",
        "tool_stream",
        "clear_thinking",
    },
}


def known_fields(api: str) -> frozenset[str]:
    """Names at the top of a request that a protocol knows.

    Args:
        api: value of `Api`.
    """
    return frozenset(_EVERYWHERE | _FIELDS[api])
