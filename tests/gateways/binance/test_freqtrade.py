"""freqtrade, unmodified and with dry_run off: its configuration has the gateway's addresses, and nothing else is special."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.doc_blocks import blocks
from tests.gateways.binance.gateway_fixture import SECRETS, Gateway, eventually, start_gateway
from tests.server_fixture import launch

FREQTRADE = shutil.which("freqtrade", path=f"{sys.prefix}/freqtrade/bin") or shutil.which("freqtrade")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(FREQTRADE is None, reason="freqtrade is not installed (make interop)"),
]
SYMBOLS = ("DEMOUSDT", "AMZNUSDT")
FEES = "fees: {maker_ppm: 200, taker_ppm: 500}"
BOT_WAIT_S = 180
"""It imports for seconds, and its first signal comes with the end of a minute."""
SETTINGS = {
    "trading_mode": "spot", "stake_currency": "USDT", "stake_amount": 1000, "max_open_trades": 2,
    "entry_pricing": {"price_side": "same", "use_order_book": True, "order_book_top": 1},
    "exit_pricing": {"price_side": "same", "use_order_book": True, "order_book_top": 1},
    "exchange": {"pair_whitelist": [], "pair_blacklist": []},
    "pairlists": [{"method": "VolumePairList", "number_assets": 5}, {"method": "DelistFilter"}, {"method": "SpreadFilter"}],
    "initial_state": "running", "internals": {"process_throttle_secs": 1},
}  # fmt: skip


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway of its own, to an exchange with fees."""
    config = tmp_path / "fees.yaml"
    config.write_text(f"symbols: [{{name: DEMO, {FEES}}}, {{name: AMZN, {FEES}}}]\n")
    exchange = launch("--config", str(config))
    try:
        with start_gateway(exchange.endpoint, tmp_path) as started:
            yield started
    finally:
        exchange.stop()


class Bot(NamedTuple):
    """A running freqtrade in its folder."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def wait_for(self, ask: Callable[[], Any], expected: Any) -> None:
        """Asks until the answer is as expected; fails with the bot."""
        deadline_s = time.monotonic() + BOT_WAIT_S
        while (found := ask()) != expected:
            assert self.process.poll() is None, "the bot ended"
            assert time.monotonic() < deadline_s, f"expected {expected}, got {found}"
            time.sleep(0.1)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What its database says; nothing before it exists."""
        path = self.folder / "trades.sqlite"
        if not path.exists():
            return []
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(query).fetchall()

    def complaints(self) -> list[str]:
        """Warnings and errors in its output, but for those before the first candle has closed."""
        lines = (self.folder / "output.txt").read_text().splitlines()
        found = [line for line in lines if " - WARNING - " in line or " - ERROR - " in line]
        return [line for line in found if "Empty candle (OHLCV) data" not in line]


@contextmanager
def running_bot(gateway: Gateway, folder: Path) -> Iterator[Bot]:
    """freqtrade with the example of the documentation."""
    assert FREQTRADE is not None
    (block,) = blocks("gateways/binance.md", "json")
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    text = block.text.replace("ADDRESS", gateway.address).replace("KEY", "ALICE").replace("SECRET", SECRETS["ALICE"])
    (folder / "serl.json").write_text(text)
    (folder / "user").mkdir()
    command = [FREQTRADE, "trade", "-c", "config.json", "-c", "serl.json", "--userdir", "user"]
    command += ["--strategy-path", str(Path(__file__).parent / "freqtrade"), "--strategy", "BuyOnce"]
    command += ["--db-url", f"sqlite:///{folder}/trades.sqlite"]
    with (folder / "output.txt").open("w") as output:
        one_line = {**os.environ, "COLUMNS": "10000"}
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=one_line)
    try:
        yield Bot(process, folder)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
    except BaseException:
        print((folder / "output.txt").read_text()[-8000:])
        raise
    finally:
        process.kill()
        process.wait()


def quote(gateway: Gateway, symbol: str, bid: str, ask: str) -> None:
    """Another market of the counterparty."""
    gateway.signed("DELETE", "openOrders", "BOB", symbol=symbol)
    gateway.placed("BUY", 100, bid, key="BOB", symbol=symbol)
    gateway.placed("SELL", 100, ask, key="BOB", symbol=symbol)


def orders(gateway: Gateway, symbol: str) -> list[tuple[str, str, str]]:
    """(type, side, price) of the bot's open orders."""
    found = gateway.signed("GET", "openOrders", symbol=symbol).body
    return [(order["type"], order["side"], f"{Decimal(order['price']).normalize():f}") for order in found]


def money(gateway: Gateway) -> dict[str, Decimal]:
    return {
        each["asset"]: Decimal(each["free"]) + Decimal(each["locked"])
        for each in gateway.signed("GET", "account").body["balances"]
    }


class Filled(NamedTuple):
    """What an order has traded."""

    side: str
    qty: Decimal = Decimal(0)
    amount: Decimal = Decimal(0)
    fees: Decimal = Decimal(0)


def fills(gateway: Gateway) -> dict[str, Filled]:
    """The orders of the bot that have traded, as the exchange has them."""
    found: dict[str, Filled] = {}
    for symbol in SYMBOLS:
        for fill in gateway.signed("GET", "myTrades", symbol=symbol).body:
            key = f"{symbol[:4]}/USDT {fill['orderId']}"
            side, qty, amount, fees = found.get(key, Filled("buy" if fill["isBuyer"] else "sell"))
            qty, amount = qty + Decimal(fill["qty"]), amount + Decimal(fill["quoteQty"])
            found[key] = Filled(side, qty, amount, fees + Decimal(fill["commission"]))
    return found


def test_freqtrade_buys_sells_and_is_stopped(gateway: Gateway, tmp_path: Path) -> None:
    for symbol in SYMBOLS:
        quote(gateway, symbol, "99.90", "100.10")
        gateway.placed("BUY", 1, key="ANNA", symbol=symbol)
    before = money(gateway)
    with running_bot(gateway, tmp_path) as bot:
        for symbol in SYMBOLS:
            bot.wait_for(lambda symbol=symbol: orders(gateway, symbol), [("LIMIT", "BUY", "99.9")])
        for symbol in SYMBOLS:
            quote(gateway, symbol, "99.50", "99.95")
            gateway.placed("SELL", 10, key="ANNA", symbol=symbol)
            bot.wait_for(lambda symbol=symbol: orders(gateway, symbol), [("STOP_LOSS_LIMIT", "SELL", "93.97")])
        quote(gateway, "DEMOUSDT", "101.50", "102.00")
        bot.wait_for(lambda: orders(gateway, "DEMOUSDT"), [("LIMIT", "SELL", "102")])
        gateway.placed("BUY", 103, key="ANNA")
        gateway.placed("BUY", 7, key="ANNA")
        quote(gateway, "AMZNUSDT", "94.80", "95.20")
        gateway.placed("SELL", 1, key="ANNA", symbol="AMZNUSDT")
        eventually(lambda: orders(gateway, "AMZNUSDT"), [])
        bot.wait_for(lambda: bot.rows("SELECT exit_reason FROM trades WHERE NOT is_open ORDER BY pair"), [("stoploss_on_exchange",), ("target",)])  # fmt: skip
    assert bot.complaints() == []

    done = bot.rows("SELECT ft_pair || ' ' || order_id, side, filled, cost FROM orders WHERE filled > 0")
    exchange = fills(gateway)
    assert {key: (side, float(filled), float(cost)) for key, side, filled, cost in done} == {
        key: (each.side, float(each.qty), float(each.amount)) for key, each in exchange.items()
    }
    assert len(exchange) == 4 and len(bot.rows("SELECT id FROM orders WHERE status = 'canceled'")) == 1
    (fees,) = bot.rows("SELECT SUM(fee_open_cost), SUM(fee_close_cost) FROM trades")
    assert sum(fees) == pytest.approx(float(sum(each.fees for each in exchange.values())))
    after = money(gateway)
    profit = sum(made for (made,) in bot.rows("SELECT realized_profit FROM trades"))
    assert profit == pytest.approx(float(after.pop("USDT") - before.pop("USDT"))) and after == before
