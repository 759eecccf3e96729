"""Schedules against their formulas, and every policy in the replay market."""

import dataclasses
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.hours import day_trades, trading_hours
from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.inprocess import replay_with, replay_with_twap
from serl.agents.execution.order import ParentOrder, twap_targets
from serl.agents.execution.policies.choose import NAMES, make_policy
from serl.agents.execution.policies.policy import NO_INTERFACE, Policy
from serl.agents.execution.policies.reactive import Participation, Passive, Patience
from serl.agents.execution.policies.schedules import AlmgrenChriss, Schedule, Twap, remaining_share
from serl.agents.execution.policies.volume import CurveError, VolumeCurve, Vwap
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows, Side
from serl.history.day import Day, SymbolReference
from serl.history.generate import generate_day

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
START_NS = 600 * MINUTE_NS
ORDER = ParentOrder("DEMO", Side.BUY, 3000, START_NS, START_NS + 10 * MINUTE_NS, 30 * SECOND_NS)


def episode(qty: int, steps: int, interval_s: int = 30) -> Rows:
    rows = np.zeros(1, EPISODE)
    rows["sign"], rows["qty_lots"], rows["steps"], rows["interval_ns"] = 1, qty, steps, interval_s * SECOND_NS
    rows["start_ns"] = START_NS
    return rows


def targets(schedule: Schedule, rows: Rows) -> list[int]:
    return [int(schedule.target_lots(rows, step + 1)[0]) for step in range(int(rows["steps"][0]))]


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(3)


@pytest.fixture(scope="module")
def curve() -> VolumeCurve:
    return VolumeCurve.fit([training_day(4), training_day(5)], 600)


@cache
def training_day(seed: int) -> Day:
    return generate_day(seed, commands_per_s=2.0)


@given(st.integers(1, 10**9), st.integers(1, 1000))
def test_twap_in_whole_lots(qty: int, steps: int) -> None:
    assert targets(Twap(), episode(qty, steps)) == twap_targets(qty, steps)


@given(st.integers(1, 10**6), st.integers(1, 500))
def test_almgren_chriss_without_risk_is_twap(qty: int, steps: int) -> None:
    assert targets(AlmgrenChriss(risk_aversion=0), episode(qty, steps)) == twap_targets(qty, steps)


@given(st.floats(1e-9, 1e-5), st.integers(1, 50))
def test_almgren_chriss_tends_to_twap(urgency: float, steps: int) -> None:
    step = np.arange(steps + 1)
    np.testing.assert_allclose(remaining_share(urgency, steps, step), 1 - step / steps, atol=1e-7)


@given(st.floats(0.01, 5), st.integers(2, 60))
def test_almgren_chriss_shares_are_those_of_the_paper(urgency: float, steps: int) -> None:
    remaining = remaining_share(urgency, steps, np.arange(steps + 1))
    for k in range(steps):
        slice_share = (math.sinh(urgency * (steps - k)) - math.sinh(urgency * (steps - k - 1))) / math.sinh(
            urgency * steps
        )
        assert remaining[k] - remaining[k + 1] == pytest.approx(slice_share, rel=1e-9, abs=1e-15)


def test_almgren_chriss_solves_its_difference_equation() -> None:
    schedule = AlmgrenChriss(risk_aversion=2e-6, volatility=3.0, impact=0.5)
    rows, interval_s = episode(10**6, 40, 20), 20
    remaining = 1 - np.array([float(schedule.target_share(rows, step)[0]) for step in range(41)])
    curvature = (remaining[:-2] - 2 * remaining[1:-1] + remaining[2:]) / interval_s**2
    np.testing.assert_allclose(curvature, 2e-6 * 3.0**2 / 0.5 * remaining[1:-1], rtol=1e-6)
    assert remaining[0] == 1
    assert remaining[-1] == 0


def test_almgren_chriss_with_extreme_urgency_does_not_overflow() -> None:
    assert targets(AlmgrenChriss(risk_aversion=1e6), episode(1000, 1000, 600))[0] == 1000


@pytest.mark.parametrize(
    "settings", [{"risk_aversion": math.nan}, {"volatility": 1e200}, {"risk_aversion": math.inf}, {"impact": 1e-300}]
)
def test_almgren_chriss_refuses_what_has_no_finite_urgency(settings: dict[str, float]) -> None:
    """NaN would be a TWAP."""
    with pytest.raises(ConfigError, match=r"ac: expected .* all finite, got"):
        AlmgrenChriss(**settings)


def test_more_lots_than_any_exchange_accepts_are_refused() -> None:
    with pytest.raises(ConfigError, match="qty: expected at most 1,000,000,000,000,000 lots, got 10,000"):
        ParentOrder("DEMO", Side.BUY, 10**22, START_NS, START_NS + MINUTE_NS, SECOND_NS)


def test_vwap_follows_its_curve() -> None:
    flat = VolumeCurve(START_NS, MINUTE_NS, (0.1,) * 10)
    assert targets(Vwap(flat), episode(999, 20)) == twap_targets(999, 20)
    steep = VolumeCurve(START_NS, MINUTE_NS, (0.1, 0.3))
    assert targets(Vwap(steep), episode(400, 4)) == [50, 100, 250, 400]
    with pytest.raises(CurveError, match="no volume in the window"):
        targets(Vwap(VolumeCurve(0, MINUTE_NS, (1.0,))), episode(400, 4))


def test_a_curve_is_the_mean_of_the_shares_of_its_days(curve: VolumeCurve, tmp_path: Path) -> None:
    assert sum(curve.shares) == pytest.approx(1)
    shares = []
    for seed in (4, 5):
        times, lots = day_trades(training_day(seed))
        first = (times >= curve.start_ns) & (times < curve.start_ns + curve.width_ns)
        shares.append(lots[first].sum() / lots.sum())
    assert curve.shares[0] == pytest.approx(np.mean(shares))
    assert curve.shares[0] > 2 * curve.shares[len(curve.shares) // 2]  # generated days are busy at the open
    curve.save(tmp_path / "curve.json")
    assert VolumeCurve.load(tmp_path / "curve.json") == curve
    (tmp_path / "other.json").write_text(json.dumps({"shares": [1]}))
    for name in ("other.json", "missing.json"):
        with pytest.raises(CurveError, match="serl volume-curve"):
            VolumeCurve.load(tmp_path / name)
    with pytest.raises(CurveError, match="at least one training day"):
        VolumeCurve.fit([])
    with pytest.raises(CurveError, match="expected different training days, got one twice; leave it out"):
        VolumeCurve.fit([training_day(4), training_day(5), training_day(4)])
    two = dataclasses.replace(training_day(4).reference, symbols=(SymbolReference("ALFA"), SymbolReference("BETA")))
    with pytest.raises(CurveError, match="expected days of one symbol, got one of ALFA, BETA"):
        VolumeCurve.fit([dataclasses.replace(training_day(4), reference=two)])
    with pytest.raises(CurveError, match="expected buckets of at least 1 s, got 1e-09 s"):
        VolumeCurve.fit([training_day(4)], 1e-9)


def policies(curve: VolumeCurve, folder: Path) -> list[Policy]:
    curve.save(folder / "curve.json")
    return [make_policy(name, curve=folder / "curve.json") for name in NAMES]


@pytest.mark.long
def test_every_policy_completes_in_each_of_its_modes(day: Day, curve: VolumeCurve, tmp_path: Path) -> None:
    for policy in policies(curve, tmp_path):
        for mode in ("market", "limit", "hybrid"):
            if mode in policy.modes:
                steps = replay_with(day, ORDER, policy, mode)
                assert len(steps) == 20
                assert sum(lots for lots, _ in steps) == ORDER.qty_lots
            else:
                with pytest.raises(ConfigError, match=f"{policy.name}: expected action mode"):
                    replay_with(day, ORDER, policy, mode)


def test_market_schedules_fill_their_targets(day: Day, curve: VolumeCurve) -> None:
    for schedule in (Twap(), Vwap(curve), AlmgrenChriss()):
        filled = np.cumsum([lots for lots, _ in replay_with(day, ORDER, schedule, "market")])
        assert filled.tolist() == targets(schedule, ORDER.episode)
    twap = replay_with(day, ORDER, Twap(), "market")
    assert sum(notional for _, notional in twap) == sum(price * qty for _, price, qty in replay_with_twap(day, ORDER))


class VolumeRecorder:
    """Wraps a policy and records what others have traded at each of its decisions."""

    interface = NO_INTERFACE

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name, self.modes = policy, policy.name, policy.modes
        self.market_lots: list[int] = []

    def actions(self, env: ExecutionVectorEnv) -> Any:
        """See Policy."""
        self.market_lots.append(int(env.accounts.parents["market_lots"][0]))
        return self.policy.actions(env)


def test_participation_follows_the_observed_volume(day: Day) -> None:
    watched = VolumeRecorder(Participation(0.02))
    order = ParentOrder("DEMO", Side.BUY, 10**6, START_NS, START_NS + 10 * MINUTE_NS, 30 * SECOND_NS)
    filled = np.cumsum([lots for lots, _ in replay_with(day, order, watched, "market")])[
        :-1
    ]  # without forced completion
    seen = np.array(watched.market_lots[:-1])
    assert seen[-1] > 1000
    np.testing.assert_array_equal(filled, np.floor(0.02 / 0.98 * seen))


def test_passive_rests_and_then_crosses(day: Day) -> None:
    env = ExecutionVectorEnv(
        ReplayMarket([day], 1), RandomOrders([Hours(0, START_NS, START_NS + 30 * MINUTE_NS, 1.0)]), actions="hybrid"
    )
    env.reset(options={"episodes": ORDER.episode})
    assert Passive(0.2).actions(env).tolist() == [[0, 1, 0]]
    env.accounts.parents["step"] = 16
    env.accounts.parents["remaining_lots"] = 100
    assert Passive(0.2).actions(env).tolist() == [[0.25, 0.75, 0]]


def test_fills_in_flight_are_not_sent_again(day: Day) -> None:
    env = ExecutionVectorEnv(
        ReplayMarket([day], 64, latency_ns=50_000_000),
        RandomOrders([trading_hours(day)], share_min=0.05, share_max=0.2),
        actions="hybrid",
    )
    env.reset(seed=1)  # if fills in flight were sent again, one of these orders would be overfilled by 31 lots
    for _ in range(60):
        env.step_without_reset(Passive().actions(env))
        assert env.accounts.parents["remaining_lots"].min() >= 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "vwap"}, "volume-curve"), ({"name": "pov", "rate": 1.0}, "between 0 and 1"),
        ({"name": "ac", "impact": 0.0}, "positive impact"), ({"name": "passive", "cross_share": 2.0}, "between 0 and 1"),
        ({"name": "nothing"}, "one of twap, vwap"),
    ],
)  # fmt: skip
def test_invalid_policies_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_policy(**arguments)


def test_patience_rests_at_the_touch_where_orders_have_no_offset(day: Day) -> None:
    """Its distance from the touch is a multiple of the offset of 1, which the settings may set to 0."""
    orders = RandomOrders([Hours(0, START_NS, START_NS + 600 * SECOND_NS, 10.0)], 120, 30)
    env = ExecutionVectorEnv(ReplayMarket([day], 1), orders, actions="hybrid", offset_ticks=0.0)
    env.reset(seed=1)
    actions = Patience().actions(env)
    assert actions[0, 1] > 0 == actions[0, 2]
    env.step(actions)
