"""Trading pairs: values and prices that are cointegrated, profits that the tape of events gives again, hedges, and bad settings."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.utils.env_checker import check_env

import serl.environments
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.simulated_step import OUR_PARTICIPANT
from serl.agents.pairs.config import pair_settings
from serl.agents.pairs.environment import PairVectorEnv
from serl.agents.pairs.evaluate import evaluate
from serl.agents.pairs.market import PairMarket
from serl.agents.pairs.observation import FEATURES
from serl.agents.pairs.rules import ZScore
from serl.agents.pairs.spread import Spread, mids
from serl.agents.positions.accounts import two_sided_mids
from serl.agents.positions.rules import Flat, Uniform
from serl.agents.positions.targets import Rule
from serl.agents.traders.paths import value_paths
from serl.agents.traders.population import check_population, load_population
from serl.agents.traders.simulate import replay_events, simulate
from serl.exchange.errors import ConfigError
from serl.exchange.records import EventFlag, EventKind
from tests.agents.half_hour import PAIR as HALF_HOUR

PAIR = load_population("pair")
SPREAD = Spread(0.5, 1000.0, 6.0, 90.0)
SETTINGS: dict[str, Any] = {"population": HALF_HOUR, "duration_s": 60, "simulated_days": 1, "inventory_lots_max": 40}
SHORT, HALF_SHORT, NOTHING, HALF_LONG, LONG = range(5)
MINUTE_NS = 60 * 10**9


def made(count: int = 3, **settings: Any) -> PairVectorEnv:
    return serl.environments.pairs_vector_env(count, spread=SPREAD, **SETTINGS | settings)


def autocorrelation(spreads: Any, lag: int) -> float:
    """Of deviations (days, T) from a known mean."""
    return float((spreads[:, :-lag] * spreads[:, lag:]).mean() / (spreads**2).mean())


def test_the_spread_of_the_values_reverts_with_the_configured_half_life() -> None:
    """Ten days of 23,400 s: the standard error of the half-life is 3 %; and apart each value wanders."""
    ratio, own = PAIR.symbols[1].follows["ALFA"], PAIR.symbols[1].value
    first, second = (np.stack([value_paths(PAIR, seed)[number] for seed in range(10)]) for number in (0, 1))
    spread = second - ratio * first - (own["mean_ticks"] - ratio * PAIR.value.mean_ticks)
    half_life_s = math.log(0.5) / math.log(autocorrelation(spread, 1))
    assert half_life_s == pytest.approx(math.log(2) / own["reversion_per_s"], rel=0.1)
    deviation = own["volatility_ticks_per_root_s"] / math.sqrt(2 * own["reversion_per_s"])
    assert spread.std() == pytest.approx(deviation, rel=0.05)
    for path in (first, second):
        assert autocorrelation(path - path[:, :1], 300) > 0.9, "300 s is four half-lives of the spread"


@pytest.mark.long
def test_the_prices_are_cointegrated_and_those_of_independent_values_are_not() -> None:
    """Mids of three hours of a training day."""
    until_ns = PAIR.open_ns + 180 * MINUTE_NS
    together = mids(PAIR, 0, until_ns)
    spread = together[:, 1] - 0.5 * together[:, 0] - 1000
    assert abs(spread.mean()) < 1.5 and 4 < spread.std() < 8
    assert autocorrelation(spread[None], 300) < 0.3
    values = PAIR.model_dump(mode="json")
    values["symbols"][1] = {"name": "BETA", "value": {"mean_ticks": 6000}}
    apart = mids(check_population(values, "apart"), 0, until_ns)
    assert Spread.of([apart]).half_life_s > 400 and Spread.of([together]).half_life_s < 150
    assert SPREAD.z(np.array([[10_000, 6000], [10_000, 6006], [10_012, 6006]])).tolist() == [0.0, 1.0, 0.0]


def test_what_is_measured_is_what_made_the_mids() -> None:
    """Four days of 20,000 s of a random walk, and half of it plus a distance with a half-life of 60 s."""
    random, days = np.random.default_rng(3), []
    decay = 0.5 ** (1 / 60)
    for _ in range(4):
        first, distance = 10_000 + np.cumsum(random.normal(0, 0.5, 20_000)), np.zeros(20_000)
        for second, noise in enumerate(random.normal(0, 1.0, 20_000)):
            distance[second] = decay * distance[second - 1] + noise
        days.append(np.stack([first, 0.5 * first - 7 + distance], 1))
    found = Spread.of(days)
    assert found.hedge_ratio == pytest.approx(0.5, abs=0.02)
    assert found.half_life_s == pytest.approx(60, rel=0.15)
    assert found.deviation_ticks == pytest.approx(1 / math.sqrt(1 - decay**2), rel=0.1)
    assert found.mean_ticks + found.hedge_ratio * 10_000 == pytest.approx(4993, abs=2)
    apart = [np.cumsum(random.normal(0, 1.0, (20_000, 2)), 0) for _ in range(4)]
    assert Spread.of(apart).half_life_s > 1000


def with_fees(taker_ppm: int, **settings: Any) -> PairVectorEnv:
    """One agent in a market that charges who takes, with a latency of an interval."""
    config = pair_settings(**SETTINGS | settings)
    values = PAIR.model_dump(mode="json")
    market = {"fees": {"maker_ppm": 0, "taker_ppm": taker_ppm}}
    population = check_population(values | {"close": "09:40", "market": market}, "pair")
    hours = [Hours(0, PAIR.open_ns + MINUTE_NS, PAIR.open_ns + 9 * MINUTE_NS, 1.0)]
    sampler = RandomOrders(hours, config.duration_s, config.interval_s)
    return PairVectorEnv(PairMarket(population, 1, latency_ns=10**9), sampler, config, SPREAD)


def test_profits_are_those_of_the_accounts_of_both_symbols() -> None:
    """Cash, position and fees as the book has them; turnover from the fills."""
    env = with_fees(70)
    env.reset(seed=1)
    random, rewards, wealth, turnover = np.random.default_rng(1), [], [0.0], 0
    for _ in range(59):
        _, reward, _, _, info = env.step([random.integers(5)])
        assert not info
        market = env.market._states[0].market
        mid, total = two_sided_mids(env.market.frames)[0], 0.0
        for symbol in range(2):
            account = market.account(OUR_PARTICIPANT, symbol)
            held = env.market.positions[0, symbol]
            assert (held["lots"], held["cash"]) == (account.position_lots, account.cash_ticks)
            total += account.cash_ticks + account.position_lots * mid[symbol] - account.fees_microticks / 1e6
        turnover += int(env.market.fills["lots"].sum())
        wealth.append(total)
        rewards.append(reward[0] * env.config.inventory_lots_max)
    assert turnover > 500 and market.account(OUR_PARTICIPANT, 1).fees_microticks > 0
    np.testing.assert_allclose(rewards, np.diff(wealth), atol=1e-3)
    *_, info = env.step([NOTHING])
    results = {name: values[0] for name, values in info["results"].items()}
    assert results["left_lots"] == 0 and results["turnover_lots"] >= turnover
    assert results["inventory_most_lots"] == 60, "20 of the first against 40 of the second"
    env.close()


@pytest.mark.parametrize("rules", [True, False])
def test_trades_of_others_are_those_of_each_symbol(rules: bool) -> None:
    """With and without rules: two compiled paths. Who holds nothing changes nothing."""
    env = with_fees(70) if rules else made(1)
    env.reset(seed=1)
    first = env.episodes[0].copy()
    lots, notional = np.zeros(2, int), np.zeros(2, int)
    for _ in range(30):
        _, rewards, *_ = env.step([NOTHING])
        lots, notional = lots + env.market.frames["traded_lots"][0], notional + env.market.frames["traded_notional"][0]
        assert rewards[0] == 0.0
    until_ns = int(env.market.frames["time_ns"][0, 0])
    assert until_ns == first["start_ns"] + 30 * first["interval_ns"] == env.market.frames["time_ns"][0, 1]
    events = replay_events(simulate(env.market.population, int(first["day"]), until_ns))
    fills = events[(events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER > 0)]
    fills = fills[fills["time_ns"] >= first["start_ns"]]
    for symbol in range(2):
        own = fills[fills["symbol"] == symbol]
        assert (lots[symbol], notional[symbol]) == (own["qty_lots"].sum(), (own["qty_lots"] * own["price_ticks"]).sum())
        assert lots[symbol] > 0
    env.close()


def test_who_is_long_the_spread_earns_what_it_gains() -> None:
    env = made(2)
    env.reset(seed=5)
    env.step([LONG, HALF_SHORT])
    moved = np.zeros(2)
    for _ in range(30):
        before = two_sided_mids(env.market.frames)
        rewards = env.step([LONG, HALF_SHORT])[1]
        gained = (two_sided_mids(env.market.frames) - before) @ [-0.5, 1.0]
        assert env.market.positions["lots"].tolist() == [[-20, 40], [10, -20]]
        np.testing.assert_allclose(rewards, gained * [1.0, -0.5], atol=1e-9)
        np.testing.assert_allclose(env.observer.z, SPREAD.z(two_sided_mids(env.market.frames)))
        moved += np.abs(gained)
    assert (moved > 0).all()
    env.close()


def test_a_position_costs_both_spreads_and_is_closed_at_the_end() -> None:
    env = made(1, duration_s=0.002, interval_s=0.001, latency_us=0, inventory_lots_max=2, positions=3)
    env.reset(seed=3)
    bid, ask = (env.market.frames[name][0, :, 0] for name in ("bid_ticks", "ask_ticks"))
    half = (ask - bid) / 2 @ [1, 2]
    reward = env.step([2])[1][0]
    assert reward == pytest.approx(-half / 2) and reward < 0
    *_, info = env.step([2])
    assert info["results"]["profit"][0] == pytest.approx(-2 * half)
    assert (info["results"]["turnover_lots"][0], info["results"]["left_lots"][0]) == (6, 0)
    env.close()


@pytest.mark.parametrize("rule", [Uniform(3), ZScore(1.0, 0.0)])
def test_a_seed_determines_everything_with_any_number_of_threads(rule: Rule[PairVectorEnv]) -> None:
    found: list[list[Any]] = []
    for threads in (1, 2):
        env = made(3)
        env.market._threads = threads
        outputs = [env.reset(seed=7)[0]]
        for _ in range(65):  # over the end of a window
            outputs += env.step(env.actions_of(rule.shares(env)))[:2]
        found.append(outputs)
        env.close()
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_rule_enters_beyond_a_threshold_and_leaves_near_the_mean() -> None:
    env = made(6)
    env.reset(seed=1)
    rule = ZScore(2.0, 0.5)
    for held, z, shares in (
        (0, [2.1, -2.1, 1.9, -1.9, 0, 9], [-1, 1, 0, 0, 0, -1]),
        (40, [-1.9, -0.6, -0.4, 0.4, 1.9, 2.1], [1, 1, 0, 0, 0, -1]),
        (-40, [1.9, 0.6, 0.4, -0.4, -1.9, -2.1], [-1, -1, 0, 0, 0, 1]),
    ):
        env.market.positions["lots"][:, 1] = held
        env.observer.z = np.array(z, float)
        assert rule.shares(env).tolist() == shares
    env.close()
    for enter, leave in ((1.0, 1.0), (1.0, -0.1)):
        with pytest.raises(ConfigError, match="leave: expected at least 0 and less than enter"):
            ZScore(enter, leave)


def test_rules_are_compared_in_the_same_windows() -> None:
    config = pair_settings(**SETTINGS | {"part": "test", "duration_s": 20})
    rules: list[Rule[PairVectorEnv]] = [Flat(), Uniform(), ZScore(1.0, 0.0)]
    flat, random, score = evaluate(rules, config, SPREAD, 5, seed=3)
    assert (flat.name, random.name, score.name) == ("flat", "random", "z-score, 1 and 0")
    for name in ("profit", "turnover_lots", "drawdown", "sharpe", "inventory_most_lots"):
        assert (flat.values[name] == 0).all(), name
    assert random.mean("profit")[0] < 0, "it pays the spreads at each decision"
    again = evaluate(rules[1:2], config, SPREAD, 5, seed=3)[0]
    assert again.values["profit"].tolist() == random.values["profit"].tolist()


@pytest.mark.long
def test_the_rule_earns_where_the_pair_reverts() -> None:
    """The table of docs/pairs.md, with fewer windows."""
    config = pair_settings(part="test", simulated_days=4)
    score = evaluate([ZScore(1.0, 0.0)], config, Spread.measure(PAIR), 16)[0]
    assert score.mean("profit")[0] > 300


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_gymnasium_is_content(actions: str) -> None:
    env = gymnasium.make(serl.environments.PAIRS_ID, **SETTINGS, actions=actions, spread=SPREAD)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
    vector = gymnasium.make_vec(serl.environments.PAIRS_ID, num_envs=2, **SETTINGS, actions=actions, spread=SPREAD)
    assert vector.reset(seed=1)[0].shape == (2, len(FEATURES))
    assert vector.step(vector.action_space.sample())[0].shape == (2, len(FEATURES))
    vector.close()


def test_the_spread_is_measured_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spread, "measure", lambda population: Spread(0.25, population.open_ns, 1.0, 1.0))
    serl.environments._spread_of.cache_clear()
    env = serl.environments.pairs_vector_env(2, **SETTINGS)
    assert env.spread == Spread(0.25, PAIR.open_ns, 1.0, 1.0)
    env.reset(seed=1)
    env.step([LONG, HALF_LONG])
    assert env.market.positions["lots"].tolist() == [[-10, 40], [-5, 20]]
    env.close()
    serl.environments._spread_of.cache_clear()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"population": "small"}, "symbols: expected two symbols in an environment of pairs, got DEMO"),
        ({"population": "basket"}, "symbols: expected two symbols .* got ALFA, BETA, CETI, ETF"),
        ({"positions": 4}, "positions: expected an odd number"),
        ({"inventory_lots_max": 1}, "expected at least 2, so that the targets differ"),
        ({"duration_s": 1e6}, "of continuous trading, got less"),
        ({"quote_lots": 1}, "quote_lots"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error) as raised:
        made(2, **settings)
    assert "\n" not in str(raised.value)


def test_bad_populations(tmp_path: Path) -> None:
    values = PAIR.model_dump(mode="json", exclude={"groups"}) | {"groups": [{"trader": "zero_intelligence"}]}
    values["symbols"][1]["tick_size"] = "0.05"
    path = tmp_path / "ticks.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=r"both symbols of a pair, got 0\.01 and 0\.05"):
        made(1, population=str(path))
    values["symbols"][1].pop("tick_size")
    short = check_population(values | {"close": "09:35"}, "short")
    with pytest.raises(ConfigError, match="pair: expected mids of both symbols that move after the first 300 s"):
        Spread.measure(short, 1)
