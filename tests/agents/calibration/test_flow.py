"""The flow trader."""

import numpy as np
import pytest

from serl.agents.calibration.measure import own_touch_distance
from serl.agents.realism.messages import LIMIT
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Tape, build_tape
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.flow_tables import uniform_table
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.simulate import Simulation, simulate
from tests.agents.calibration.sample import OPEN_NS, flow

END_NS = OPEN_NS + 20 * MINUTE_NS


def test_the_book_keeps_both_sides_and_the_same_seed_gives_the_same_day() -> None:
    one, two, other = (simulate(flow(), seed, END_NS) for seed in (1, 1, 2))
    assert one.commands.tobytes() == two.commands.tobytes() != other.commands.tobytes()
    tape = build_tape(one)
    assert tape.two_sided[100:].mean() > 0.99
    assert one.reference.counts["requests_dropped"] == 0


def test_wide_spreads_attract_orders_inside() -> None:
    """The spread is wider if few orders go inside it."""
    spreads = []
    for share in (0.02, 0.5):
        tape = build_tape(simulate(flow(inside_share=(share,) * 6), 1, END_NS))
        spreads.append(np.nanmean((tape.ask - tape.bid)[1:][tape.two_sided[1:]]))
    assert spreads[0] > 1.5 * spreads[1]


def response_ticks(tape: Tape, after_s: float) -> float:
    """Mean move of the mid from before each trade until later, towards the trade."""
    trades = np.flatnonzero(tape.trades & tape.two_sided[:-1] & (tape.time_ns < END_NS - 60 * SECOND_NS))
    later = np.searchsorted(tape.time_ns, tape.time_ns[trades] + int(after_s * SECOND_NS), side="right")
    moves = tape.sign[trades] * (tape.mid[later] - tape.mid[trades])
    return float(np.nanmean(moves))


def test_informed_orders_are_followed_by_the_price() -> None:
    """Without them, what a market order moves comes back."""
    found = []
    for informed in (0.0, 4.0):
        tapes = [build_tape(simulate(flow(informed=informed, noise_ticks=0.5), seed, END_NS)) for seed in (1, 2, 3)]
        found.append(np.mean([response_ticks(tape, 30.0) for tape in tapes]))
    assert found[1] > found[0] + 1.0 and found[1] > 0


def test_limit_orders_follow_the_side_of_recent_trades() -> None:
    """The mid goes on within a second; the reference price does not, and brings it back."""
    found = {}
    for push in (0.0, 5.0):
        tapes = [build_tape(simulate(flow(push=push, cancel_lean=1.0), seed, END_NS)) for seed in (1, 2, 3)]
        found[push] = [np.mean([response_ticks(tape, after_s) for tape in tapes]) for after_s in (1.0, 60.0)]
    assert found[5.0][0] > found[0.0][0] + 0.3
    assert found[5.0][1] < found[5.0][0], found


def test_market_orders_come_when_the_spread_is_narrow() -> None:
    """As the odds by spread say; with equal odds they do not care."""
    odds = np.ones((6, 3))
    odds[:2, 1], odds[4:, 1] = 4.0, 0.25
    spreads = []
    for chosen in (np.ones((6, 3)), odds):
        tape = build_tape(simulate(flow(kind_odds=chosen.ravel().tolist()), 1, END_NS))
        wide = (tape.ask - tape.bid)[:-1]
        spreads.append(wide[tape.trades & tape.two_sided[:-1]].mean() / wide[tape.two_sided[:-1]].mean())
    assert spreads[1] < 0.85 * spreads[0]


def mean_mid(population: PopulationConfig, seed: int) -> float:
    """From five minutes after the open."""
    tape = build_tape(simulate(population, seed, END_NS))
    return float(np.nanmean(tape.mid[1:][tape.time_ns > OPEN_NS + 5 * MINUTE_NS]))


def beside(population: PopulationConfig, trader: str, **profile: float) -> PopulationConfig:
    """The population and one more trader."""
    group = {"trader": trader, "latency_us": 1.0, "start_spread_s": 0.0, "profile": profile}
    values = population.model_dump()
    modules = ["tests.agents.traders.sample_traders"]
    return check_population(values | {"modules": modules, "groups": [*values["groups"], group]}, "beside")


def with_buyer(population: PopulationConfig, lots: int) -> PopulationConfig:
    schedule = {"start_s": 300.0, "participation": 0.0, "duration_s": 600.0, "child_lots": 50}
    return beside(population, "metaorder", order_lots=lots, **schedule)


def test_only_what_others_take_moves_the_reference_price() -> None:
    """Alone, the flow has the same day whatever its impact; another participant's metaorder pays more where it is larger."""
    small, large = (flow(impact_ticks_per_root_lot=ticks) for ticks in (0.02, 0.5))
    assert simulate(small, 1, END_NS).commands.tobytes() == simulate(large, 1, END_NS).commands.tobytes()
    paid = [
        np.mean([mean_mid(with_buyer(one, 5000), seed) - mean_mid(with_buyer(one, 0), seed) for seed in (1, 2, 3)])
        for one in (small, large)
    ]
    assert paid[1] > paid[0] + 1.0 and paid[0] > -0.5


def test_fills_of_others_resting_orders_move_no_price() -> None:
    """They would pay whoever rests on both sides (docs/answering.md). The bidder is filled, by limit orders too: none keeps a tick away."""
    still, moved = (Simulation(beside(flow(impact_ticks_per_root_lot=ticks), "bidder"), 1) for ticks in (0.0, 0.5))
    for simulation in (still, moved):
        simulation.advance(END_NS)
    assert still.commands.tobytes() == moved.commands.tobytes()
    last = still.population.traders - 1
    assert still.crowd.traders.agents["position_lots"][last] > 100


def test_the_book_is_as_dense_as_it_is_to_be_whatever_is_cancelled() -> None:
    """More cancellations than limit orders: a pull by the distance alone would rest far below."""
    shares = (0.36, 0.04, 0.6) * 3
    tape = build_tape(
        simulate(
            flow(next_share=shares, lots_per_tick=(40.0, 40.0), restoring=0.5, reserve_ticks=60.0),
            1,
            OPEN_NS + 60 * MINUTE_NS,
        )
    )
    later = (tape.time_ns > OPEN_NS + 20 * MINUTE_NS) & (tape.book_ticks[1:, :, -1] > 0).all(axis=1)
    reach = np.abs(tape.book_ticks[1:, :, -1] - tape.book_ticks[1:, :, 0])[later]
    density = tape.book_lots[1:].sum(axis=2)[later] / reach
    assert abs(np.log(density).mean() - np.log(40.0)) < 0.15


def test_the_density_is_kept_behind_the_touch() -> None:
    """A thinner book has more limit orders, and as many that improve the price."""
    shares = []
    for lots_per_tick in (40.0, 400.0):
        population = flow(lots_per_tick=(lots_per_tick,) * 2, restoring=2.0, spread_edges_ticks=(90.0,) * 5)
        tape = build_tape(simulate(population, 1, OPEN_NS + 60 * MINUTE_NS)).window(
            OPEN_NS + 10 * MINUTE_NS, OPEN_NS + 60 * MINUTE_NS
        )
        distance = own_touch_distance(tape, np.arange(len(tape)))
        shares.append([((tape.kind == LIMIT) & (distance < 0)).mean(), (tape.kind == LIMIT).mean()])
    improving, limits = np.divide(shares[0], shares[1])
    assert limits > 1.15 and abs(improving - 1.0) < 0.1, shares


def test_orders_in_reserve_keep_the_book_full() -> None:
    """All levels are shown although the price wanders away from where orders came before."""
    missing = []
    for reserve_ticks in (0.0, 60.0):
        population = flow(
            reserve_ticks=reserve_ticks,
            reserve_gap_ticks=3.0,
            noise_ticks=1.0,
            lean=2.0,
            distance_ticks=tuple(uniform_table(0, 6)) * 6,
        )
        tape = build_tape(simulate(population, 1, END_NS))
        later = tape.time_ns > OPEN_NS + 5 * MINUTE_NS
        missing.append((tape.book_ticks[1:, :, -1] == 0).any(axis=1)[later].mean())
    assert missing[0] > 0.1 and missing[1] < missing[0] / 10


def test_orders_in_reserve_reach_as_far_as_they_are_to() -> None:
    """Whether or not all levels are shown; without them nothing stands beyond where orders come."""
    reaches = []
    for reserve_ticks in (0.0, 60.0):
        simulation = Simulation(
            flow(
                reserve_ticks=reserve_ticks,
                reserve_gap_ticks=3.0,
                visible_levels=2,
                distance_ticks=tuple(uniform_table(0, 6)) * 6,
            ),
            1,
        )
        simulation.advance(END_NS)
        reaches.append([abs(side[-1][0] - side[0][0]) for side in simulation.market.book(0, 200)])
    assert min(reaches[1]) >= 60 > 2 * max(reaches[0])


def test_a_population_of_an_earlier_model_says_what_to_do() -> None:
    with pytest.raises(
        PopulationError, match=r"got one of an earlier `serl calibrate` \(no touch_edges_lots\); calibrate its day"
    ):
        flow(wait_log_s=(0.0,) * 297)
