"""Estimates of tokens: before a call, where nobody has counted yet, and after one whose endpoint does not say."""

import json
import math
from typing import Any

from serl.researcher.llm.answers import Answer

PROMPT_BYTES_PER_TOKEN = 3.0
"""Of the conversation as JSON; the researcher's prompts have 3.1 at least, 4 in the mean (SmolLM2, Qwen2.5)."""
ANSWER_BYTES_PER_TOKEN = 2.0
"""Of an answer; dense JSON has 1.9 at least, 2.4 in the mean, code more."""


def estimated_prompt_tokens(request: dict[str, Any]) -> int:
    """Of the messages and of the schema, which some endpoints put before them; rather too many than too few."""
    said = [request["messages"], request.get("response_format", "")]
    n_bytes = sum(len(json.dumps(part, ensure_ascii=False).encode()) for part in said)
    return math.ceil(n_bytes / PROMPT_BYTES_PER_TOKEN)


def estimated_answer_tokens(answer: Answer) -> int:
    """As many as came with the answer, else by the length of its text."""
    return len(answer.tokens) or math.ceil(len(answer.text.encode()) / ANSWER_BYTES_PER_TOKEN)
