"""Measurements recover the parameters of simulated days."""

import numpy as np
import pytest

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.fit import FreeParameters, flow_population, impact_ticks_per_root_lot
from serl.agents.calibration.measure import measure_flow
from serl.agents.calibration.poisson import measure_poisson
from serl.agents.calibration.tables import log_quantiles, quantiles
from serl.agents.impact_memory import REFERENCE_S, mean_memory, memory_weights
from serl.agents.realism.tape import HOUR_NS, MINUTE_NS, Tape, build_tape
from serl.agents.traders.flow_tables import EQUAL_PARTS, HALVINGS, POINTS, PROBABILITIES, TOUCH_STATES, quantile
from serl.agents.traders.simulate import simulate
from tests.agents.calibration.sample import (
    CANCEL_PER_S,
    HELD_OUT,
    LIMIT_PER_S,
    MARKET_PER_S,
    OPEN_NS,
    TRAIN,
    flow,
    poisson_day,
)


def window(start_ns: int, end_ns: int, levels: int = 30) -> Tape:
    return build_tape(poisson_day(), levels).window(start_ns, end_ns)


def test_poisson_rates_are_recovered() -> None:
    """Thirteen known rates; each 95 % interval may miss, and two or more do so by chance about one time in seven."""
    start_ns, end_ns = TRAIN[0], HELD_OUT[1]
    rates = measure_poisson([window(start_ns, end_ns)], start_ns, end_ns, 30, 1)
    inside = [bool(rates.market_interval[0] <= MARKET_PER_S <= rates.market_interval[1])]
    for level in range(12):
        low, high = rates.limit_interval[:, level]
        inside.append(bool(low <= LIMIT_PER_S[level] <= high))
    assert np.sum(inside) >= len(inside) - 2, rates
    assert rates.limit_per_s[14:].sum() == 0
    # Open orders are counted by quantity, and those that trade are partly filled: a bias of a few percent at the touch.
    assert np.allclose(rates.cancel_per_s[1:6], CANCEL_PER_S[1:6], rtol=0.2)
    assert np.allclose(rates.cancel_per_s[7:11], CANCEL_PER_S[7:11], rtol=0.3)
    assert abs(rates.limit_lots - 100) < 3 and abs(rates.lots_spread - 0.3) < 0.03


def test_rates_of_wider_levels_are_sums() -> None:
    tape = window(*TRAIN)
    one, two = (measure_poisson([tape], *TRAIN, 30, width) for width in (1, 2))
    assert np.allclose(two.limit_per_s[:5], one.limit_per_s[:10].reshape(5, 2).sum(axis=1), rtol=0.05)


def test_a_calibrated_flow_has_the_measurements_of_its_day() -> None:
    start_ns, end_ns = TRAIN
    known = measure_flow([window(start_ns, end_ns, 10)], start_ns, end_ns)
    population = flow_population(known, FreeParameters(), "again", 10, "0.01")
    tape = build_tape(simulate(population, 2, end_ns), 10).window(start_ns, end_ns)
    again = measure_flow([tape], start_ns, end_ns)
    for name, count in known.counts.items():
        assert abs(again.counts[name] / count - 1) < 0.25, name
    assert np.allclose(again.next_share[:, 1], known.next_share[:, 1], atol=0.03)
    assert np.allclose(again.market_orders.lots[3, 8:28], known.market_orders.lots[3, 8:28], rtol=0.2)
    assert np.allclose(again.market_orders.sweep_share, known.market_orders.sweep_share, atol=0.2)
    assert np.allclose(again.wait_log_s[0, 2, 8:26], known.wait_log_s[0, 2, 8:26], atol=0.3)
    assert 0.5 < again.spread_ticks / known.spread_ticks < 2


def flow_tape(**profile: object) -> Tape:
    return build_tape(simulate(flow(**profile), 1, HELD_OUT[1]), 10).window(TRAIN[0], HELD_OUT[1])


def test_sizes_belong_to_their_distance() -> None:
    """Orders of five lots at the touch, of fifty behind it, of eight inside the spread."""
    lots = [5.0] * POINTS + [50.0] * 4 * POINTS + [8.0] * POINTS
    tape = flow_tape(limit_lots=lots, market_lots=[1.0] * POINTS * TOUCH_STATES)
    known = measure_flow([tape], TRAIN[0], HELD_OUT[1])
    assert np.median(known.limit_lots, axis=1).tolist() == [5, 50, 50, 50, 50, 8]
    assert np.median(known.deep_lots) >= 50


def test_quantiles_preserve_atoms_and_the_mean_of_the_tail() -> None:
    lots = np.array([100] * 900 + list(range(1, 51)) + [100_000] * 10 + [200] * 40)
    table = quantiles(lots)
    assert (table[4:28] == 100).all()
    middle = 0.5 * (table[1:] + table[:-1])
    assert middle[-1] == pytest.approx(np.sort(lots)[-max(1, len(lots) // (EQUAL_PARTS << HALVINGS)) :].mean())
    waits = np.exp(np.random.default_rng(1).normal(-2, 3, 20_000))
    table = log_quantiles(waits)
    drawn = np.exp(np.interp(np.linspace(0, 1, 200_001), PROBABILITIES, table))
    assert drawn.mean() == pytest.approx(waits.mean(), rel=0.1)


def test_tails_have_their_shape() -> None:
    """A table with 1/32 in its last piece would draw twenty times as many sizes over 1,000 lots."""
    lots = np.exp(np.random.default_rng(1).normal(3.0, 1.2, 100_000))
    table = quantiles(lots)
    drawn = np.array([quantile(table, 0, draw) for draw in np.linspace(0.0, 1.0, 20_000, endpoint=False)])
    assert np.allclose(drawn, np.interp(np.linspace(0.0, 1.0, 20_000, endpoint=False), PROBABILITIES, table))
    for limit in (200.0, 400.0, 800.0):
        assert (drawn > limit).mean() == pytest.approx((lots > limit).mean(), rel=0.25)


def test_market_orders_take_the_touch_as_often_as_its_lots_say() -> None:
    """Touches of up to 100 lots always, larger ones never."""
    edges, sweeps = (10.0, 20.0, 50.0, 100.0, 200.0, 400.0), (1.0,) * 4 + (0.0,) * 3
    tape = flow_tape(touch_edges_lots=edges, sweep_share=sweeps, through_share=(0.0,) * TOUCH_STATES)
    found = measure_flow([tape], TRAIN[0], HELD_OUT[1]).market_orders
    small = found.touch_edges_lots <= 100
    assert 0 < small.sum() < 6 and found.sweep_share[:-1][small].min() > 0.95, found
    assert found.sweep_share[1:][~small].max() < 0.05 and found.through_share.max() < 0.05, found


def test_each_side_returns_to_its_own_density() -> None:
    bids, asks = measure_flow([flow_tape(lots_per_tick=(120.0, 60.0))], TRAIN[0], HELD_OUT[1]).lots_per_tick
    assert bids == pytest.approx(120, rel=0.05) and asks == pytest.approx(60, rel=0.05)


def test_the_impact_of_others_is_that_of_the_square_root_law() -> None:
    """A hundredth of the volume, worked evenly over the reference time, moves the price by a tenth of sigma at its end."""
    known = measure_flow([window(*TRAIN, levels=10)], *TRAIN)
    lots = 0.01 * known.volume_lots * mean_memory(memory_weights(), REFERENCE_S)
    sigma_ticks = known.volatility_ticks * (known.duration_s / 60) ** 0.5
    assert impact_ticks_per_root_lot(known) * lots**0.5 == pytest.approx(0.1 * sigma_ticks)


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "message"),
    [
        (OPEN_NS + 20 * MINUTE_NS, OPEN_NS + 23 * MINUTE_NS, "expected at least 5 minutes, got 3"),
        (OPEN_NS, OPEN_NS + HOUR_NS, "expected at least 50 market orders, got"),
    ],
)
def test_windows_with_too_little_data_are_refused(start_ns: int, end_ns: int, message: str) -> None:
    tape = window(start_ns, start_ns + 3 * MINUTE_NS)
    with pytest.raises(CalibrationError, match=message):
        measure_flow([tape if "minutes" in message else tape.part(0, 300)], start_ns, end_ns)
