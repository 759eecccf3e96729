"""A policy on a served lockstep exchange has the same observations and fills as in the replay market, decision by decision."""

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from serl.agents.execution import served as market
from serl.agents.execution.environment.forecasts import ServedForecasts
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import LAYOUT, SCALES, ExecutionVectorEnv
from serl.agents.execution.errors import OrderRulesError
from serl.agents.execution.executor import Execution, Executor
from serl.agents.execution.inprocess import replay_with, replay_with_twap
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.policies.policy import NO_INTERFACE, Policy, lots_to_actions
from serl.agents.execution.policies.reactive import Aggressive, Participation, Passive
from serl.agents.execution.policies.schedules import AlmgrenChriss, Twap
from serl.agents.execution.policies.volume import VolumeCurve, Vwap
from serl.agents.execution.report import summarise
from serl.agents.execution.served import CROSSED, PRINT, ServedMarket, WindowStartedError
from serl.agents.signals.errors import SignalError
from serl.clients.blocking import connect
from serl.exchange.errors import ConfigError
from serl.exchange.records import CommandKind, Rule, Side, command
from serl.exchange.symbol_rules import SymbolRules
from serl.history.day import Day, write_day
from serl.history.errors import ExportError
from serl.history.generate import generate_day
from tests.agents.signals import sample
from tests.server_fixture import launch

MINUTE_NS = 60_000_000_000
START_NS = 573 * MINUTE_NS  # 09:33
ORDER = ParentOrder("DEMO", Side.SELL, 1500, START_NS, START_NS + 4 * MINUTE_NS, 15_000_000_000)
CURVE = VolumeCurve(570 * MINUTE_NS, MINUTE_NS, (0.1, 0.1, 0.2, 0.05, 0.3, 0.1, 0.1, 0.05))


class ObservationPolicy:
    """Stands for a learnt policy: takes and rests depending on its observations."""

    name, modes = "observation-policy", ("hybrid",)
    interface = Interface(
        LAYOUT.names, dataclasses.asdict(SCALES) | {"depth_lots": 300.0}, "hybrid", (0.0, 0.0, -1.0), (1.0, 1.0, 1.0),
        offset_ticks=4.0, offset_bps=0.5, levels=LAYOUT.levels,
    )  # fmt: skip

    def actions(self, env: ExecutionVectorEnv) -> Any:
        """(N, 3)."""
        self.interface.require(Interface.from_env(env))
        observations = env.observe()
        drift, ahead = observations[:, -1], observations[:, -3]
        return np.stack((np.clip(-drift, 0, 0.2), np.clip(0.3 + drift, 0, 1), np.clip(ahead - 1, -1, 1)), axis=1)


def record_decisions(patch: pytest.MonkeyPatch) -> list[tuple[Any, Any, Any]]:
    """(FRAME, FILL, observation) of every decision from now on."""
    seen: list[tuple[Any, Any, Any]] = []
    decide = ExecutionVectorEnv.step_without_reset

    def watched(env: ExecutionVectorEnv, actions: Any) -> Any:
        seen.append((env.market.frames.copy(), env.market.fills.copy(), env.observe()))
        return decide(env, actions)

    patch.setattr(ExecutionVectorEnv, "step_without_reset", watched)
    return seen


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(3, end_ns=START_NS + 8 * MINUTE_NS)


@pytest.fixture(scope="module")
def path(day: Day, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("days") / "demo.day"
    write_day(day, file)
    return file


def serve(
    path: Path,
    order: ParentOrder,
    policy: Policy,
    mode: str,
    forecasts: ServedForecasts | None = None,
) -> Execution:
    """Works an order on an exchange of its own into which a day is replayed in lockstep."""
    served = launch("--symbols", "DEMO", "--clock", "lockstep", "--participants", "2")
    replay = [sys.executable, "-m", "serl", "replay", str(path), "--connect", served.endpoint, "--to", "09:40"]
    try:
        with ExitStack() as stack:
            with connect(served.endpoint, "executor") as client:
                executor = Executor(client, order, policy, mode, forecasts=forecasts)
                history = subprocess.Popen(replay, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                stack.enter_context(history)
                execution = executor.run()
            output, _ = history.communicate(timeout=60)  # continues after the executor has left
            assert history.returncode == 0, output
        return execution
    finally:
        served.stop()


CASES: list[tuple[Policy, str]] = [
    (ObservationPolicy(), "hybrid"),
]
RARE_CASES: list[tuple[Policy, str]] = [
    (Twap(), "market"), (AlmgrenChriss(), "limit"), (Vwap(CURVE), "market"), (Participation(0.05), "hybrid"), (Passive(0.3), "hybrid"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "mode"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in RARE_CASES)],
    ids=lambda case: case if isinstance(case, str) else case.name,
)
def test_served_equals_the_replay_market(
    day: Day, path: Path, policy: Policy, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = record_decisions(monkeypatch)
    execution = serve(path, ORDER, policy, mode)
    assert execution.steps == replay_with(day, ORDER, policy, mode)
    assert len(seen) == 2 * 16
    for served, inside in zip(seen[:16], seen[16:], strict=True):
        for ours, theirs in zip(served, inside, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert execution.filled_lots == sum(lots for lots, _ in execution.steps) == ORDER.qty_lots
    if (policy.name, mode) == ("twap", "market"):
        assert [fill[:3] for fill in execution.fills] == replay_with_twap(day, ORDER)


class Waiting:
    """Observes forecasts and trades nothing before the end, so that the market is that of the recorded day."""

    name, modes = "waiting", ("hybrid",)
    interface = dataclasses.replace(ObservationPolicy.interface, horizons_s=sample.HORIZONS, forecaster="f")

    def actions(self, env: ExecutionVectorEnv) -> Any:
        """(1, 3)."""
        return np.zeros((1, 3))


@pytest.mark.long
def test_served_forecasts_are_those_of_the_recorded_day(day: Day, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, made = record_decisions(monkeypatch), sample.forecaster()
    serve(path, ORDER, Waiting(), "hybrid", ServedForecasts(made, "f"))
    replay_with(day, ORDER, Waiting(), "hybrid", (made, "f"))
    assert len(seen) == 2 * 16
    for (_, _, served), (_, _, inside) in zip(seen[:16], seen[16:], strict=True):
        np.testing.assert_allclose(served, inside, atol=1e-6)
    forecasts = np.concatenate([observation[:, -8:] for _, _, observation in seen[:16]])
    assert (forecasts != 0).all() and forecasts.std(axis=0).all(), "all are known, and they change"


def test_orders_fit_the_lots_and_ticks_of_a_served_day(day: Day, tmp_path: Path) -> None:
    """Each order of another quantity or price was rejected without a word, so most of the parent order was sent at once, at the end."""
    commands = day.commands.copy()
    commands["qty_lots"] *= 10
    commands["price_ticks"] *= 5
    commands["command_id"] += 2
    commands["order_id"][commands["order_id"] > 0] += 2
    settings = [
        command(CommandKind.RULE, flags=rule, price_ticks=value, command_id=number, time_ns=int(commands["time_ns"][0]))
        for number, (rule, value) in enumerate(((Rule.LOT, 10), (Rule.TICK, 5)), start=1)
    ]
    ruled = Day(np.concatenate((*settings, commands)), np.concatenate(([-1, -1], day.rows)), day.reference)
    write_day(ruled, tmp_path / "ruled.day")
    execution = serve(tmp_path / "ruled.day", ORDER, ObservationPolicy(), "hybrid")
    assert execution.steps == replay_with(ruled, ORDER, ObservationPolicy(), "hybrid")
    assert execution.filled_lots == ORDER.qty_lots and len(execution.children) > 10
    fills = replay_with_twap(ruled, ORDER)
    assert {lots % 10 for _, _, lots in fills} == {0} and len({time_ns for time_ns, _, _ in fills}) == 16
    own = [(sum(lots for at, _, lots in fills if at == time_ns)) for time_ns in ORDER.slice_times_ns]
    assert own == [lots for lots, _ in replay_with(ruled, ORDER, Twap(), "market")]


@pytest.mark.parametrize("clock", [("lockstep",), ("scaled:20", "--clock-start", "09:31")], ids=lambda clock: clock[0])
def test_orders_fit_the_rules_of_the_exchange_at_the_start_of_the_window(
    tmp_path: Path, clock: tuple[str, ...], monkeypatch: Any
) -> None:
    """If the rules change later, the execution ends: everything would be sent at once, at the end of the window."""
    (tmp_path / "exchange.yaml").write_text("symbols: [{name: DEMO, lot_multiple: 10}]")
    served = launch("--config", str(tmp_path / "exchange.yaml"), "--clock", *clock)
    try:
        with connect(served.endpoint, "executor") as client:
            assert client.rules("DEMO").lot_multiple == 10
            with pytest.raises(ConfigError, match=r"expected a multiple of lot_multiple \(10\), got 35; round it"):
                Executor(client, dataclasses.replace(ORDER, qty_lots=35), Twap())
            executor = Executor(client, dataclasses.replace(ORDER, qty_lots=70), Twap())
            monkeypatch.setattr(client, "rules", lambda symbol: SymbolRules())  # before they changed
            with pytest.raises(
                OrderRulesError, match="expected orders that fit its rules at the start of the window, got BAD_QTY"
            ):
                executor.run()
    finally:
        served.stop()


class Both:
    """Takes and rests at every decision."""

    name, modes, interface = "both", ("hybrid",), NO_INTERFACE

    def actions(self, env: ExecutionVectorEnv) -> Any:
        """(N, 3)."""
        lots = env.accounts.parents["remaining_lots"] // 3
        return lots_to_actions(env, lots, lots)


def test_orders_beyond_the_rate_of_the_account_are_sent_again(tmp_path: Path, monkeypatch: Any) -> None:
    """The first of them ended the execution."""
    monkeypatch.setattr(market, "THROTTLED_WAIT_S", 0.01)
    monkeypatch.setattr(market, "THROTTLED_TRIES", 1_000)
    config = tmp_path / "exchange.yaml"
    config.write_text("symbols: [{name: DEMO}]\naccounts: {executor: {messages_per_s_max: 1}}")
    served = launch("--config", str(config), "--clock", "scaled:20", "--clock-start", "09:32:40")
    try:
        with connect(served.endpoint, "maker") as maker, connect(served.endpoint, "executor") as client:
            maker.buy("DEMO", 10_000, 10_000)
            maker.sell("DEMO", 10_000, 10_001)
            order = dataclasses.replace(ORDER, end_ns=START_NS + MINUTE_NS // 2)
            execution = Executor(client, order, Both(), "hybrid").run()
    finally:
        served.stop()
    assert execution.throttled > 0 and not execution.rejected
    assert [qty for _, qty in execution.children] == [500, 500, 333, 333, 667]
    assert execution.filled_lots == order.qty_lots
    notes = summarise(execution, None)["notes"]
    assert any("beyond the account's rate and sent again" in note for note in notes)


def test_invalid_orders_are_refused_before_anything_is_sent(day: Day) -> None:
    with pytest.raises(ConfigError, match="aggressive: expected action mode market or hybrid, got 'limit'"):
        replay_with(day, ORDER, Aggressive(), "limit")
    with pytest.raises(ConfigError, match="expected a divisor of the window's 240 s, got 7 s"):
        replay_with(day, dataclasses.replace(ORDER, interval_ns=7_000_000_000), Twap(), "market")
    with pytest.raises(ExportError, match="--symbol: expected one of DEMO, got NONE"):
        replay_with(day, dataclasses.replace(ORDER, symbol="NONE"), Twap(), "market")


@pytest.fixture
def endpoint() -> Iterator[str]:
    served = launch("--symbols", "DEMO")
    yield served.endpoint
    served.stop()


def test_forecasts_of_other_lots_are_refused(endpoint: str) -> None:
    made = sample.forecaster()
    forecasts = ServedForecasts(
        dataclasses.replace(made, training=dataclasses.replace(made.training, sizes=("0.01", "100"))), "f"
    )
    with (
        connect(endpoint, "executor") as client,
        pytest.raises(SignalError, match=r"f: DEMO: expected .* lot size of 100"),
    ):
        Executor(client, ORDER, Twap(), forecasts=forecasts)


def test_a_past_window_is_refused(endpoint: str) -> None:
    with connect(endpoint, "executor") as client:
        midnight_ns, now_ns = client.session.clock[3], client.session.clock[2]
        assert now_ns > midnight_ns
        order = ParentOrder("DEMO", Side.BUY, 5, -MINUTE_NS, 0, MINUTE_NS)
        with pytest.raises(WindowStartedError, match="choose a later window"):
            Executor(client, order, Twap())


def test_trades_of_an_auction_count_without_a_sign_and_prints_do_not() -> None:
    """As in the markets in process: POV follows the volume of an auction, and nobody can take part in a print."""
    client: Any = SimpleNamespace(
        instrument=lambda _: SimpleNamespace(number=0), session=SimpleNamespace(clock=("lockstep", 1.0, 0, 0)),
        subscribe=lambda *_: None, book=lambda *_: ([(99, 50)], [(101, 50)]),
    )  # fmt: skip
    market = ServedMarket(client, "DEMO")
    market.start(ORDER.episode[0])
    trades = [(1, 5, 100, 70, 0, CROSSED), (2, 6, 100, 900, 0, PRINT), (3, 7, 99, 4, 1, 0), (4, 8, 101, 3, 0, 0)]
    market.receive(("trade/DEMO/", [0, 0, 0, 0, 0, trades]))
    market.snapshot(10)
    frame = market.frames[0]
    assert [int(frame[name]) for name in ("trades", "traded_lots", "signed_lots")] == [3, 77, -1]
    assert frame["traded_notional"] == 7000 + 4 * 99 + 3 * 101
