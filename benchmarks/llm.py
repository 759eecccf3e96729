"""The embedded endpoint with the tiny model on one thread, and tuning it on modules of 180 tokens in fp32 (needs `serl llm fetch tiny`).

tokens_per_s: answers without a grammar; under_schema_tokens_per_s: with one. prompt_tokens_per_s: of prompts, with the 8-bit copy that is served;
prompt_q4_1_tokens_per_s: with the file that it was made of, by turns. update_s: one module a step, after a first step that is not counted, KL to the base included; straight_through
has a second pass. memory_mib: the server's peak; tuning_memory_mib: the peak of the process that tunes.
"""

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from serl.researcher.llm.client import Client
from serl.researcher.llm.eight_bit import served_file
from serl.researcher.llm.models import find
from serl.researcher.llm.served import ServedModel, served_model
from serl.researcher.tuning.base import load_base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.export import export_gguf
from serl.researcher.tuning.tuner import Tuner

ASK = [{"role": "user", "content": "Describe the reward of an execution agent in detail."}]
SCHEMA = {
    "type": "object",
    "properties": {
        name: {"type": "integer", "minimum": 0, "maximum": 99} for name in ("inventory", "impact", "variance")
    },
    "required": ["inventory", "impact", "variance"],
    "additionalProperties": False,
}
MODULE_TOKENS, UPDATES, ANSWERS = 180, 3, 4
PROMPTS, PROMPT_WORDS, TURNS = 4, 120, 3


def _tokens_per_s(served: ServedModel, schema: dict[str, Any] | None) -> float:
    client = Client(served.endpoint)
    began = time.perf_counter()
    answers = client.complete(ASK, schema=schema, n=ANSWERS, max_tokens=120)
    return answers.completion_tokens / (time.perf_counter() - began)


def _prompt_tokens_per_s(served: ServedModel, turn: int) -> float:
    """Of prompts that have no beginning in common, which the server would read once."""
    client, began, tokens = Client(served.endpoint), time.perf_counter(), 0
    for index in range(PROMPTS):
        text = " ".join(f"{(turn * PROMPTS + index) * 7919 + word}" for word in range(PROMPT_WORDS))
        tokens += client.complete([{"role": "user", "content": text}], max_tokens=1).prompt_tokens
    return tokens / (time.perf_counter() - began)


def _prompt_rates() -> tuple[float, float]:
    """Of the served copy and of the original file, by turns; the faster turn of each."""
    with served_model("tiny") as served, served_model(str(find("tiny"))) as original:
        turns = [(_prompt_tokens_per_s(served, turn), _prompt_tokens_per_s(original, turn)) for turn in range(TURNS)]
    return max(one for one, _ in turns), max(other for _, other in turns)


def peak_mib(pid: int) -> float:
    """Peak memory of a running process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def _update_s(config: TuningConfig) -> tuple[float, Tuner]:
    base = load_base(find("tiny"))
    tuner, prompt = Tuner(base, config), base.prompt_ids(ASK)
    module = base.text_ids("inventory and impact, " * MODULE_TOKENS)[:MODULE_TOKENS]
    tuner.update([Experience(prompt, module, 1.0)])
    began = time.perf_counter()
    for index in range(UPDATES):
        tuner.update([Experience(prompt, module, float(index % 2))])
    return (time.perf_counter() - began) / UPDATES, tuner


def run() -> dict[str, Any]:
    """All figures."""
    torch.set_num_threads(1)
    free = {"kl_max": 1e9, "entropy_min": 0.0}
    update_s, tuner = _update_s(TuningConfig(**free))
    tuning_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    straight_s, _ = _update_s(TuningConfig(estimator="straight_through", **free))
    prompt_rate, original_rate = _prompt_rates()
    with TemporaryDirectory() as folder:
        export_gguf(tuner, served_file("tiny"), Path(folder))  # reads the base's layout, once in a process
        began = time.perf_counter()
        tuned = export_gguf(tuner, served_file("tiny"), Path(folder))
        export_s = time.perf_counter() - began
        began = time.perf_counter()
        with served_model("tiny") as served:
            start_s = time.perf_counter() - began
            free_rate, schema_rate = _tokens_per_s(served, None), _tokens_per_s(served, SCHEMA)
            memory = peak_mib(served.pid)
            began = time.perf_counter()
            served.restart(tuned.lora, tuned.model)
            restart_s = time.perf_counter() - began
            return {
                "start_s": start_s,
                "restart_with_adapter_s": restart_s,
                "tokens_per_s": free_rate,
                "under_schema_tokens_per_s": schema_rate,
                "tuned_tokens_per_s": _tokens_per_s(served, None),
                "prompt_tokens_per_s": prompt_rate,
                "prompt_q4_1_tokens_per_s": original_rate,
                "memory_mib": memory,
                "update_s": update_s,
                "straight_through_update_s": straight_s,
                "export_s": export_s,
                "tuning_memory_mib": tuning_mib,
            }
