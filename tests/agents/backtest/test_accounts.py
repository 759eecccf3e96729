"""What a strategy's account tells it: that of its fills, here checked against sums of them."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import serl
from serl.agents.backtest.run import backtest
from serl.agents.traders.population import load_population
from serl.clients.values import Balance
from serl.exchange.account import NOTHING, Account
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, CommandKind, TimeInForce
from serl.history.generate import generate_day
from tests.agents.backtest.sample import Busy

SECOND_NS = 1_000_000_000


class Watched(Busy):
    """Notes its account and its fills at each wake-up."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: list[tuple[dict[str, Balance], int, list[Any]]] = []

    def on_wake(self, market: Any) -> None:
        self.accounts.append((market.account(), market.position(self.symbol), list(market.fills())))
        super().on_wake(market)


def check(accounts: list[tuple[dict[str, Balance], int, list[Any]]]) -> None:
    for account, position, fills in accounts:
        cash = sum((1 if fill.side else -1) * fill.qty_lots * Decimal(fill.price_ticks) / 100 for fill in fills)
        found = account.get("DEMO", Balance(0, *[Decimal(0)] * 4))
        assert (found.position_lots, found.cash) == (position, cash)
        assert bool(account) == bool(fills)
    last = accounts[-1][0]["DEMO"]
    assert last.realised != 0 != last.unrealised


def test_the_account_of_a_backtest_is_that_of_its_fills() -> None:
    population, strategy = load_population("liquid"), Watched()
    result = backtest(
        strategy, population=population, window_ns=(population.open_ns, population.open_ns + 30 * SECOND_NS)
    )
    check(strategy.accounts)
    assert len(result.fill_rows) > 20
    account = NOTHING
    for side, price, lots in result.fill_rows[["side", "price_ticks", "qty_lots"]].tolist():
        account = account.after_fill(side, price, lots)
    assert account.position_lots == result.positions[-1, 0]


@pytest.mark.long
def test_the_account_of_a_day_that_gives_way_is_in_real_prices() -> None:
    start_s = 36_000
    day = generate_day(3, "DEMO", start_ns=start_s * SECOND_NS, end_ns=(start_s + 600) * SECOND_NS)

    class Taker(serl.Strategy):
        interval_s = 5.0
        accounts: list[Any]

        def on_start(self, market: Any) -> None:
            self.accounts, self.count = [], 0

        def on_wake(self, market: Any) -> None:
            (symbol,) = market.symbols
            self.accounts.append((market.account(), market.position(symbol), list(market.fills())))
            self.count += 1
            (market.sell if self.count % 7 == 0 else market.buy)(symbol, 20)

    strategy = Taker()
    backtest(strategy, day=day, answers="square_root")
    check(strategy.accounts)
    assert len(strategy.accounts[-1][2]) > 50


def test_an_account_after_a_fill_is_that_of_the_order_book() -> None:
    """Also of positions that cross zero, and of average costs that are no whole ticks."""
    market, random, account = Market(["A"]), np.random.default_rng(1), NOTHING
    row = np.zeros(1, COMMAND)
    for number in range(1, 400):
        side, price, lots = int(random.integers(2)), int(random.integers(1, 50)), int(random.integers(1, 9))
        for participant, its_side in ((2, 1 - side), (1, side)):
            row[0]["kind"], row[0]["participant"], row[0]["command_id"] = CommandKind.NEW, participant, number
            row[0]["side"], row[0]["price_ticks"], row[0]["qty_lots"] = its_side, price, lots
            row[0]["time_in_force"] = TimeInForce.GTC
            market.submit(row)
        account = account.after_fill(side, price, lots)
        assert account == Account.from_balances(market.balances()[1, 0]), number
    assert account.position_lots and account.realised_ticks
