"""Chat tokens: marks of roles, turns and tool results in chat templates, by family of models.

A host that puts raw text into such a template would take them for its own: a memory could then speak as the system.
`encoding.untrusted` removes their first character from every text for a model. To add a family, add its tokens here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# A token without its end stands for every tag that begins with it, because models read loosely. Tokens of the form
# <|name|> are recognised whatever their name is; here they are examples.
CHAT_TOKENS: Final[Mapping[str, tuple[str, ...]]] = {
    "ChatML, Qwen": ("<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|endoftext|>", "<|fim_prefix|>"),
    "gpt-oss": ("<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>", "<|end|>"),
    "Llama 2": ("<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
    "Llama 3 and 4": (
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|eot|>",
        "<|python_tag|>",
    ),
    "Mistral": (
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "[AVAILABLE_TOOLS]",
        "[/AVAILABLE_TOOLS]",
        "[TOOL_CALLS]",
        "[TOOL_CONTENT]",
        "[TOOL_RESULTS]",
        "[/TOOL_RESULTS]",
        "[THINK]",
        "[/THINK]",
    ),
    "Gemma": ("<bos>", "<eos>", "<start_of_turn", "<end_of_turn"),
    "Phi, GLM": ("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "[gMASK]", "<sop>"),
    "Command": (
        "<BOS_TOKEN>",
        "<|START_OF_TURN_TOKEN|>",
        "<|SYSTEM_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
    ),
    "DeepSeek": (
        "<｜begin▁of▁sentence｜>",
        "<｜User｜>",
        "<｜tool▁outputs▁begin｜>",
        "<think>",
        "</think>",
    ),
    "Granite": ("<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"),
    "Claude": ("<function_calls", "<function_results", "<invoke", "<antml:", "<tool_use"),
    "results of tools": ("<tool_call", "<tool_response", "<tool_result", "<tool_output"),
    "roles as tags": ("<system>", "</system>", "<assistant>", "<human>", "<system-reminder"),
}
