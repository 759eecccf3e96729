"""A scripted model behind an OpenAI-compatible endpoint: it writes a specification or code of every kind, edits, instructions and notes, and makes
every mistake. Its answer depends on the request alone, so a run that was killed gets the same answers again."""

import hashlib
import json
import re
import time
from collections import Counter
from typing import Any

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import uniform
from serl.researcher.outer.prompts import GOALS
from tests.researcher.llm.fake import CLOSE, completion

NUMBERS = {
    Kind.REWARD: "0.05", Kind.AGENT: "64", Kind.IMAGINE: "0.3", Kind.PROFILES: "25.0", Kind.COMMUNICATE: "BEHIND_SCHEDULE = 21, 44",
    Kind.POLICY: "4.0",
}  # fmt: skip
"""What an answer changes in the example of a kind."""
TRANSIENT = ("rate limited", "failing", "closed", "malformed")
FAULTS = ("prose", "truncated", "syntax", "same", *TRANSIENT, "slow")


class Script:
    """Answers requests; `fault_share` of first attempts go wrong, each fault as often as another. Counts what it did."""

    def __init__(self, fault_share: float = 0.5) -> None:
        self.fault_share = fault_share
        self.did = Counter[str]()
        self._failed = set[str]()

    def __call__(self, request: dict[str, Any]) -> Any:
        """The reply to a request."""
        digest = hashlib.sha256(json.dumps([request["messages"], request["seed"]]).encode()).hexdigest()
        rng = np.random.default_rng(int(digest[:12], 16))
        prompt = request["messages"][1]["content"]
        kind = next((kind for kind, goal in GOALS.items() if f"Design {goal}." in prompt), None)
        if kind is None:
            self.did["sentence"] += 1
            return completion(f"Rest {rng.integers(1000)} percent of the order and cross what is late.")
        fault = str(rng.choice(FAULTS)) if rng.random() < self.fault_share else ""
        if fault in TRANSIENT:
            if (
                digest not in self._failed
            ):  # the retry succeeds, so which of them it is changes nothing: they come in turn
                self._failed.add(digest)
                turn = TRANSIENT[(len(self._failed) - 1) % len(TRANSIENT)]
                self.did[turn] += 1
                return _transient(turn)
            fault = ""
        if fault == "slow":
            time.sleep(0.05)
        self.did[fault or "well"] += 1
        text = self._text(kind, prompt, rng, fault, spec="response_format" in request)
        return completion(text, finish="length" if fault == "truncated" else "stop")

    def _text(self, kind: Kind, prompt: str, rng: np.random.Generator, fault: str, *, spec: bool) -> str:
        if fault == "prose":
            return "I would rather talk about markets in general."
        if spec:
            text = example(kind, "spec") if fault == "same" else uniform.draw(kind, rng)
        else:
            text = example(kind, "code") if fault == "same" else variant(kind, rng)
        cut = text[: len(text) // 2]
        if fault == "syntax":
            return cut + "{{" if spec else f"```python\n{text}\n)(\n```"
        if fault == "truncated":
            return cut if spec else f"```python\n{cut}"
        if "SEARCH" in prompt and not spec:
            return self._edit(prompt, rng)
        return text if spec else f"```python\n{text}\n```"

    def _edit(self, prompt: str, rng: np.random.Generator) -> str:
        """Edits of a number in the shown parent; every third does not apply."""
        applies = rng.random() > 1 / 3
        self.did["edit" if applies else "edit that does not apply"] += 1
        shown = prompt.partition("Parent 1")[2]
        lines = [
            line
            for line in shown.partition("```python\n")[2].partition("\n```")[0].splitlines()
            if re.search(r"\d\.\d|= \d", line)
        ]
        line = lines[rng.integers(len(lines))] if lines and applies else "nothing of the kind"
        number = re.search(r"\d+(\.\d+)?", line)
        new = (
            line
            if number is None
            else line[: number.start()] + str(rng.integers(1, 9)) + number.group()[1:] + line[number.end() :]
        )
        return f"<<<<<<< SEARCH\n{line}\n=======\n{new}\n>>>>>>> REPLACE"


def variant(kind: Kind, rng: np.random.Generator) -> str:
    """The example of a kind in code with another number."""
    number = NUMBERS[kind]
    digits = re.search(r"\d+(\.\d+)?$", number)
    assert digits
    value = float(digits.group()) * (0.5 + rng.random())
    new = f"{value:.4f}" if "." in digits.group() else str(round(value))
    text = example(kind, "code")
    assert number in text
    return text.replace(number, number[: digits.start()] + new)


def _transient(fault: str) -> Any:
    match fault:
        case "rate limited":
            return 429, {"Retry-After": "0"}, "{}"
        case "failing":
            return 500, {}, "{}"
        case "malformed":
            return 200, {}, '{"choices": []}'
    return CLOSE
