"""Market making: accounts that the book itself keeps, quotes that keep their place, limits, the end of a window, and bad settings."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import serl.environments
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.agents.making.config import making_settings
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.evaluate import evaluate
from serl.agents.making.makers import AvellanedaStoikov, Glft, Maker, MarketParameters, Symmetric
from serl.agents.making.observation import FEATURES
from serl.agents.positions.accounts import Ledger, two_sided_mids
from serl.agents.positions.config import position_market, windows
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.records import DECISION, POSITION
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError
from serl.exchange.records import MICRO, Rows
from tests.agents.half_hour import SMALL
from tests.agents.traders.test_population_processes import short_population
from tests.agents.traders.test_rules import population

SETTINGS: dict[str, Any] = {
    "population": SMALL,
    "duration_s": 60,
    "simulated_days": 2,
    "quote_lots": 10,
    "inventory_lots_max": 30,
}
TOUCH = np.array([0.5, 0.5])


def made(count: int = 3, **settings: Any) -> MakingVectorEnv:
    return serl.environments.making_vector_env(count, **SETTINGS | settings)


def play(env: MakingVectorEnv, offsets: Any, seed: int = 1) -> tuple[Any, list[Any]]:
    """Whole windows at constant distances: (results, changes of wealth in quotes by step)."""
    env.reset(seed=seed)
    rewards: list[Any] = []
    while True:
        _, reward, done, _, info = env.step(np.tile(env.actions_of(offsets), (env.num_envs, 1)))
        rewards.append(reward)
        if np.any(done):
            return info["results"], rewards


def quoted(*prices: tuple[int, int]) -> Rows:
    """FRAME rows with these best bids and asks."""
    frames = np.zeros(len(prices), FRAME)
    frames["bid_ticks"][:, 0], frames["ask_ticks"][:, 0] = np.array(prices).T
    return frames


def test_a_ledger_by_hand() -> None:
    """Buys 2 at 101 for a fee of a tick, then sells 3 at 90 without another mid than the last."""
    ledger, position = Ledger((1,)), np.zeros(1, POSITION)
    ledger.begin([0], quoted((99, 101)))
    changes = []
    for prices, lots, cash, traded in (((99, 101), 2, -202, 2), ((103, 105), 2, -202, 0), ((90, 0), -1, 68, 3)):
        position["lots"], position["cash"], position["fee_microticks"] = lots, cash, 1_000_000
        changes.append(float(ledger.record(quoted(prices), position, np.array([float(traded)]))[0]))
    assert changes == [-3, 8, -42]
    found = {name: float(values[0]) for name, values in ledger.results(position).items()}
    assert found == pytest.approx({
        "profit": -37, "drawdown": 42, "turnover_lots": 5, "inventory_mean_lots": 5 / 3, "inventory_most_lots": 2, "left_lots": 1,
        "sharpe": np.mean(changes) / np.std(changes) * np.sqrt(3),
    })  # fmt: skip
    ledger.begin([0], quoted((99, 101)))
    assert not any(values.any() for values in ledger.results(np.zeros(1, POSITION)).values())
    assert ledger.record(quoted((99, 101)), np.zeros(1, POSITION), np.zeros(1)) == 0 and not ledger.drawdown.any()


def test_a_drawdown_stays_and_a_short_position_is_inventory() -> None:
    """Also beside a long one in another symbol."""
    ledger, positions = Ledger((1, 2)), np.zeros((1, 2), POSITION)
    ledger.begin([0], quoted((99, 101), (9, 11))[None])
    positions["lots"], positions["cash"] = [[3, -4]], [[-300, 40]]
    for first, second in (((97, 99), (9, 11)), ((99, 101), (9, 11))):
        ledger.record(quoted(first, second)[None], positions, np.array([[3.0, 4.0]]))
    found = {name: float(values[0]) for name, values in ledger.results(positions).items()}
    assert (found["profit"], found["drawdown"], found["turnover_lots"]) == (0, 6, 14)
    assert found["inventory_mean_lots"] == found["inventory_most_lots"] == found["left_lots"] == 7


def test_rewards_without_a_penalty_add_up_to_the_profit_that_the_account_shows() -> None:
    env = made(inventory_penalty=0.0)
    env.reset(seed=1)
    total = np.zeros(env.num_envs)
    for _ in range(59):
        _, reward, done, _, _ = env.step(np.tile(env.actions_of(TOUCH), (env.num_envs, 1)))
        total += reward * env.config.quote_lots
        assert not done.any()
        held, account = env.market.positions, env.ledger.wealth
        expected = held["cash"] + held["lots"] * two_sided_mids(env.market.frames) - held["fee_microticks"] / MICRO
        np.testing.assert_allclose(account, expected)
        np.testing.assert_allclose(total, account)
    *_, reward, done, _, info = env.step(np.tile(env.actions_of(TOUCH), (env.num_envs, 1)))
    assert done.all() and not info["results"]["left_lots"].any(), "the position was traded away"
    np.testing.assert_allclose(total + reward * env.config.quote_lots, info["results"]["profit"])
    assert info["results"]["turnover_lots"].sum() > 0
    env.close()


def test_fees_are_taken_off_the_profit() -> None:
    """Both sides of a trade pay 50 millionths of its amount; the same trades without fees earn that much more."""
    settings = making_settings(**SETTINGS)
    sampler = RandomOrders([Hours(0, 34_260 * 10**9, 34_740 * 10**9, 1.0)], settings.duration_s, settings.interval_s)
    profits = {}
    for ppm in (0, 50):
        market = PositionMarket(population(fees={"maker_ppm": ppm, "taker_ppm": ppm}), 2)
        env = MakingVectorEnv(market, sampler, settings)
        results, _ = play(env, TOUCH)
        profits[ppm] = results["profit"]
        lots = results["turnover_lots"]
        env.close()
    assert lots.min() > 0
    expected = 50e-6 * lots * env.ledger.mid
    np.testing.assert_allclose(profits[0] - profits[50], expected, rtol=0.01)


def test_the_penalty_is_that_of_the_squared_inventory() -> None:
    with_penalty, without = made(inventory_penalty=0.5), made(inventory_penalty=0.0)
    for env in (with_penalty, without):
        env.reset(seed=2)
    actions = np.tile(with_penalty.actions_of(TOUCH), (3, 1))
    for _ in range(20):
        penalised, plain = with_penalty.step(actions)[1], without.step(actions)[1]
        np.testing.assert_allclose(plain - penalised, 0.5 * with_penalty.inventory**2)
    assert np.abs(with_penalty.inventory).max() > 0
    with_penalty.close()
    without.close()


def test_a_quote_whose_price_stays_keeps_its_place() -> None:
    env = made(1)
    env.reset(seed=3)
    far = np.tile(env.actions_of([4.6, 4.6]), (1, 1))
    ahead = []
    for _ in range(8):
        before = env.market.positions["price_ticks"][0].copy()
        env.step(far)
        after = env.market.positions[0]
        if (before > 0).all() and (after["price_ticks"] == before).all():
            ahead.append(after["ahead_lots"].copy())
            assert (after["open_lots"] == 10).all()
    commands = int(env.market._env_states[0, 1])
    assert ahead and commands < 2 * 2 * 8, "quotes that stay are not sent again"
    env.close()


class OneSided:
    """A market whose book shows what `sides` say, and keeps the decisions."""

    count = 1

    def __init__(self, **sides: int) -> None:
        self.frames, self.fills, self.positions = (np.zeros(1, kind) for kind in (FRAME, FILL, POSITION))
        self.show(**sides)

    def show(self, **sides: int) -> None:
        for name, ticks in sides.items():
            self.frames[name][:, 0] = ticks

    def reset(self, which: Any, episodes: Any) -> None:
        """Nothing changes."""

    def step(self, decisions: Any, until_ns: Any) -> None:
        self.sent = decisions.copy()


def beside(market: Any) -> MakingVectorEnv:
    hours = [Hours(0, 0, 36_000 * 10**9, 1.0)]
    env = MakingVectorEnv(market, RandomOrders(hours, 60, 1), making_settings(**SETTINGS))
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    ("sides", "quotes"), [({"ask_ticks": 10_002}, [10_001, 10_003]), ({"bid_ticks": 9_998}, [9_997, 9_999])]
)
def test_a_window_that_begins_with_one_side_quotes_around_its_price(sides: dict[str, int], quotes: list[int]) -> None:
    market = OneSided(**sides)
    env = beside(market)
    _, reward, *_ = env.step(env.actions_of([[1.0, 1.0]]))
    assert market.sent["price_ticks"][0].tolist() == quotes and (market.sent["lots"] == 10).all()
    assert reward == 0.0


def test_nothing_is_quoted_before_the_book_has_a_price() -> None:
    market = OneSided()
    env = beside(market)
    env.step(env.actions_of([[1.0, 1.0]]))
    assert not market.sent["lots"].any()
    market.show(ask_ticks=10_002)
    env.step(env.actions_of([[1.0, 1.0]]))
    env.step(env.actions_of([[1.0, 1.0]]))
    assert market.sent["price_ticks"][0].tolist() == [10_001, 10_003] and market.sent["lots"].all()


def test_actions_that_are_nan_are_refused() -> None:
    env = beside(OneSided(ask_ticks=10_002))
    with pytest.raises(ConfigError, match="expected numbers, got NaN"):
        env.step(np.full((1, 2), np.nan))


def test_inventory_stays_within_its_limit() -> None:
    env = made(4, quote_lots=10, inventory_lots_max=15)
    results, _ = play(env, TOUCH)
    assert 10 <= results["inventory_most_lots"].max() <= 15
    env.close()


def test_fills_on_the_way_of_a_quote_count_towards_the_limit(tmp_path: Path) -> None:
    """Quotes from before are filled while the next ones are on their way."""
    liquid = str(short_population(tmp_path, "liquid", close="09:45"))
    env = made(4, population=liquid, duration_s=120, quote_lots=100, inventory_lots_max=100, latency_us=200_000.0)
    results, _ = play(env, TOUCH)
    assert results["turnover_lots"].min() > 100 and results["inventory_most_lots"].max() == 100
    env.close()


def test_quotes_never_cross_the_book_or_each_other() -> None:
    env = made(2)
    env.reset(seed=1)
    rows = env.quotes(np.array([[-50.0, 3.0], [0.0, 0.0]]))
    frames = env.market.frames
    assert (rows["price_ticks"][:, 0] < frames["ask_ticks"][:, 0]).all()
    assert (rows["price_ticks"][:, 0] < rows["price_ticks"][:, 1]).all()
    env.close()


def test_a_seed_determines_everything_with_any_number_of_threads() -> None:
    found = []
    for threads in (1, 2):
        config = making_settings(**SETTINGS)
        env = MakingVectorEnv(position_market(config, 4), windows(config), config)
        env.market._threads = threads
        found.append(play(env, TOUCH)[0])
        env.close()
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name])


def test_without_quotes_the_market_is_that_of_executions_without_orders() -> None:
    config, times = making_settings(**SETTINGS), np.full(2, 34_560 * 10**9)
    episodes = windows(config).sample(np.random.default_rng(0), 2)
    episodes["start_ns"] = 34_500 * 10**9
    making, plain = position_market(config, 2), DynamicMarket(load_population(SMALL), 2)
    for market in (making, plain):
        market.reset(np.arange(2), episodes)
        market.step(np.zeros(2, market.order_dtype), times)
    assert making.frames.tobytes() == plain.frames.tobytes()
    quotes = np.zeros(2, DECISION)
    quotes["price_ticks"], quotes["lots"] = [[making.frames["bid_ticks"][0, 0], making.frames["ask_ticks"][0, 0]]], 10
    for market, orders in ((making, quotes), (plain, np.zeros(2, CHILD))):
        market.step(orders, times + 5 * 10**9)
    assert making.frames.tobytes() != plain.frames.tobytes()
    making.close()
    plain.close()


def test_gymnasium_is_content() -> None:
    env = gymnasium.make(serl.environments.MAKING_ID, **SETTINGS)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
    vector = gymnasium.make_vec(serl.environments.MAKING_ID, num_envs=2, **SETTINGS)
    assert vector.reset(seed=1)[0].shape == (2, len(FEATURES))
    vector.close()


def test_formulas() -> None:
    """With inventory, quotes shift against it; Avellaneda and Stoikov's shift vanishes at the end; GLFT's does not."""
    env = made(1)
    env.reset(seed=1)
    parameters = MarketParameters(2.0, 1.5, 0.5)
    gamma = 0.1
    flat = AvellanedaStoikov(parameters, gamma).offsets(env)
    half = gamma * 4 * 60 / 2 + np.log(1 + gamma / 0.5) / gamma
    np.testing.assert_allclose(flat, [[half, half]])
    env.market.positions["lots"] = 20
    np.testing.assert_allclose(AvellanedaStoikov(parameters, gamma).offsets(env), [[half + 2 * 24, half - 2 * 24]])
    slope = np.sqrt(4 * gamma / (2 * 0.5 * 1.5) * (1.2) ** (1 + 5))
    base = np.log(1.2) / gamma
    np.testing.assert_allclose(Glft(parameters, gamma).offsets(env), [[base + 2.5 * slope, base - 1.5 * slope]])
    env.close()


@pytest.mark.long
def test_the_parameters_are_measured_and_the_formulas_hold_less_inventory() -> None:
    parameters = MarketParameters.measure("small", [0, 1], (34_200 * 10**9, 36_000 * 10**9))
    assert all(value > 0 for value in dataclasses.astuple(parameters))
    config = making_settings(**SETTINGS | {"part": "test"})
    makers: list[Maker] = [Symmetric(0.5), AvellanedaStoikov(parameters, 0.01)]
    plain, averse = evaluate(makers, config, 20, seed=3)
    assert averse.above(plain, "inventory_mean_lots")[0] < 0
    assert len(plain.days) == 20 == len(plain.values["profit"])


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"population": "smal"}, "smal"),
        ({"duration_s": 0.5}, "expected duration_s of at least interval_s"),
        ({"quote_lots": 50}, "expected inventory_lots_max of at least quote_lots"),
        ({"quote": 1}, "quote"),
        ({"quote_lots": 10**6 + 1}, "quote_lots: expected a number less than or equal to 1000000"),  # never quoted
        ({"inventory_lots_max": 10**6 + 1}, "inventory_lots_max: expected a number less"),  # never closed at the end
        ({"part": "unseen"}, "part"),
        ({"duration_s": 1e6}, "of continuous trading, got less"),
        ({"population": "basket"}, "symbol"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        made(2, **settings)


def test_a_quote_below_the_lots_of_the_market_is_refused(tmp_path: Path) -> None:
    """It was rounded down to nothing, and nothing was quoted."""
    file = tmp_path / "tens.yaml"
    file.write_text(population(lot_multiple=10).model_dump_json())
    assert made(population=str(file))
    with pytest.raises(ConfigError, match=r"quote_lots: expected at least 10, the lot_multiple of .*, got 9"):
        made(population=str(file), quote_lots=9)


@pytest.mark.parametrize("count", [0, -1])
def test_a_number_of_environments_below_one_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"environments: expected at least one, got {count}"):
        made(count)


@pytest.mark.parametrize("name", ["latency_us", "offset_ticks", "inventory_penalty"])
def test_settings_are_finite(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: expected a finite number, got inf"):
        making_settings(**{name: float("inf")})
