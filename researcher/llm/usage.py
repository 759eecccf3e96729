"""Token estimates: before a call, and after a call whose endpoint reports no counts."""

import json
import math
from typing import Any

from serl.researcher.llm.answers import Answer

PROMPT_BYTES_PER_TOKEN = 3.0
"""Bytes per token of the conversation as JSON. The researcher's prompts have at least 3.1, and 4 on average (SmolLM2, Qwen2.5)."""
ANSWER_BYTES_PER_TOKEN = 2.0
"""Bytes per token of an answer. Dense JSON has at least 1.9, and 2.4 on average; code has more."""


def estimate_prompt_tokens(request: dict[str, Any]) -> int:
    """Estimated tokens of the messages and of the schema, which some endpoints prepend; errs on the high side."""
    parts = [request["messages"], request.get("response_format", "")]
    n_bytes = sum(_bytes(json.dumps(part, ensure_ascii=False)) for part in parts)
    return math.ceil(n_bytes / PROMPT_BYTES_PER_TOKEN)


def estimate_answer_tokens(answer: Answer) -> int:
    """The number of tokens in the answer, or an estimate from the length of its text."""
    return len(answer.tokens) or math.ceil(_bytes(answer.text) / ANSWER_BYTES_PER_TOKEN)


def _bytes(text: str) -> int:
    """Number of bytes of a text, which may contain lone surrogates: JSON can escape one."""
    return len(text.encode(errors="surrogatepass"))
