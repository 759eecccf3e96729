"""Decisions that are drawn: their prices are on the grid of the ticks."""

import json
from decimal import Decimal

import numpy as np
import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.minds.decision import parse_decision, strict_object
from serl.minds.random_decision import random_decision


@pytest.mark.parametrize(
    ("tick", "low_ticks", "high_ticks"),
    [("0.01", 8000, 12_000), ("0.1", 480_000, 720_000), ("0.001", 400_000_000, 600_000_000), ("0.0000001", 3, 2000)],
)
def test_prices_are_on_the_grid_also_high_ones(tick: str, low_ticks: int, high_ticks: int) -> None:
    step = Decimal(tick)
    price = {
        "type": "number", "minimum": float(low_ticks * step), "maximum": float(high_ticks * step), "multipleOf": float(step)
    }  # fmt: skip
    schema = {"anyOf": [strict_object({"action": {"enum": ["buy"]}, "price": price})]}
    random, numbers = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(1000):
        answer = random_decision(schema, random)
        numbers.integers(1), numbers.integers(1)
        expected = int(numbers.integers(low_ticks, high_ticks + 1)) * step
        assert parse_decision(answer).price == expected
        assert json.loads(answer.text)["price"] == float(expected)
