"""Extraction of code and JSON from answers, and the faults of answers without any."""

from typing import Any

import pytest

from serl.researcher.llm.answers import Answer, extract_code, extract_json
from serl.researcher.llm.errors import UnusableAnswerError

CODE = "import numpy as np\n\n\ndef reward(step):\n    return step\n"


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        f"Sure! Here it is:\n\n```python\n{CODE}```\nIt rewards.",
        f"```\n{CODE}```",
        f"```py\n{CODE}",
        f"```python\nx = 1\n```\nand in full\n```python\n{CODE}```",
        f"```bash\npip install {'x' * 200}\n```\n```python\n{CODE}```",
    ],
)
def test_code_is_found(text: str) -> None:
    assert extract_code(Answer(text, "stop")).strip() == CODE.strip()


@pytest.mark.parametrize(
    ("text", "finish", "fault"),
    [
        ("", "stop", "empty"),
        (" \n", "stop", "empty"),
        ("", "length", "truncated"),
        ("I would reward low variance.", "stop", "prose"),
        ("reward", "stop", "prose"),
        ("```python\ndef reward(step:\n```", "stop", "syntax"),
        ("def reward(step:\n  return", "stop", "syntax"),
        ("```python\ndef reward(step):\n    return (1 +", "length", "truncated"),
        ('```python\ndef reward(step):\n    """Rewards."""\n    pnl = step.pnl\n', "length", "truncated"),
        ("def f():\n    return '\x00'", "stop", "syntax"),
        ("def f():\n    return " + "(" * 5000, "stop", "syntax"),
    ],
)
def test_answers_without_code(text: str, finish: str, fault: str) -> None:
    with pytest.raises(UnusableAnswerError) as raised:
        extract_code(Answer(text, finish))
    assert raised.value.fault == fault


def test_code_that_ended_before_the_limit_is_whole() -> None:
    assert extract_code(Answer(f"```python\n{CODE}```\nIt rewards lo", "length")) == CODE


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, {"b": 2}]}',
        'It is {"a": [1, {"b": 2}]}.',
        '```json\n{"a": [1, {"b": 2}]}\n```\nwith {braces}',
        'Of {all}, {} and {1}: { "a": [1, {"b": 2}]}, not {"a": 1} or {x}.',
    ],
)
def test_json_is_found(text: str) -> None:
    expected: Any = {"a": [1, {"b": 2}]}
    assert extract_json(Answer(text, "stop")) == expected


@pytest.mark.parametrize(
    ("text", "finish", "fault"),
    [
        ("", "stop", "empty"),
        ("no idea", "stop", "prose"),
        ('{"a": ', "stop", "syntax"),
        ('{"a": ', "length", "truncated"),
        ('{"a": {"b": 2}, ', "stop", "syntax"),
        ("the {b}", "stop", "syntax"),
        ('{"a": NaN}', "stop", "syntax"),
        ('{"a": -Infinity}', "stop", "syntax"),
        ("{" * 200_000 + "}", "stop", "syntax"),
        ('{"a":' * 200_000 + "1" + "}" * 200_000, "stop", "syntax"),
    ],
)
def test_answers_without_json(text: str, finish: str, fault: str) -> None:
    with pytest.raises(UnusableAnswerError) as raised:
        extract_json(Answer(text, finish))
    assert raised.value.fault == fault


def test_an_answer_without_text_says_why_it_ended() -> None:
    with pytest.raises(UnusableAnswerError, match=r"^empty: the answer has no text \(finish reason tool_calls\)$"):
        extract_json(Answer("", "tool_calls"))
