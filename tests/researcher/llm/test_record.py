"""What a record of calls keeps in memory."""

import tracemalloc
from pathlib import Path
from typing import Any

from serl.researcher.llm.record import Record, key_of

N, PROMPT = 50, "x" * 20_000


def line(number: int) -> dict[str, Any]:
    request = {"model": "any", "messages": [{"role": "user", "content": f"{number}{PROMPT}"}]}
    tokens = [{"text": f"word{place}", "logprob": -0.1 * place, "id": place} for place in range(200)]
    return {
        "key": key_of(request, number), "time_ns": 1, "request": request, "attempts": [], "answer": {"text": "yes", "finish": "stop", "tokens": tokens},
        "prompt_tokens": 10, "completion_tokens": 5, "estimated": False, "cost_usd": 0.5, "wall_s": 1.0,
    }  # fmt: skip


def test_a_record_keeps_no_prompts_in_memory(tmp_path: Path) -> None:
    record = Record(tmp_path / "calls.jsonl")
    tracemalloc.start()
    try:
        for number in range(N):
            record.add(line(number))
        written = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        read = Record(tmp_path / "calls.jsonl")
        peak = tracemalloc.get_traced_memory()[1] - written
    finally:
        tracemalloc.stop()
    assert written < N * len(PROMPT) / 1.3 and peak < N * len(PROMPT) / 1.3
    assert (len(read), read.tokens, read.usd) == (N, N * 15, N * 0.5)
    for known in (record, read):
        found = known.find(line(3)["key"])
        assert found is not None and found["answer"] == line(3)["answer"] and found["prompt_tokens"] == 10
