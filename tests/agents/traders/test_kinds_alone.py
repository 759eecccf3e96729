"""Each kind of trader on a stage of its own: what it sees, what it asks for."""

import math

import numpy as np
import pytest

from serl.agents.traders.trader_api import BUY, DAY, IOC, MARKET, POST_ONLY, SECOND_NS, SELL
from tests.agents.traders.stage import OPEN_NS, Asked, Stage, signs


def test_noise_crosses_to_the_other_touch_and_stops_after_its_orders() -> None:
    stage = Stage("noise", orders=200, interval_s=5)
    asked = [one for look in range(200) for one in stage.wake(look)]
    assert {(one.side, one.price_ticks) for one in asked} == {(BUY, 1001), (SELL, 999)}
    assert 60 < signs(asked).count(1) < 140
    assert stage.wake_s < 0, "after the last one it does not come back"
    assert Stage("noise").wake(1, bid=0, ask=0) == []


def test_noise_sizes_are_those_of_the_mixture() -> None:
    stage = Stage("noise", orders=10**9)
    lots = np.array([one.lots for look in range(4000) for one in stage.wake(look)])
    near_hundred = np.mean((lots >= 99) & (lots <= 101))
    assert abs(near_hundred - 0.7) < 0.04
    assert lots.min() >= 1


@pytest.mark.parametrize(("value", "side"), [(1050.0, BUY), (950.0, SELL)])
def test_value_trades_towards_its_estimate(value: float, side: int) -> None:
    stage = Stage("value", mean_ticks=1000, noise_variance_ticks2=4, aggressive_share=1.0)
    stage.value[:] = value
    for look in range(1, 6):
        asked = stage.wake(60 * look)
    assert [(one.side, one.price_ticks) for one in asked] == [(side, 1001 if side == BUY else 999)]
    assert abs(stage.memory[0] - value) < 5


def test_value_weighs_a_look_by_its_variance() -> None:
    stage = Stage("value", mean_ticks=1000, reversion_per_s=0, noise_variance_ticks2=100, drift_variance_ticks2_per_s=1)
    stage.wake(100)
    assert stage.memory[1] == pytest.approx(50), "100 of drift against 100 of noise"
    stage.wake(150)
    assert stage.memory[1] == pytest.approx(50), "100 again"


def test_value_replaces_its_order() -> None:
    stage = Stage("value", mean_ticks=1000)
    stage.open((BUY, 990, 5), (SELL, 1010, 5))
    assert len(stage.wake(60)) == 1
    assert stage.cancelled == [0, 1]


def test_momentum_buys_after_a_rise_and_sells_after_a_fall() -> None:
    for step, side in ((1, BUY), (-1, SELL)):
        stage = Stage("momentum", short_looks=5, long_looks=10)
        asked = [stage.wake(look, 999 + step * look, 1001 + step * look) for look in range(20)]
        assert not any(asked[:9]), "it has not seen enough"
        assert all(one[0].side == side for one in asked[9:])
        assert asked[-1][0].price_ticks == (1001 + 19 if side == BUY else 999 - 19)


def test_informed_takes_what_is_mispriced_a_horizon_ahead() -> None:
    stage = Stage("informed", horizon_s=60, threshold_ticks=2, lots_per_tick=10, position_lots_max=45)
    assert stage.wake(100) == []
    stage.value[150:] = 1010.0
    assert stage.wake(89) == []
    assert stage.wake(100) == [Asked(BUY, 1001, 45, IOC, 0)], "7 ticks are 71 lots, 45 are allowed"
    stage.hold(40)
    assert stage.wake(100) == [Asked(BUY, 1001, 5, IOC, 0)]
    stage.value[:] = 994.0
    assert stage.wake(100) == [Asked(SELL, 999, 31, IOC, 0)]


def test_participation_maker_leans_against_its_position_and_takes_its_share() -> None:
    stage = Stage("participation_maker", levels=3, participation=0.1, order_lots_min=20, spread_memory=0.0)
    flat = stage.wake(1, 990, 1010)
    assert [one.price_ticks for one in flat if one.side == BUY] == [990, 980, 970]
    assert [one.price_ticks for one in flat if one.side == SELL] == [1010, 1020, 1030]
    assert {one.lots for one in flat} == {20}
    stage.hold(5000)
    stage.view["traded_lots"] = 1000
    long = stage.wake(2, 990, 1010)
    assert {one.lots for one in long} == {100}
    assert max(one.price_ticks for one in long if one.side == BUY) < 990
    assert min(one.price_ticks for one in long if one.side == SELL) < 1010


def test_avellaneda_stoikov_quotes_as_the_formula_says() -> None:
    gamma, k, sigma2, horizon = 0.01, 0.3, 4.0, 20.0
    stage = Stage(
        "avellaneda_stoikov", risk_aversion=gamma, decay_per_tick=k, volatility_ticks_per_root_s=2, horizon_s=horizon
    )
    for position in (0, 500, -500):
        stage.hold(position)
        stage.memory[:] = 0
        bid, ask = stage.wake(10, 980, 1020)
        risk = gamma * sigma2 * horizon
        reservation = 1000 - position / 100 * risk
        half = 0.5 * risk + math.log(1 + gamma / k) / gamma
        assert bid == Asked(BUY, math.floor(reservation - half), 100, DAY, POST_ONLY)
        assert ask == Asked(SELL, math.ceil(reservation + half), 100, DAY, POST_ONLY)
    stage.hold(2000)
    assert [one.side for one in stage.wake(11, 980, 1020)] == [SELL], "the position is at its limit"


Row = tuple[int, int, int, int]


def expected_gain(known: list[Row], side: int, price: int, valuation: float, rejected_before_ns: int) -> float:
    """Gain times belief (Gjerstad and Dickhaut 1998), read off the definition."""
    sign = 1 if side == BUY else -1
    better = [row for row in known if sign * (row[2] - price) <= 0]
    worse = [row for row in known if sign * (row[2] - price) >= 0]
    accepted = sum(lots for _, what, _, lots in better if what >= 2 or what == 1 - side)
    shown = sum(lots for ns, what, _, lots in worse if what == side and ns <= rejected_before_ns)
    rejected = max(0, shown - sum(lots for _, what, _, lots in worse if what >= 2))
    return sign * (valuation - price) * accepted / (accepted + rejected) if accepted else 0.0


def test_belief_asks_for_the_best_of_the_prices_it_remembers() -> None:
    random = np.random.default_rng(3)
    sides = []
    for seed in range(40):
        stage = Stage("belief", seed, private_ticks=20, grace_s=5, memory_rows=40, holding_ticks_per_lot=0.1)
        stage.hold(50)
        flow = []
        for second in range(60):
            what, lots = int(random.choice(4, p=(0.4, 0.4, 0.1, 0.1))), int(random.integers(1, 30))
            row = (OPEN_NS + second * SECOND_NS, what, int(random.integers(985, 1016)), lots)
            stage.see(*row)
            flow.append(row)
        asked = stage.wake(60)
        known, valuation, before_ns = flow[-40:], 1000 + stage.memory[1] - 5, OPEN_NS + 55 * SECOND_NS
        best = [max(expected_gain(known, side, row[2], valuation, before_ns) for row in known) for side in (BUY, SELL)]
        if asked:
            side, price = asked[0].side, asked[0].price_ticks
            sides.append(side)
            assert expected_gain(known, side, price, valuation, before_ns) == pytest.approx(best[side])
            assert best[side] > 0
        else:
            assert min(best) <= 0
    assert sides.count(BUY) > 5 and sides.count(SELL) > 5


def test_belief_without_memory_waits() -> None:
    assert Stage("belief").wake(10) == []


def test_imbalance_goes_in_with_it_and_out_when_it_fades() -> None:
    stage = Stage("imbalance", levels=3, enter_above=0.5, leave_below=0.1, hold_s=60, order_lots=100)
    even, heavy_bid, heavy_ask = (10, 10, 10), (80, 10, 10), (10, 10, 10, 900)
    assert stage.wake(1, bids=even, asks=even) == []
    assert stage.wake(2, bids=heavy_bid, asks=even) == [Asked(BUY, 1001, 100, IOC, 0)]
    assert stage.wake(2, bids=even, asks=heavy_ask) == [], "the fourth level is none of its business"
    assert stage.wake(2, bids=even, asks=heavy_bid) == [Asked(SELL, 999, 100, IOC, 0)]
    stage.hold(100)
    assert stage.wake(3, bids=(14, 10, 10), asks=even) == [Asked(SELL, 999, 100, IOC, 0)], "it has faded"
    assert stage.wake(4, bids=(20, 10, 10), asks=even) == [], "not yet"
    assert stage.wake(70, bids=(20, 10, 10), asks=even) == [Asked(SELL, 999, 100, IOC, 0)], "it is late"


def test_institutional_follows_its_schedule() -> None:
    stage = Stage("institutional", pareto_exponent=0, lots_spread=0, parent_lots=1000, duration_s=100, buy_share=1)
    assert stage.wake(0) == []
    assert stage.wake(25) == [Asked(BUY, 1001, 250, IOC, 0)]
    stage.hold(200)
    assert stage.wake(50) == [Asked(BUY, 1001, 300, IOC, 0)]
    stage.open((BUY, 1001, 300))
    assert stage.wake(50) == [], "that is under way"
    stage.open()
    stage.hold(1000)
    assert stage.wake(90) == []
    assert stage.wake_s > 90, "a pause"
    assert stage.wake(1000) == [], "the next parent begins"
    assert stage.wake(1050) == [Asked(BUY, 1001, 500, IOC, 0)]


def test_institutional_takes_its_share_of_the_volume() -> None:
    stage = Stage("institutional", pareto_exponent=0, lots_spread=0, parent_lots=1000, participation=0.2, buy_share=0)
    assert stage.wake(0) == [Asked(SELL, 999, 1, IOC, 0)]
    stage.view["traded_lots"] = 400
    assert stage.wake(10) == [Asked(SELL, 999, 101, IOC, 0)], "101 of 501 are a fifth"


def test_institutional_sizes_have_the_tail_that_was_asked_for() -> None:
    """Hill's estimate of the tail exponent."""
    stage = Stage("institutional", pareto_exponent=1.5, parent_lots=100, parent_lots_max=10**9)
    sizes = []
    for number in range(4000):
        stage.memory[0] = 0
        stage.wake(number)
        sizes.append(stage.memory[0])
    tail = np.log(np.array(sizes) / 100)
    assert min(sizes) >= 100
    assert abs(1 / tail.mean() - 1.5) < 4 * 1.5 / math.sqrt(4000)


def test_stop_loss_buys_holds_and_sells_below_its_stop() -> None:
    stage = Stage("stop_loss", stop_ticks_min=20, stop_ticks=0, trailing=1, holding_lots=300)
    assert stage.wake(1) == [Asked(BUY, 1001, 300, IOC, 0)]
    stage.hold(300)
    assert stage.wake(2, 1029, 1031) == []
    assert stage.wake(3, 1010, 1012) == [], "19 below the highest"
    assert stage.wake(4, 1009, 1011) == [Asked(SELL, 0, 300, IOC, MARKET)]
    stage.hold(100)
    assert stage.wake(5, 1029, 1031) == [Asked(SELL, 0, 100, IOC, MARKET)], "once it sells it sells all"
    stage.hold(0)
    assert stage.wake(6) == [] and stage.wake_s > 6
    assert stage.wake(5000) == [Asked(BUY, 1001, 300, IOC, 0)], "again after a pause"


def test_stop_loss_distances_differ_and_are_drawn_once() -> None:
    stages = [Stage("stop_loss", seed, stop_ticks_min=10, stop_ticks=40) for seed in range(400)]
    for stage in stages:
        stage.wake(1)
    drawn = np.array([stage.memory[0] for stage in stages])
    for stage in stages:
        stage.wake(2)
    assert np.array_equal(drawn, [stage.memory[0] for stage in stages])
    assert drawn.min() >= 10
    assert abs(drawn.mean() - 50) < 4 * 40 / 20


def test_spoofer_shows_large_orders_that_flee() -> None:
    found = set()
    for seed in range(10):
        stage = Stage("spoofer", seed, spoof_lots=900, layers=2, distance_ticks=5, danger_ticks=2, real_lots=10)
        small, *large = stage.wake(1)
        found.add(small.side)
        side, other = small.side, 1 - small.side
        sign = 1 if side == BUY else -1
        mine, theirs = (999, 1001) if side == BUY else (1001, 999)
        assert small == Asked(side, mine, 10, DAY, POST_ONLY)
        away = [Asked(other, theirs + sign * ticks, 900, DAY, POST_ONLY) for ticks in (5, 6)]
        assert large == away
        stage.open((side, mine, 10), *((one.side, one.price_ticks, one.lots) for one in large))
        assert stage.wake(2) == [] and stage.cancelled == []
        moved = (999 + 4 * sign, 1001 + 4 * sign)
        assert stage.wake(3, *moved) == []
        assert stage.cancelled == [0, 1], "the small one is off the touch, a large one in danger"
        stage.open(*((one.side, one.price_ticks, one.lots) for one in large))
        stage.hold(10 * sign)
        restore_density = stage.wake(4)
        assert [(one.side, one.lots) for one in restore_density] == [(side, 900)] * 2, "the other way round now"
        assert stage.cancelled == [0, 1], "first the old ones have to go"
    assert found == {BUY, SELL}


def test_zero_intelligence_opens_a_book_where_there_is_none() -> None:
    asked = Stage("zero_intelligence", opening_levels=4).wake(0, bid=0, ask=0)
    assert [one.price_ticks for one in asked if one.side == BUY] == [999, 998, 997, 996]
    assert [one.price_ticks for one in asked if one.side == SELL] == [1001, 1002, 1003, 1004]
