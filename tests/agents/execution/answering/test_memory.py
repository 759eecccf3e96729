"""What is remembered of live trades, and how far it moves a day."""

import numpy as np
import pytest

from serl.agents.impact_memory import TIMES_S, mean_memory, memory_weights


@pytest.mark.parametrize(("exponent", "error"), [(0.2, 0.03), (0.5, 0.1)])
def test_the_memory_is_a_power_law_that_ends_in_a_plateau(exponent: float, error: float) -> None:
    weights = memory_weights(exponent)
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all() and weights[-1] > 0
    for time_s in (0.0, 10.0, 60.0, 600.0, 6000.0):
        found = weights[:-1] @ np.exp(-time_s / np.array(TIMES_S)) + weights[-1]
        assert found == pytest.approx((1 + time_s / 10) ** -exponent, rel=error)
    assert mean_memory(weights, 1e-6) == pytest.approx(1) and mean_memory(weights, 1e9) == pytest.approx(
        weights[-1], rel=1e-3
    )


def test_an_order_of_any_duration_decays_to_what_the_page_says() -> None:
    """docs/answering.md: shares of the impact at the end, one and five durations later, and at the end of the day."""
    weights = memory_weights()

    def share(end: float, span_s: float) -> float:
        """Of an order worked over a span, at the end of a later span."""
        return end * mean_memory(weights, end * span_s) - (end - 1) * mean_memory(weights, (end - 1) * span_s)

    for span_s in (300.0, 600.0, 1800.0):
        at_end = mean_memory(weights, span_s)
        assert (share(2, span_s) / at_end) ** 0.5 == pytest.approx(0.87, abs=0.015)
        assert (share(6, span_s) / at_end) ** 0.5 == pytest.approx(0.76, abs=0.03)
    ratio = mean_memory(weights, 1800.0) / mean_memory(weights, 200.0)
    assert np.log(ratio) / np.log(9) / 2 == pytest.approx(-0.09, abs=0.01), "exponent of the duration"
