"""Imagined days: from every training day, and no more than memory and time allow."""

import numpy as np
import pytest

from serl.agents.execution.environment.bars import BarDays
from serl.researcher.inner import markets
from serl.researcher.inner.settings import STATIC
from serl.researcher.modules import build, specs
from serl.researcher.modules.contracts import Floats, Kind
from serl.researcher.modules.example import example

BARS, MINUTE_NS = 30, 60_000_000_000


def training_days(count: int) -> BarDays:
    """Day k opens at 1000 + k ticks and has a volume of its own."""
    values = np.empty((count, BARS, 6))
    values[..., :5] = 1000.0 + np.arange(count)[:, None, None]
    values[..., 5] = 100 + np.arange(count)[:, None]
    return BarDays(MINUTE_NS * np.arange(BARS), MINUTE_NS, values)


def imagined(count: int, seed: int = 0) -> markets.Imagined:
    days = training_days(count)
    module = build.build(specs.parse(Kind.IMAGINE, example(Kind.IMAGINE, "spec")))
    return markets.Imagined(STATIC, [(days, day) for day in range(count)], module, seed, 1.0)


@pytest.mark.parametrize(("count", "made"), [(5, 130), (128, 128), (300, 300), (3000, markets.SCENARIOS_MAX)])
def test_every_training_day_is_imagined_up_to_a_bound(count: int, made: int) -> None:
    days = imagined(count).days
    assert len(days.values) == made
    volumes = set(days.values[:, 0, 5].astype(int))
    assert len(volumes) == min(count, markets.SCENARIOS_MAX), "each scenario is one of its own day"


def test_seeds_draw_other_days_where_there_are_too_many() -> None:
    first, second = (set(imagined(3000, seed).days.values[:, 0, 5].astype(int)) for seed in (0, 1))
    assert len(first | second) > 1.5 * markets.SCENARIOS_MAX


def test_the_module_sees_a_day_at_a_time() -> None:
    seen: list[Floats] = []

    def module(history: Floats, rng: np.random.Generator, n: int, horizon: int) -> Floats:
        seen.append(history)
        return np.repeat(history[None, :horizon], n, axis=0)

    days = training_days(200)
    made = markets.Imagined(STATIC, [(days, day) for day in range(200)], module, 0, 1.0).days
    assert len(seen) == 200
    np.testing.assert_allclose(made.values[..., 5], days.values[..., 5])
