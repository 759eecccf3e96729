"""Observations: some may be left out."""

from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment.layout import HISTORY_STEPS, Layout
from serl.agents.execution.environment.static import StaticBook
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.executor import FixedSampler
from serl.exchange.errors import ConfigError
from tests.agents.execution.environment.stage import TINY, episode


def test_numbers_are_left_out_by_name_or_all_of_a_name() -> None:
    full, fewer = Layout(2), Layout(2, ("bid_lots", "return_4", "sign"))
    assert set(full.names) - set(fewer.names) == {"bid_lots_1", "bid_lots_2", "return_4", "sign"}
    assert fewer.all_names == full.names
    assert fewer.size == full.size - 4
    with pytest.raises(ConfigError, match="got profit, return_9"):
        Layout(left_out=("return", "profit", "return_9"))


def test_what_is_left_is_observed_as_before() -> None:
    def observed(layout: Layout) -> list[Any]:
        env = ExecutionVectorEnv(StaticBook([TINY], 1), FixedSampler(episode(steps=3)), layout=layout)
        first, _ = env.reset(seed=0)
        return [first, env.step(np.array([[0.5]]))[0], env.observer.observe_all(env.market.frames, env.market.fills, env.accounts)]  # fmt: skip

    layout = Layout(5, ("ask_distance", "volume", f"gap_{HISTORY_STEPS - 1}", "drift"))
    kept = [Layout().names.index(name) for name in layout.names]
    for whole, part in zip(observed(Layout())[:2], observed(layout)[:2], strict=True):
        np.testing.assert_array_equal(whole[:, kept], part)
    np.testing.assert_array_equal(observed(Layout())[2], observed(layout)[2])
