"""Taking positions: profits that the tape of events gives again, what trading costs, seeds, the checkers of libraries, and bad settings."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import serl.environments
from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import FEATURES, DirectionalVectorEnv
from serl.agents.directional.evaluate import evaluate
from serl.agents.directional.rules import Flat, MeanReversion, Momentum, Uniform
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.simulated_step import OUR_PARTICIPANT
from serl.agents.positions.accounts import two_sided_mids
from serl.agents.positions.market import PositionMarket
from serl.agents.positions.targets import Rule
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.state import ASK
from serl.exchange.records import MICRO, EventKind, Rows
from tests.agents.half_hour import SMALL
from tests.agents.traders.test_rules import population

SETTINGS: dict[str, Any] = {"population": SMALL, "duration_s": 60, "simulated_days": 2, "inventory_lots_max": 40}
SHORT, HALF_SHORT, NOTHING, HALF_LONG, LONG = range(5)


def made(count: int = 3, **settings: Any) -> DirectionalVectorEnv:
    return serl.environments.directional_vector_env(count, **SETTINGS | settings)


def with_fees(latency_ns: int, taker_ppm: int, **settings: Any) -> DirectionalVectorEnv:
    """One agent in a market that charges who takes."""
    config = directional_settings(**SETTINGS | settings)
    hours = [Hours(0, 34_260 * 10**9, 34_740 * 10**9, 1.0)]
    fees = {"maker_ppm": 0, "taker_ppm": taker_ppm}
    market = PositionMarket(population(fees=fees), 1, latency_ns=latency_ns)
    return DirectionalVectorEnv(market, RandomOrders(hours, config.duration_s, config.interval_s), config)


def taped(env: DirectionalVectorEnv, monkeypatch: pytest.MonkeyPatch) -> list[Rows]:
    """Our fills, EVENT rows by step, of a market of one whose latency is an interval: what our command caused is then the last of the buffer."""
    tape: list[Rows] = []
    step_by_schedule = env.market._step_by_schedule

    def step(place: int, which: Any, children: Rows, until_ns: Any, buffers: Any) -> None:
        buffers.events[:] = 0
        step_by_schedule(place, which, children, until_ns, buffers)
        ours = (buffers.events["participant"] == OUR_PARTICIPANT) & (buffers.events["kind"] == EventKind.FILL)
        tape.append(buffers.events[ours].copy())

    monkeypatch.setattr(env.market, "_step_by_schedule", step)
    return tape


@pytest.mark.long
def test_profits_are_those_of_the_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cash, position, fees, turnover and drawdown, from the events alone."""
    ppm = 70
    env = with_fees(10**9, ppm)
    env.reset(seed=1)
    tape, random = taped(env, monkeypatch), np.random.default_rng(1)
    cash = lots = turnover = most = 0
    fees, wealth, rewards = 0.0, [0.0], []
    info: dict[str, Any] = {}
    while not info:
        tape.clear()
        final_mid = two_sided_mids(env.market.frames)[0]
        _, reward, _, _, info = env.step([random.integers(5)])
        for event in np.concatenate(
            tape[: 2 if info else 1]
        ):  # those of the last step are followed by those of a reset
            bought = -int(event["qty_lots"]) if event["side"] == ASK else int(event["qty_lots"])
            cash, lots, turnover = cash - bought * int(event["price_ticks"]), lots + bought, turnover + abs(bought)
            fees += abs(bought) * int(event["price_ticks"]) * ppm / 1e6
            most = max(most, abs(lots))
        mid = env.ledger.mid[0] if not info else final_mid
        assert not info or lots == 0, "the position was closed"
        wealth.append(cash + lots * mid - fees)
        rewards.append(reward[0] * env.config.inventory_lots_max)
    assert turnover > 500 and fees > 0
    np.testing.assert_allclose(rewards, np.diff(wealth), atol=1e-3)
    results = {name: values[0] for name, values in info["results"].items()}
    assert results["profit"] == pytest.approx(wealth[-1]) and results["turnover_lots"] == turnover
    assert results["inventory_most_lots"] == most and results["left_lots"] == 0
    assert results["drawdown"] == pytest.approx(np.max(np.maximum.accumulate(wealth) - wealth))
    changes = np.diff(wealth)
    assert results["sharpe"] == pytest.approx(changes.mean() / changes.std() * np.sqrt(len(changes)), rel=1e-6)
    env.close()


def test_who_holds_nothing_earns_exactly_nothing() -> None:
    env = made(2)
    env.reset(seed=1)
    info: dict[str, Any] = {}
    while not info:
        _, rewards, _, _, info = env.step(np.full(2, NOTHING))
        assert (rewards == 0).all()
    for name in ("profit", "turnover_lots", "drawdown", "sharpe", "inventory_most_lots"):
        assert (info["results"][name] == 0).all(), name
    env.close()


@pytest.mark.parametrize("action", [SHORT, LONG])
def test_a_position_that_is_closed_at_once_costs_the_spread_and_fees(action: int) -> None:
    """A lot, so that no level is used up; without latency, and a millisecond later, so that nobody has moved."""
    ppm = 70
    env = with_fees(0, ppm, duration_s=0.003, interval_s=0.001, inventory_lots_max=2)
    env.reset(seed=3)
    bid, ask = (int(env.market.frames[name][0, 0]) for name in ("bid_ticks", "ask_ticks"))
    first = env.step([action])[1][0]
    assert (env.market.frames["bid_ticks"][0, 0], env.market.frames["ask_ticks"][0, 0]) == (bid, ask)
    second = env.step([NOTHING])[1][0]
    paid, received = (ask, bid) if action == LONG else (bid, ask)
    assert first == pytest.approx(-(ask - bid) / 2 - paid * ppm / MICRO, abs=1e-6) and first < 0
    assert second == pytest.approx(-(ask - bid) / 2 - received * ppm / MICRO, abs=1e-6)
    *_, info = env.step([NOTHING])
    spread_and_fees = ask - bid + (bid + ask) * ppm / MICRO
    assert info["results"]["profit"][0] == pytest.approx(-2 * spread_and_fees, abs=1e-5)
    assert info["results"]["turnover_lots"][0] == 4
    env.close()


def test_who_is_long_earns_what_the_mid_gains_and_who_is_short_loses_it() -> None:
    env = made(2, inventory_penalty=0.0)
    episodes = env.sampler.sample(np.random.default_rng(5), 2)
    env.reset(seed=5, options={"episodes": episodes})
    moved = np.zeros(2)
    env.step([LONG, HALF_SHORT])
    for _ in range(30):
        before = two_sided_mids(env.market.frames)
        rewards = env.step([LONG, HALF_SHORT])[1]
        gained = two_sided_mids(env.market.frames) - before
        assert env.inventory.tolist() == [1.0, -0.5]
        np.testing.assert_allclose(rewards, gained * [1.0, -0.5], atol=1e-9)
        moved += np.abs(gained)
    assert (moved > 0).all()
    env.close()


def test_the_penalty_is_that_of_the_squared_inventory() -> None:
    with_penalty, without = made(1, inventory_penalty=0.5), made(1)
    for env in (with_penalty, without):
        env.reset(seed=2)
    for action in (LONG, HALF_SHORT, NOTHING):
        penalised, plain = with_penalty.step([action])[1], without.step([action])[1]
        np.testing.assert_allclose(plain - penalised, 0.5 * ((action - 2) / 2) ** 2)
    with_penalty.close()
    without.close()


def test_the_penalty_counts_the_last_interval_too() -> None:
    """The position is closed at its end; it was taken for none that was held."""
    totals = []
    for penalty in (0.0, 0.5):
        env = made(1, duration_s=3, inventory_penalty=penalty)
        env.reset(seed=2)
        totals.append(sum(env.step([LONG])[1][0] for _ in range(3)))
        env.close()
    assert totals[0] - totals[1] == pytest.approx(3 * 0.5)


def test_a_position_in_the_last_interval_counts_and_is_closed() -> None:
    env = made(1, duration_s=1)
    env.reset(seed=1)
    *_, info = env.step([SHORT])
    results = {name: values[0] for name, values in info["results"].items()}
    assert (results["inventory_most_lots"], results["turnover_lots"], results["left_lots"]) == (40, 80, 0)
    assert results["profit"] < 0
    env.close()


@pytest.mark.parametrize("rule", [Uniform(3), Momentum(1.0)])
def test_a_seed_determines_everything_with_any_number_of_threads(rule: Uniform | Momentum) -> None:
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
    other = made(3)
    assert not np.array_equal(found[0][0], other.reset(seed=8)[0])
    other.close()


def test_targets_are_whole_lots_and_actions_the_nearest() -> None:
    env = made(5)
    assert env.targets_lots(range(5)).tolist() == [-40, -20, 0, 20, 40]
    shares = np.array([-2.0, -0.4, 0.1, 0.3, 1.0])
    assert env.actions_of(shares).tolist() == [SHORT, HALF_SHORT, NOTHING, HALF_LONG, LONG]
    with pytest.raises(ConfigError, match="actions: expected whole numbers from 0 to 4, got 5"):
        env.step([0, 1, 2, 3, 5])
    env.close()
    continuous = made(2, actions="continuous")
    assert continuous.targets_lots([[-0.99], [3.0]]).tolist() == [-39, 40]
    np.testing.assert_array_equal(continuous.actions_of([-0.5, 2]), [[-0.5], [1.0]])
    with pytest.raises(ConfigError, match="actions: expected numbers in \\[-1, 1\\], got nan"):
        continuous.step([[0.0], [np.nan]])
    continuous.close()


def test_rules_follow_the_move_or_go_against_it() -> None:
    env = made(3)
    env.reset(seed=1)
    env.observer._mids[:] = 0.0
    env.observer._mids[:, -1] = [2.0, -2.0, 0.5]
    env.market.positions["lots"] = 20
    assert Momentum(1.0).shares(env).tolist() == [1.0, -1.0, 0.5], "a small move changes nothing"
    assert MeanReversion(1.0).shares(env).tolist() == [-1.0, 1.0, 0.5]
    env.close()


def test_rules_are_compared_in_the_same_windows() -> None:
    config = directional_settings(**SETTINGS | {"part": "test", "duration_s": 20})
    rules: list[Rule[DirectionalVectorEnv]] = [Flat(), Uniform(), Momentum(1.0), MeanReversion(1.0)]
    flat, random, *_ = scores = evaluate(rules, config, 5, seed=3)
    assert [score.name for score in scores] == ["flat", "random", "Momentum, 1 ticks", "MeanReversion, 1 ticks"]
    assert flat.mean("profit")[0] == 0 and random.mean("profit")[0] < 0, "it pays the spread at each decision"
    assert all(len(score.values["profit"]) == 5 for score in scores)
    assert evaluate(rules[1:2], config, 5, seed=3)[0].values["profit"].tolist() == random.values["profit"].tolist()


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_gymnasium_is_content(actions: str) -> None:
    """Stable-Baselines3, whose import takes seconds: tests/agents/execution/test_single.py."""
    env = gymnasium.make(serl.environments.DIRECTIONAL_ID, **SETTINGS, actions=actions)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()
    vector = gymnasium.make_vec(serl.environments.DIRECTIONAL_ID, num_envs=2, **SETTINGS, actions=actions)
    assert vector.reset(seed=1)[0].shape == (2, len(FEATURES))
    assert vector.step(vector.action_space.sample())[0].shape == (2, len(FEATURES))
    vector.close()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"population": "smal"}, "smal"),
        ({"positions": 4}, "positions: expected an odd number, so that the middle target is no position, got 4"),
        ({"positions": 1}, "positions: .* got 1"),
        ({"actions": "box"}, "actions"),
        ({"inventory_lots_max": 0}, "inventory_lots_max"),
        ({"inventory_lots_max": 1}, "expected at least 2, so that the targets differ by a lot or more, got 1"),
        ({"inventory_lots_max": 600_000}, "inventory_lots_max: .* got 600000"),
        ({"inventory_penalty": -1}, "inventory_penalty"),
        ({"duration_s": 0.5}, "expected duration_s of at least interval_s"),
        ({"latency_us": 1_000_001}, r"expected latency_us of at most the 1 s between two decisions, .* got 1e\+06"),
        ({"duration_s": 1e6}, "of continuous trading, got less"),
        ({"quote_lots": 1}, "quote_lots"),
        ({"part": "unseen"}, "part"),
        ({"population": "basket"}, "symbol"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error) as raised:
        made(2, **settings)
    assert "\n" not in str(raised.value)
