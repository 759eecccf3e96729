"""Executors against makers: each alone is as in its own market, both together meet, and either side plays the same match."""

from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment.dynamic import TRADED_FIELDS, DynamicMarket
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.reactive import Passive
from serl.agents.execution.policies.schedules import Twap
from serl.agents.league import report
from serl.agents.league.config import LeagueConfig
from serl.agents.league.league import Cell, League, pooled
from serl.agents.league.market import ORDERS, LeagueMarket
from serl.agents.league.players import EXECUTOR, MAKER, Mixed, self_play
from serl.agents.learning.evaluation import execute_orders
from serl.agents.making.makers import Symmetric
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.records import DECISION
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError
from tests.agents.half_hour import SMALL as HALF_HOUR
from tests.agents.traders.test_rules import population

SMALL = load_population(HALF_HOUR)
SECOND_NS = 10**9
CONFIG = LeagueConfig(population=HALF_HOUR, environments=4, duration_s=60, simulated_days=2)
ALL = np.arange(4)


def episodes() -> Any:
    """Four windows of a minute, two of each side."""
    rows = np.zeros(4, EPISODE)
    rows["day"], rows["sign"], rows["qty_lots"] = [0, 0, 1, 1], [1, -1, 1, -1], 500
    rows["start_ns"] = SMALL.open_ns + 600 * SECOND_NS + np.arange(4) * 60 * SECOND_NS
    rows["interval_ns"], rows["steps"] = SECOND_NS, 60
    return rows


def children(step: int) -> Any:
    rows = np.zeros(4, CHILD)
    rows["market_lots"], rows["limit_lots"], rows["limit_ticks"] = step % 3, 20, [10_010, 9_990, 10_002, 9_998]
    return rows


def quotes(frames: Any) -> Any:
    """At the touch."""
    rows = np.zeros(4, DECISION)
    rows["price_ticks"] = np.stack([frames["bid_ticks"][:, 0], frames["ask_ticks"][:, 0]], 1)
    rows["lots"] = 30
    return rows


def orders(*, decides: bool, child: Any = None, quote: Any = None) -> Any:
    rows = np.zeros(4, ORDERS)
    rows["decides"] = decides
    if child is not None:
        rows["child"] = child
    if quote is not None:
        rows["quotes"] = quote
    return rows


@pytest.mark.long
def test_an_executor_beside_a_silent_maker_is_alone() -> None:
    league, alone = LeagueMarket(SMALL, 4), DynamicMarket(SMALL, 4)
    for market in (league, alone):
        market.reset(ALL, episodes())
    traded = 0
    for step in range(1, 31):
        until_ns = episodes()["start_ns"] + step * SECOND_NS
        league.step(orders(decides=True, child=children(step)), until_ns)
        alone.step(children(step), until_ns)
        for name in league.fills.dtype.names or ():
            np.testing.assert_array_equal(league.fills[name], alone.fills[name], name)
        np.testing.assert_array_equal(league.frames, alone.frames)
        traded += int(alone.fills["lots"].sum())
    assert traded > 100 and not league.positions["lots"].any()
    league.close()
    alone.close()


def test_a_maker_beside_an_idle_executor_is_alone() -> None:
    league, alone = LeagueMarket(SMALL, 4), PositionMarket(SMALL, 4)
    for market in (league, alone):
        market.reset(ALL, episodes())
    for step in range(1, 31):
        until_ns = episodes()["start_ns"] + step * SECOND_NS
        decision = quotes(alone.frames)
        league.step(orders(decides=False, quote=decision), until_ns)
        alone.step(decision.copy(), until_ns)
        np.testing.assert_array_equal(league.positions, alone.positions)
        np.testing.assert_array_equal(league.frames, alone.frames)
        np.testing.assert_array_equal(league.maker_fills["lots"], alone.fills["lots"])
    assert alone.positions["lots"].any()
    league.close()
    alone.close()


def test_they_trade_with_each_other_and_the_books_balance() -> None:
    """The maker's quotes are alone inside the spread, and the executor takes them."""
    league = LeagueMarket(SMALL, 4)
    league.reset(ALL, episodes())
    met = 0
    for step in range(1, 41):
        decision = quotes(league.frames)
        inside = np.diff(decision["price_ticks"], axis=1)[:, 0] >= 3
        decision["price_ticks"] += np.outer(inside, [1, -1])
        child = np.zeros(4, CHILD)
        child["market_lots"] = 10
        league.step(orders(decides=True, child=child, quote=decision), episodes()["start_ns"] + step * SECOND_NS)
        assert (league.fills["lots"] == 10).all()
        met += int(league.maker_fills["lots"].sum())
        for env in range(4):
            accounts = [league._states[env].market.account(participant, 0) for participant in range(3)]
            assert sum(one.position_lots for one in accounts) == sum(one.cash_ticks for one in accounts) == 0
            assert accounts[1].position_lots == -10 * step * int(episodes()["sign"][env])
            assert accounts[2].position_lots == league.positions["lots"][env]
    assert met > 100
    league.close()


def test_an_order_stays_until_the_executor_decides_again() -> None:
    league, child = LeagueMarket(SMALL, 4), np.zeros(4, CHILD)
    league.reset(ALL, episodes())
    child["limit_lots"], child["limit_ticks"] = 7, np.where(episodes()["sign"] > 0, 10_500, 9_500)
    for step, decides in enumerate((True, False, False, True), 1):
        sent = child if step == 1 else None
        league.step(orders(decides=decides, child=sent), episodes()["start_ns"] + step * SECOND_NS)
        assert (league.fills["resting_lots"] == (0 if step == 4 else 7)).all()
    league.close()


def test_an_executor_sees_all_trades_of_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    league = League(CONFIG)
    side = league.executor_side(Symmetric(1.0), "train")
    env = ExecutionVectorEnv(side, league._train)
    steps: list[Any] = []
    step_market = league.market.step

    def step(rows: Any, until_ns: Any) -> None:
        step_market(rows, until_ns)
        steps.append((rows["decides"].copy(), league.market.frames.copy(), league.market.fills["lots"].copy()))

    monkeypatch.setattr(league.market, "step", step)
    env.reset(seed=1)
    for _ in range(5):
        steps.clear()
        env.step(np.full((4, 1), 0.2))
        assert [decides.tolist() for decides, _, _ in steps] == [[1] * 4, *[[0] * 4] * 9]
        for name in TRADED_FIELDS:
            np.testing.assert_array_equal(side.frames[name], sum(frames[name] for _, frames, _ in steps))
        np.testing.assert_array_equal(side.fills["lots"], sum(lots for _, _, lots in steps))
        assert side.frames["traded_lots"].any() and (side.frames["time_ns"] == steps[-1][1]["time_ns"]).all()
    league.close()


@pytest.mark.parametrize("policy", [Twap(), Passive()])
def test_both_sides_play_the_same_match(policy: Twap | Passive) -> None:
    """Driven by the executor's environment, and by the maker's."""
    league, maker = League(CONFIG), Symmetric(0.5)
    making = league.maker_env([policy])
    making.reset(seed=3)
    sampler: Any = making.sampler
    drawn = sampler.drawn.copy()
    results: dict[str, Any] = {}
    while not results:
        *_, info = making.step(making.actions_of(maker.offsets(making)))
        results = info.get("results", {})
    executor = league.executor_side(maker, "train")
    env = ExecutionVectorEnv(executor, league._train, actions=policy.modes[0])
    found = execute_orders(env, policy, drawn)
    for name, values in executor.maker_results().items():
        if name not in (
            "sharpe",
            "inventory_mean_lots",
            "drawdown",
        ):  # the executor's side records once more before all close
            np.testing.assert_allclose(results[name], values, err_msg=name)
    assert results["turnover_lots"].all() and np.isfinite(found.results["pa_bps"]).all()
    assert not results["left_lots"].any()
    league.close()


def test_a_maker_has_the_same_clock_in_training_and_in_a_match() -> None:
    class Clock:
        name = "clock"

        def __init__(self) -> None:
            self.seen: list[tuple[float, float]] = []

        def offsets(self, env: Any) -> Any:
            self.seen.append((float(env.remaining_s[0]), float(env.observe()[0, 0])))
            return np.ones((env.num_envs, 2))

    league, trained, met = League(CONFIG), Clock(), Clock()
    making = league.maker_env([Twap()])
    making.reset(seed=3)
    sampler: Any = making.sampler
    drawn, ended = sampler.drawn.copy(), False
    while not ended:
        *_, info = making.step(making.actions_of(trained.offsets(making)))
        ended = "results" in info
    executor = league.executor_side(met, "train")
    execute_orders(ExecutionVectorEnv(executor, league._train, actions="market"), Twap(), drawn)
    assert met.seen == trained.seen and met.seen[0] == (CONFIG.duration_s, 1.0)
    league.close()


def test_each_opponent_plays_in_its_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    league = League(CONFIG)
    making = league.maker_env([Twap(), Passive()])
    making.reset(seed=1)
    mixed = Mixed([Symmetric(0.5), Symmetric(4.0)])
    offsets = mixed.offsets(making)
    assert offsets.tolist() == [[0.5, 0.5], [4.0, 4.0]] * 2
    sent: list[Any] = []
    step = league.market.step

    def spied(rows: Any, until_ns: Any) -> None:
        sent.append(rows["child"].copy())
        step(rows, until_ns)

    monkeypatch.setattr(league.market, "step", spied)
    making.step(making.actions_of(offsets))
    assert (sent[0]["limit_lots"] > 0).tolist() == [False, True, False, True], "TWAP takes, the other one rests"
    league.close()


@pytest.mark.long
def test_self_play_is_determined_by_its_seed() -> None:
    found: list[list[Any]] = []
    for seed in (1, 1, 2):
        league = League(CONFIG)
        executor = EXECUTOR.model_copy(
            update={"steps": 48, "rollout_steps": 6, "minibatch": 24, "epochs": 1, "seed": seed}
        )
        maker = MAKER.model_copy(update={"steps": 160, "rollout_steps": 20, "minibatch": 40, "epochs": 1, "seed": seed})
        policies, makers = self_play(league, [Twap()], [Symmetric(1.0)], 2, executor, maker)
        assert [each.name for each in (*policies, *makers)] == ["PPO, round 1", "PPO, round 2"] * 2
        cell = league.meet(policies[-1], makers[-1], 6, 1)
        assert (
            len(cell.pa_bps) == len(cell.profit_ticks) == len(cell.days) == 6 and np.isfinite(cell.profit_ticks).all()
        )
        found.append([cell.pa_bps.tolist(), cell.profit_ticks.tolist()])
        league.close()
    assert found[0] == found[1] != found[2]


def test_cells_of_several_seeds_are_averaged_by_window() -> None:
    cells = [
        Cell("a", "m", np.array(pa), np.array(profit), np.array([1, 2]))
        for pa, profit in (([1.0, 3], [2.0, 2]), ([3.0, 5], [4.0, 0]))
    ]
    (advantage, half), (profit, _) = pooled(cells).means()
    assert (advantage, profit) == (3.0, 2.0) and half == pytest.approx(12.706 * 1.0, rel=1e-3)


def test_a_cell_without_trades_has_no_advantage() -> None:
    """The executor cannot be compared with a market that did not trade; the maker's profit is known."""
    cell = Cell("a", "m", np.array([np.nan, np.nan]), np.array([2.0, 4.0]), np.array([1, 2]))
    (advantage, _), (profit, half) = cell.means()
    assert np.isnan(advantage) and profit == 3.0 and half > 0
    texts = [report._text(measure, cell) for measure in report.MEASURES]
    assert texts[0] == "no trades" and "nan" not in "".join(texts)


def test_bad_settings() -> None:
    league = League(CONFIG)
    making = league.maker_env([Twap()])
    with pytest.raises(ConfigError, match="expected the windows that the environment drew with their parent orders"):
        making.reset(options={"episodes": league._train.sample(np.random.default_rng(1), 4)})
    league.close()
    with pytest.raises(PopulationError, match="expected a market without rules in a league"):
        LeagueMarket(population(fees={"taker_ppm": 10}), 1)
    with pytest.raises(PopulationError, match="expected one symbol"):
        LeagueMarket(load_population("pair"), 1)
    with pytest.raises(ValueError, match=r"duration_s: expected a multiple of interval_s \(10\), got 25"):
        LeagueConfig(duration_s=25)
    with pytest.raises(ValueError, match="expected latency_us of at most the 1 s between two decisions"):
        LeagueConfig(latency_us=2e6)
    assert LeagueConfig(latency_us=1e6).making("train").latency_us == 1e6


@pytest.mark.parametrize(("duration_s", "interval_s"), [(60, 0.1), (3, 0.3), (300, 10)])
def test_intervals_may_be_fractions_of_a_second(duration_s: float, interval_s: float) -> None:
    """60 % 0.1 is not 0."""
    assert LeagueConfig(duration_s=duration_s, interval_s=interval_s).interval_s == interval_s
