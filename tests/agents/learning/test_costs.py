"""Costs and measures of orders, by hand."""

import numpy as np
import pytest

from serl.agents.execution.environment.records import EPISODE
from serl.agents.learning.evaluation import Estimate, Outcome, _mid_price, costs, gain_loss_ratio, win_rate
from serl.agents.learning.table import estimate_text


def test_at_mids_by_hand() -> None:
    rows = np.zeros(1, EPISODE)
    rows["sign"], rows["qty_lots"] = 1, 10
    found = _mid_price(rows, np.array([0.4]), np.array([[6.0, 4.0]]), np.array([[100.0, 102.0]]), np.array([110.0]))
    assert found.tolist() == [(6 * 101 + 4 * 110) / 10]
    found = _mid_price(rows, np.array([0.4]), np.array([[6.0, 3.0]]), np.array([[100.0, 102.0]]), np.array([110.0]))
    assert found.tolist() == [(6 * 101 + 3 * 110) / 9], "a lot that nobody took at the end is not forced"


def test_costs_by_hand() -> None:
    """A sell that leaves 4 of 10 lots, and a buy; there is no mid at one decision of the latter."""
    rows = np.zeros(2, EPISODE)
    rows["sign"], rows["qty_lots"] = [1, -1], 10
    nothing = np.zeros((2, 2))

    def outcome(price: list[float], mids: object = nothing, lots: object = nothing) -> Outcome:
        names = ("afi", "ffr", "fees_bps")
        results = {
            "price_ticks": np.array(price),
            "vwap_ticks": np.array([100.0, 100.0]),
            "is_bps": np.array([150.0, 70.0]),
        }
        results |= {"mid_price_ticks": np.array([103.0, 97.0])} | {name: np.zeros(2) for name in names}
        return Outcome(results, np.zeros((0, 1)), np.array(mids), np.array(lots))

    own = outcome([101.0, 98.0], [[102.0, 102.0], [np.nan, 98.0]], [[4.0, 2.0], [4.0, 6.0]])
    without_us, twap, rule = (
        outcome([np.nan, np.nan], [[100.0, 101.0], [100.0, 99.0]]), outcome([100.5, 99.5]), outcome([100.0, 100.0])
    )  # fmt: skip
    found = costs(rows, own, without_us, twap, rule)
    expected = {
        "pa": [100, 200], "pa_mid": [300, 300], "pa_twap": [(101 / 100.5 - 1) * 1e4, (1 - 98 / 99.5) * 1e4], "pa_rule": [100, 200],
        "is": [150, 70], "impact": [100, 60], "risk": [50, 10],
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, err_msg=name)
    assert "pa_rule" not in costs(rows, own, without_us, twap)


def test_measures_by_hand() -> None:
    values = np.array([4.0, 2.0, -1.0, 0.0, -5.0, -3.0])
    assert win_rate(values) == pytest.approx(2.5 / 6)
    assert gain_loss_ratio(values) == pytest.approx(1.0)
    assert np.isnan(gain_loss_ratio(values[:2]))
    assert (
        estimate_text(Estimate(*[np.nan] * 3)) == "undefined"
        and estimate_text(Estimate(1, 0, 2)) == "1.00 [0.00, 2.00]"
    )
