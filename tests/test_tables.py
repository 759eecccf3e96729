"""`serl.tables`: what is documented exists; simulations, backtests, executions and journals as tables against their own numbers."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from serl import tables
from serl.agents.backtest.result import Result
from serl.agents.backtest.run import backtest
from serl.agents.execution.errors import ReportError
from serl.agents.learning.errors import EvaluationFileError
from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.simulate import Simulation
from serl.exchange.errors import ConfigError, JournalError
from serl.exchange.records import CommandKind
from tests.agents.backtest.test_backtest import Buyer, small_day
from tests.agents.backtest.test_result import fills, result
from tests.agents.traders.test_rules import DAY, population, simulated
from tests.doc_blocks import ROOT
from tests.exchange.offline_exchange import exchange

MINUTE_NS = 60 * 10**9


def test_every_function_is_documented_and_loads() -> None:
    page = (ROOT / "docs" / "tables.md").read_text()
    for name in dir(tables):
        assert callable(getattr(tables, name)) and f"`{name}" in page, name
    with pytest.raises(AttributeError, match=r"expected one of Table, .*trades"):
        tables.volumes  # noqa: B018


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    simulation = Simulation(load_population("liquid"), 1)
    simulation.advance(simulation.population.open_ns + 2 * MINUTE_NS)
    return simulation


def test_traders_hold_what_the_simulation_says(simulation: Simulation) -> None:
    table = tables.traders(simulation.day(), simulation.population)
    agents = simulation.crowd.traders.agents
    for name in ("position_lots", "cash_ticks"):
        np.testing.assert_array_equal(table[name], agents[name])
    bid, ask = simulation.market.best()
    assert bid and ask
    profit = (2 * agents["cash_ticks"] + agents["position_lots"] * (bid + ask)) / 200
    np.testing.assert_allclose(table["pnl"], profit, rtol=1e-12)
    np.testing.assert_allclose(table["cash"], agents["cash_ticks"] / 100, rtol=1e-12)
    groups = simulation.population.groups
    assert table["trader_kind"].tolist() == [group.trader for group in groups for _ in range(group.count)]
    assert table["traded_lots"].sum() == 2 * table["maker_lots"].sum() > 0 == table["position_lots"].sum()


def test_order_flow_names_who_sent_each_command(simulation: Simulation) -> None:
    day = simulation.day()
    flow, traders = (table(day, simulation.population) for table in (tables.order_flow, tables.traders))
    assert len(flow) == simulation.count
    new = flow["kind"] == "new"
    np.testing.assert_array_equal(np.bincount(flow["trader"][new], minlength=len(traders)), traders["orders"])
    assert (flow["trader_kind"] == traders["trader_kind"][flow["trader"]]).all()
    cancelled = flow["order_id"][flow["kind"] == "cancel"] - 1
    assert (flow["trader"][cancelled] == flow["trader"][flow["kind"] == "cancel"]).all(), "own orders only"
    assert (flow["side"][cancelled] == flow["side"][flow["kind"] == "cancel"]).all()


def test_traders_pay_fees_and_send_no_commands_of_the_exchange() -> None:
    fees = {"maker_ppm": -20, "taker_ppm": 130, "taker_microticks": 7, "auction_microticks": 900}
    simulation, _ = simulated(population(fees=fees, day=DAY))
    day, agents = simulation.day(), simulation.crowd.traders.agents
    table = tables.traders(day, simulation.population)
    for name in ("position_lots", "cash_ticks"):
        np.testing.assert_array_equal(table[name], agents[name])
    np.testing.assert_allclose(table["fee"], agents["fee_microticks"] / 1e8, rtol=1e-12)
    bid, ask = tables.quotes(day)["bid_ticks"], tables.quotes(day)["ask_ticks"]
    mid_ticks = 0.5 * (bid + ask)[(bid > 0) & (ask > 0)][-1]
    profit = (agents["cash_ticks"] - agents["fee_microticks"] / 1e6 + agents["position_lots"] * mid_ticks) / 100
    np.testing.assert_allclose(table["pnl"], profit, atol=1e-6)
    own = np.count_nonzero(day.commands["kind"] >= CommandKind.END_DAY)
    assert own > 3
    assert len(tables.order_flow(day, simulation.population)) == simulation.count - own


def test_another_population_is_refused(simulation: Simulation) -> None:
    other: PopulationConfig = simulation.population.model_copy(update={"tick_size": "0.5"})
    for table in (tables.order_flow, tables.traders):
        with pytest.raises(ConfigError, match="expected a day simulated with this version of the population liquid"):
            table(simulation.day(), other)


def a_result() -> Result:
    rows = fills((1, 0, 0, 100, 5), (2, 0, 1, 102, 5), (3, 1, 1, 30, 1))
    return result(rows, [2, 9], [[202, 0], [201, 60]])


def test_fills_trades_and_curve_of_a_backtest() -> None:
    found = a_result()
    made = tables.backtest_fills(found)
    assert made["symbol"].tolist() == ["A", "A", "B"] and made["price"].tolist() == [1.0, 1.02, 15.0]
    assert made["side"].tolist() == ["buy", "sell", "sell"] and made["maker"].tolist() == [False, True, False]
    trades = tables.backtest_trades(found)
    assert trades["side"].tolist() == ["buy", "sell"] and trades["profit"][0] == pytest.approx(0.1)
    assert np.isnan(trades["profit"][1]) and np.isnat(trades["end"][1]) and trades["end"][0] == np.datetime64(2, "ns")
    curve = tables.backtest_curve(found)
    assert curve["pnl"].tolist() == [float(value) for value in found.pnl]
    assert curve["position_lots_B"].tolist() == [0, -1] and curve["mid_A"].tolist() == [1.01, 1.005]
    assert np.isnan(curve["mid_B"][0])
    assert len(tables.backtest_trades(result(fills(), [2], [[198, 0]]))) == 0


def test_times_of_a_backtest_are_on_the_date_of_its_day() -> None:
    """So its tables can be joined with those of the day."""
    one = small_day()
    day = dataclasses.replace(one, reference=dataclasses.replace(one.reference, date="2012-06-21"))
    found = backtest(Buyer, day=day)
    made, trades, curve = tables.backtest_fills(found), tables.backtest_trades(found), tables.backtest_curve(found)
    for times in (made["time"], trades["start"], curve["time"], tables.trades(day)["time"]):
        assert np.all(times.astype("datetime64[D]") == np.datetime64("2012-06-21")) and len(times)


def test_orders_and_fills_of_a_report(tmp_path: Path) -> None:
    file = tmp_path / "A-sell-twap.json"
    record = {"summary": {"symbol": "A", "side": "sell"}, "tick_size": 0.01, "fills": [[5, 101, 2, 7], [6, 100, 1, 8]], "children": [[4, 3]]}  # fmt: skip
    file.write_text(json.dumps(record))
    made, sent = tables.execution_fills(file), tables.execution_orders(file)
    assert made["price"].tolist() == [1.01, 1.0] and made["match_id"].tolist() == [7, 8]
    assert set(made["side"]) == {"sell"} and made["symbol"].tolist() == ["A", "A"]
    assert sent["time_ns"].tolist() == [4] and sent["qty_lots"].tolist() == [3]
    del record["tick_size"]
    file.write_text(json.dumps(record))
    assert np.isnan(tables.execution_fills(file)["price"]).all()
    file.write_text("{}")
    with pytest.raises(ReportError, match="expected the JSON file of a report of `serl execute`"):
        tables.execution_fills(file)
    with pytest.raises(EvaluationFileError, match=r"give evaluation.json or its folder"):
        tables.evaluation(file)


def test_a_journal_has_all_its_rows(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    with exchange(folder, 10**18, {"name": "OAK", "tick_size": "0.5"}) as served:
        for count in range(5):
            served.trade(10**18 + count, 100 + count)
        assert len(tables.journal_orders(folder)) == 10, "also while its exchange runs"
        served.core.journal.participants += [
            {"name": "exchange"},
            {"name": "\0exchange"},
            {"name": "ann"},
            {"name": "bob"},
        ]
        served.core.journal.save_participants()
    orders, events = tables.journal_orders(folder), tables.journal_events(folder)
    assert (orders["kind"] == "new").all() and orders["participant"].tolist() == ["ann", "bob"] * 5
    traded = events["price"][(events["kind"] == "fill") & events["maker"]]
    assert traded.tolist() == [50.0, 50.5, 51.0, 51.5, 52.0]
    assert orders["time"][0] >= np.datetime64("2001-09-09T01:46:40")
    assert orders["sequence"].tolist() == list(range(1, len(orders) + 1))  # fmt: skip
    assert orders.to_pandas()["participant"].cat.categories.tolist() == ["exchange", "exchange (2)", "ann", "bob"]
    with pytest.raises(JournalError, match="expected a journal"):
        tables.journal_orders(tmp_path)
