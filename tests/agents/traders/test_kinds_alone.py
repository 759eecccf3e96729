"""Each kind of trader alone on a test bench: its requests for a given market."""

import math

import numpy as np
import pytest

from serl.agents.traders.trader_api import BUY, DAY, IOC, MARKET, POST_ONLY, SECOND_NS, SELL
from tests.agents.traders.trader_bench import OPEN_NS, OrderRequest, TraderBench, signs


def test_noise_crosses_to_the_other_touch_and_stops_after_its_orders() -> None:
    bench = TraderBench("noise", orders=200, interval_s=5)
    requests = [one for look in range(200) for one in bench.wake(look)]
    assert {(one.side, one.price_ticks) for one in requests} == {(BUY, 1001), (SELL, 999)}
    assert 60 < signs(requests).count(1) < 140
    assert bench.wake_s < 0, "after the last order it is not woken again"
    assert TraderBench("noise").wake(1, bid=0, ask=0) == []


def test_noise_sizes_are_those_of_the_mixture() -> None:
    bench = TraderBench("noise", orders=10**9)
    lots = np.array([one.lots for look in range(4000) for one in bench.wake(look)])
    near_hundred = np.mean((lots >= 99) & (lots <= 101))
    assert abs(near_hundred - 0.7) < 0.04
    assert lots.min() >= 1


@pytest.mark.parametrize(("value", "side"), [(1050.0, BUY), (950.0, SELL)])
def test_value_trades_towards_its_estimate(value: float, side: int) -> None:
    bench = TraderBench("value", mean_ticks=1000, noise_variance_ticks2=4, aggressive_share=1.0)
    bench.value[:] = value
    for look in range(1, 6):
        requests = bench.wake(60 * look)
    assert [(one.side, one.price_ticks) for one in requests] == [(side, 1001 if side == BUY else 999)]
    assert abs(bench.memory[0] - value) < 5


def test_value_weighs_a_look_by_its_variance() -> None:
    bench = TraderBench(
        "value", mean_ticks=1000, reversion_per_s=0, noise_variance_ticks2=100, drift_variance_ticks2_per_s=1
    )
    bench.wake(100)
    assert bench.memory[1] == pytest.approx(50), "100 of drift against 100 of noise"
    bench.wake(150)
    assert bench.memory[1] == pytest.approx(50), "100 again"


def test_value_replaces_its_order() -> None:
    bench = TraderBench("value", mean_ticks=1000)
    bench.set_open_orders((BUY, 990, 5), (SELL, 1010, 5))
    assert len(bench.wake(60)) == 1
    assert bench.cancelled == [0, 1]


def test_momentum_buys_after_a_rise_and_sells_after_a_fall() -> None:
    for step, side in ((1, BUY), (-1, SELL)):
        bench = TraderBench("momentum", short_looks=5, long_looks=10)
        requests = [bench.wake(look, 999 + step * look, 1001 + step * look) for look in range(20)]
        assert not any(requests[:9]), "it has too few observations"
        assert all(one[0].side == side for one in requests[9:])
        assert requests[-1][0].price_ticks == (1001 + 19 if side == BUY else 999 - 19)


def test_informed_takes_what_is_mispriced_a_horizon_ahead() -> None:
    bench = TraderBench("informed", horizon_s=60, threshold_ticks=2, lots_per_tick=10, position_lots_max=45)
    assert bench.wake(100) == []
    bench.value[150:] = 1010.0
    assert bench.wake(89) == []
    assert bench.wake(100) == [OrderRequest(BUY, 1001, 45, IOC, 0)], "7 ticks are 71 lots, 45 are allowed"
    bench.set_position(40)
    assert bench.wake(100) == [OrderRequest(BUY, 1001, 5, IOC, 0)]
    bench.value[:] = 994.0
    assert bench.wake(100) == [OrderRequest(SELL, 999, 31, IOC, 0)]


def test_participation_maker_leans_against_its_position_and_takes_its_share() -> None:
    bench = TraderBench("participation_maker", levels=3, participation=0.1, order_lots_min=20, spread_memory=0.0)
    flat = bench.wake(1, 990, 1010)
    assert [one.price_ticks for one in flat if one.side == BUY] == [990, 980, 970]
    assert [one.price_ticks for one in flat if one.side == SELL] == [1010, 1020, 1030]
    assert {one.lots for one in flat} == {20}
    bench.set_position(5000)
    bench.view["traded_lots"] = 1000
    long = bench.wake(2, 990, 1010)
    assert {one.lots for one in long} == {100}
    assert max(one.price_ticks for one in long if one.side == BUY) < 990
    assert min(one.price_ticks for one in long if one.side == SELL) < 1010


def test_participation_maker_quotes_no_wider_than_its_limit() -> None:
    bench = TraderBench("participation_maker", levels=2, spread_memory=0.0, spread_bps_max=100.0)
    for bid, ask in ((500, 1500), (1, 1999)):
        assert sorted(one.price_ticks for one in bench.wake(1, bid, ask)) == [990, 995, 1005, 1010]
    wide = TraderBench("participation_maker", levels=1, spread_memory=0.0, spread_bps_max=10_000.0)
    assert [one.price_ticks for one in wide.wake(1, 500, 1500)] == [500, 1500]


def test_orders_do_not_run_away_where_the_book_is_crossed() -> None:
    """As it may be while orders are collected: the spread is then no distance."""
    maker, trader = (
        TraderBench("participation_maker", levels=2, spread_memory=0.5),
        TraderBench("value", mean_ticks=1000),
    )
    for look in range(20):
        prices = [one.price_ticks for bench in (maker, trader) for one in bench.wake(look, bid=1300, ask=700)]
        assert min(prices) >= 700 and max(prices) <= 1300
    assert maker.memory[0] >= 0


def test_avellaneda_stoikov_quotes_as_the_formula_says() -> None:
    gamma, k, sigma2, horizon = 0.01, 0.3, 4.0, 20.0
    bench = TraderBench(
        "avellaneda_stoikov", risk_aversion=gamma, decay_per_tick=k, volatility_ticks_per_root_s=2, horizon_s=horizon
    )
    for position in (0, 500, -500):
        bench.set_position(position)
        bench.memory[:] = 0
        bid, ask = bench.wake(10, 980, 1020)
        risk = gamma * sigma2 * horizon
        reservation = 1000 - position / 100 * risk
        half = 0.5 * risk + math.log(1 + gamma / k) / gamma
        assert bid == OrderRequest(BUY, math.floor(reservation - half), 100, DAY, POST_ONLY)
        assert ask == OrderRequest(SELL, math.ceil(reservation + half), 100, DAY, POST_ONLY)
    bench.set_position(2000)
    assert [one.side for one in bench.wake(11, 980, 1020)] == [SELL], "the position is at its limit"


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


def test_belief_quotes_the_best_of_the_observed_prices() -> None:
    random = np.random.default_rng(3)
    sides = []
    for seed in range(40):
        bench = TraderBench("belief", seed, private_ticks=20, grace_s=5, memory_rows=40, holding_ticks_per_lot=0.1)
        bench.set_position(50)
        flow = []
        for second in range(60):
            what, lots = int(random.choice(4, p=(0.4, 0.4, 0.1, 0.1))), int(random.integers(1, 30))
            row = (OPEN_NS + second * SECOND_NS, what, int(random.integers(985, 1016)), lots)
            bench.add_public(*row)
            flow.append(row)
        requests = bench.wake(60)
        known, valuation, before_ns = flow[-40:], 1000 + bench.memory[1] - 5, OPEN_NS + 55 * SECOND_NS
        best = [max(expected_gain(known, side, row[2], valuation, before_ns) for row in known) for side in (BUY, SELL)]
        if requests:
            side, price = requests[0].side, requests[0].price_ticks
            sides.append(side)
            assert expected_gain(known, side, price, valuation, before_ns) == pytest.approx(best[side])
            assert best[side] > 0
        else:
            assert min(best) <= 0
    assert sides.count(BUY) > 5 and sides.count(SELL) > 5


def test_belief_without_observations_waits() -> None:
    assert TraderBench("belief").wake(10) == []


def test_imbalance_enters_with_it_and_exits_when_it_fades() -> None:
    bench = TraderBench("imbalance", levels=3, enter_above=0.5, leave_below=0.1, hold_s=60, order_lots=100)
    even, heavy_bid, heavy_ask = (10, 10, 10), (80, 10, 10), (10, 10, 10, 900)
    assert bench.wake(1, bids=even, asks=even) == []
    assert bench.wake(2, bids=heavy_bid, asks=even) == [OrderRequest(BUY, 1001, 100, IOC, 0)]
    assert bench.wake(2, bids=even, asks=heavy_ask) == [], "the fourth level is ignored"
    assert bench.wake(2, bids=even, asks=heavy_bid) == [OrderRequest(SELL, 999, 100, IOC, 0)]
    bench.set_position(100)
    assert bench.wake(3, bids=(14, 10, 10), asks=even) == [OrderRequest(SELL, 999, 100, IOC, 0)], (
        "the imbalance has faded"
    )
    assert bench.wake(4, bids=(20, 10, 10), asks=even) == [], "not yet"
    assert bench.wake(70, bids=(20, 10, 10), asks=even) == [OrderRequest(SELL, 999, 100, IOC, 0)], (
        "the maximum time has passed"
    )


def test_institutional_follows_its_schedule() -> None:
    bench = TraderBench(
        "institutional", pareto_exponent=0, lots_spread=0, parent_lots=1000, duration_s=100, buy_share=1
    )
    assert bench.wake(0) == []
    assert bench.wake(25) == [OrderRequest(BUY, 1001, 250, IOC, 0)]
    bench.set_position(200)
    assert bench.wake(50) == [OrderRequest(BUY, 1001, 300, IOC, 0)]
    bench.set_open_orders((BUY, 1001, 300))
    assert bench.wake(50) == [], "the order is in flight"
    bench.set_open_orders()
    bench.set_position(1000)
    assert bench.wake(90) == []
    assert bench.wake_s > 90, "a pause"
    assert bench.wake(1000) == [], "the next parent begins"
    assert bench.wake(1050) == [OrderRequest(BUY, 1001, 500, IOC, 0)]


def test_institutional_takes_its_share_of_the_volume() -> None:
    bench = TraderBench(
        "institutional", pareto_exponent=0, lots_spread=0, parent_lots=1000, participation=0.2, buy_share=0
    )
    assert bench.wake(0) == [OrderRequest(SELL, 999, 1, IOC, 0)]
    bench.view["traded_lots"] = 400
    assert bench.wake(10) == [OrderRequest(SELL, 999, 101, IOC, 0)], "101 of 501 are a fifth"


def test_institutional_sizes_have_the_tail_of_the_profile() -> None:
    """Hill's estimate of the tail exponent."""
    bench = TraderBench("institutional", pareto_exponent=1.5, parent_lots=100, parent_lots_max=10**9)
    sizes = []
    for number in range(4000):
        bench.memory[0] = 0
        bench.wake(number)
        sizes.append(bench.memory[0])
    tail = np.log(np.array(sizes) / 100)
    assert min(sizes) >= 100
    assert abs(1 / tail.mean() - 1.5) < 4 * 1.5 / math.sqrt(4000)


def test_stop_loss_buys_holds_and_sells_below_its_stop() -> None:
    bench = TraderBench("stop_loss", stop_ticks_min=20, stop_ticks=0, trailing=1, holding_lots=300)
    assert bench.wake(1) == [OrderRequest(BUY, 1001, 300, IOC, 0)]
    bench.set_position(300)
    assert bench.wake(2, 1029, 1031) == []
    assert bench.wake(3, 1010, 1012) == [], "19 ticks below the highest mid"
    assert bench.wake(4, 1009, 1011) == [OrderRequest(SELL, 0, 300, IOC, MARKET)]
    bench.set_position(100)
    assert bench.wake(5, 1029, 1031) == [OrderRequest(SELL, 0, 100, IOC, MARKET)], "once it sells, it sells everything"
    bench.set_position(0)
    assert bench.wake(6) == [] and bench.wake_s > 6
    assert bench.wake(5000) == [OrderRequest(BUY, 1001, 300, IOC, 0)], "again after a pause"


def test_stop_loss_distances_differ_and_are_drawn_once() -> None:
    benches = [TraderBench("stop_loss", seed, stop_ticks_min=10, stop_ticks=40) for seed in range(400)]
    for bench in benches:
        bench.wake(1)
    drawn = np.array([bench.memory[0] for bench in benches])
    for bench in benches:
        bench.wake(2)
    assert np.array_equal(drawn, [bench.memory[0] for bench in benches])
    assert drawn.min() >= 10
    assert abs(drawn.mean() - 50) < 4 * 40 / 20


def test_spoofer_cancels_large_orders_near_the_touch() -> None:
    found = set()
    for seed in range(10):
        bench = TraderBench("spoofer", seed, spoof_lots=900, layers=2, distance_ticks=5, danger_ticks=2, real_lots=10)
        small, *large = bench.wake(1)
        found.add(small.side)
        side, other = small.side, 1 - small.side
        sign = 1 if side == BUY else -1
        mine, theirs = (999, 1001) if side == BUY else (1001, 999)
        assert small == OrderRequest(side, mine, 10, DAY, POST_ONLY)
        layers = [OrderRequest(other, theirs + sign * ticks, 900, DAY, POST_ONLY) for ticks in (5, 6)]
        assert large == layers
        bench.set_open_orders((side, mine, 10), *((one.side, one.price_ticks, one.lots) for one in large))
        assert bench.wake(2) == [] and bench.cancelled == []
        moved = (999 + 4 * sign, 1001 + 4 * sign)
        assert bench.wake(3, *moved) == []
        assert bench.cancelled == [0, 1], "the small order is off the touch, a large one too near to it"
        bench.set_open_orders(*((one.side, one.price_ticks, one.lots) for one in large))
        bench.set_position(10 * sign)
        restore_density = bench.wake(4)
        assert [(one.side, one.lots) for one in restore_density] == [(side, 900)] * 2, "the sides have swapped"
        assert bench.cancelled == [0, 1], "the old large orders are cancelled first"
    assert found == {BUY, SELL}


def test_zero_intelligence_fills_an_empty_book() -> None:
    requests = TraderBench("zero_intelligence", opening_levels=4).wake(0, bid=0, ask=0)
    assert [one.price_ticks for one in requests if one.side == BUY] == [999, 998, 997, 996]
    assert [one.price_ticks for one in requests if one.side == SELL] == [1001, 1002, 1003, 1004]
