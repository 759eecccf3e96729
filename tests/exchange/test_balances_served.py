"""Balances by asset of a served exchange: configuration, deposits, checks, the command line, restarts."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients.asynchronous import connect as connect_asynchronous
from serl.clients.blocking import connect
from serl.clients.errors import Rejected, RequestRejected
from serl.clients.values import AssetBalance
from serl.exchange.account_config import AccountConfig
from serl.exchange.assets import Assets
from serl.exchange.config import SymbolConfig, load_config
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError
from serl.exchange.journal.checked_json import read_checked
from serl.exchange.journal.meta import PARTICIPANTS, save_participants
from serl.exchange.records import CommandKind, Rule
from serl.exchange.request import request_socket
from serl.exchange.settings import asset_rows
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind
from tests.exchange.offline_exchange import ANN, at, exchange
from tests.server_fixture import Served, start_exchange

SYMBOLS: list[dict[str, Any]] = [
    {"name": "BTCUSDT", "tick_size": "0.01", "lot_size": "0.00001", "base": "BTC", "quote": "USDT"},
    {"name": "ETHUSDT", "tick_size": "0.01", "lot_size": "0.0001", "base": "ETH", "quote": "USDT"},
    {"name": "ETHBTC", "tick_size": "0.00001", "lot_size": "0.0001", "base": "ETH", "quote": "BTC", "fees": {"taker_ppm": 1000}},
]  # fmt: skip
ACCOUNTS: dict[str, Any] = {
    "alice": {"balance_checks": True, "balances": {"USDT": "1000", "BTC": "0.5"}},
    "bear": {"balance_checks": True, "short_sales": True, "balances": {"USDT": "10"}},
}


def holds(served: Served, name: str) -> dict[str, AssetBalance]:
    with connect(served.endpoint, name) as client:
        return client.balances()


def of(balance: str, reserved: str = "0") -> AssetBalance:
    return AssetBalance(Decimal(balance), Decimal(reserved))


def serl(served: Served, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "serl", *words, "--connect", served.endpoint],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    config: dict[str, Any] = {"symbols": SYMBOLS, "accounts": ACCOUNTS}
    with start_exchange(symbols="", config=config, folder=tmp_path_factory.mktemp("balances")) as served:
        yield served


def test_a_spot_account_adds_up(served: Served) -> None:
    """Three pairs, one of which pays with what another trades; every amount to the last digit."""
    with connect(served.endpoint, "alice") as alice, connect(served.endpoint, "maker") as maker:
        with pytest.raises(Rejected, match="LIMIT_BALANCE"):
            alice.buy("BTCUSDT", 2_001, 5_000_000)
        order = alice.buy("BTCUSDT", 1_500, 5_000_000)
        assert alice.balances() == {"BTC": of("0.5"), "USDT": of("1000", "750")}
        with pytest.raises(Rejected, match="LIMIT_BALANCE"):
            alice.buy("ETHUSDT", 1_001, 250_000)
        maker.sell("BTCUSDT", 500, 5_000_000)
        alice.wait(5)
        alice.cancel(order)
        assert alice.balances() == {"BTC": of("0.505"), "USDT": of("750")}
        maker.sell("ETHBTC", 10_000, 5_000)
        alice.buy("ETHBTC", 10_000, 5_000)  # 1 ETH for 0.05 BTC, and 0.00005 BTC in fees
        assert alice.balances() == {"BTC": of("0.45495"), "ETH": of("1"), "USDT": of("750")}
        sell = alice.sell("ETHUSDT", 10_000, 300_000)
        alice.sell("ETHUSDT", 10_000, None, terms=Terms(stop_ticks=200_000, link=sell.order_id))
        assert alice.balances()["ETH"] == of("1", "1")
        assert alice.balances()["ETH"].free == 0
        with pytest.raises(Rejected, match="LIMIT_BALANCE"):
            alice.sell("ETHBTC", 1, 6_000)
        alice.mass_cancel()
        assert maker.balances() == {}, "neither deposits nor checks"


def test_the_asyncio_client_has_balances_too(served: Served) -> None:
    async def balances() -> dict[str, AssetBalance]:
        async with await connect_asynchronous(served.endpoint, "bear") as client:
            return await client.balances()

    assert asyncio.run(balances())["USDT"].reserved == 0


def test_short_sales_need_permission_only(served: Served) -> None:
    with connect(served.endpoint, "bear") as bear:
        bear.sell("BTCUSDT", 10, 9_000_000)
        assert bear.balances() == {"BTC": of("0", "0.0001"), "USDT": of("10")}
        with pytest.raises(Rejected, match="LIMIT_BALANCE"):
            bear.buy("BTCUSDT", 1_000, 1_000_001)
        bear.mass_cancel()


def test_operators_deposit_and_withdraw(served: Served) -> None:
    with connect(served.endpoint, "carol"):
        pass
    output = serl(served, "exchange", "deposit", "carol", "USDT", "1234.5").splitlines()
    assert [line.split() for line in output] == [
        ["asset", "balance", "reserved", "free"],
        ["USDT", "1,234.5", "0", "1,234.5"],
    ]
    assert "1,200.25" in serl(served, "exchange", "withdraw", "carol", "USDT", "34.25")
    assert holds(served, "carol") == {"USDT": of("1200.25")}
    assert serl(served, "exchange", "account", "carol").splitlines()[-1].split() == [
        "USDT",
        "1,200.25",
        "0",
        "1,200.25",
    ]
    for amount in ("abc", "0", "nan", "+5"):
        refused = serl(served, "exchange", "withdraw", "carol", "USDT", amount)
        assert f"AMOUNT: expected a number above 0, got '{amount}'" in refused
    assert "DEPOSIT was rejected: LIMIT_BALANCE" in serl(served, "exchange", "withdraw", "alice", "USDT", "999999")


@pytest.mark.parametrize(
    ("asset", "amount", "error"),
    [
        ("XRP", "1", "expected one of BTC, ETH, USDT, got 'XRP'"),
        ("", "1", "expected one of BTC, ETH, USDT, got ''"),
        ("USDT", "0.00000001", "expected a multiple of 0.0000001, not 0"),
        ("USDT", "0", "expected a multiple"),
        ("USDT", "1/2", "expected a multiple"),
        ("USDT", "nan", "expected a multiple"),
        ("USDT", "1e30", "expected an amount below"),
        pytest.param("USDT", "1e99999999", "expected a multiple", id="a power that takes minutes"),
    ],
)
def test_wrong_deposits_change_nothing(served: Served, asset: str, amount: str, error: str) -> None:
    before = holds(served, "alice")
    with request_socket(served.endpoint, "admin") as request, pytest.raises(RequestRejected, match=error):
        request(Kind.DEPOSIT, "", "alice", asset, amount)
    assert holds(served, "alice") == before


def test_only_operators_deposit(served: Served) -> None:
    with request_socket(served.endpoint, "admin") as request, pytest.raises(RequestRejected, match="operator"):
        request(Kind.DEPOSIT, "wrong", "alice", "USDT", "1")


def test_a_killed_exchange_keeps_what_accounts_have(tmp_path: Path) -> None:
    """Configured balances are deposited once."""
    accounts = {"alice": {"balance_checks": True, "balances": {"EUR": "100"}}}
    config: dict[str, Any] = {"symbols": [{"name": "AMZN", "quote": "EUR"}], "accounts": accounts}
    options: dict[str, Any] = {"symbols": "", "config": config, "folder": tmp_path, "journal": tmp_path / "journal"}
    with start_exchange(**options) as served:
        with connect(served.endpoint, "alice") as alice:
            alice.buy("AMZN", 1, 4_000)
        served.kill()
    with start_exchange(**options) as served:
        assert holds(served, "alice") == {"AMZN": of("0"), "EUR": of("100", "40")}
        with connect(served.endpoint, "alice") as alice, pytest.raises(Rejected, match="LIMIT_BALANCE"):
            alice.buy("AMZN", 1, 6_001)


def test_withdrawn_balances_do_not_come_back(tmp_path: Path) -> None:
    """Nor in a journal of an earlier version, which has no notes of deposits."""
    journal = tmp_path / "journal"
    config: dict[str, Any] = {"symbols": [{"name": "AMZN"}], "accounts": {"alice": {"balances": {"USD": "100"}}}}
    options: dict[str, Any] = {"symbols": "", "config": config, "folder": tmp_path, "journal": journal}
    with start_exchange(**options) as served:
        serl(served, "exchange", "withdraw", "alice", "USD", "100")
        assert holds(served, "alice") == {}
    with start_exchange(**options) as served:
        assert holds(served, "alice") == {}
    saved = read_checked(journal / PARTICIPANTS)
    for entry in saved["participants"]:
        del entry["deposited"]
    save_participants(journal, saved["journal"], saved["participants"])
    config["accounts"]["bear"] = {"balances": {"USD": "7"}}
    with start_exchange(**options) as served:
        assert (holds(served, "alice"), holds(served, "bear")) == ({}, {"USD": of("7")})


# -- configuration ------------------------------------------------------------------------------------------------


def symbol(name: str, tick: str, lot: str, **assets: str) -> SymbolConfig:
    return SymbolConfig(name=name, tick_size=tick, lot_size=lot, base=assets.get("base"), quote=assets.get("quote", "USD"))  # fmt: skip


def test_assets_and_units() -> None:
    assets = Assets([SymbolConfig.model_validate(each) for each in SYMBOLS])
    assert [name for name in assets.names if name] == ["BTC", "ETH", "USDT"]
    assert {name: float(assets.units[assets.number(name) - 1]) for name in ("BTC", "ETH", "USDT")} == {
        "BTC": 1e-9, "ETH": 1e-4, "USDT": 1e-7,
    }  # fmt: skip
    # BASE_ASSET, QUOTE_ASSET, BASE_UNITS, QUOTE_UNITS; 0: the default
    assert assets.rows.tolist() == [[0, 0, 10_000, 0], [0, 0, 0, 10], [2, 1, 0, 0]]


def test_shares_of_one_size_need_no_rules() -> None:
    assets = Assets([symbol("A", "0.01", "1"), symbol("B", "0.01", "1")])
    assert not assets.rows.any() and assets.names == ["A", "B", "USD", ""]
    assert not asset_rows(assets, np.zeros((2, 4), np.int64))


def test_currencies() -> None:
    assets = Assets([symbol("A", "0.01", "1"), symbol("B", "0.02", "1", quote="EUR"), symbol("C", "0.05", "1")])
    assert assets.names == ["A", "B", "C", "USD", "EUR", ""]
    assert assets.rows.tolist() == [[0, 0, 0, 0], [0, 5, 0, 0], [0, 0, 0, 5]]


def test_units_too_far_apart() -> None:
    with pytest.raises(ConfigError, match=r"symbols\.B: .*differ by at most 2\^31"):
        Assets([symbol("A", "0.000001", "0.000001"), symbol("B", "1", "1")])


@pytest.mark.parametrize("balances", [{"XYZ": "1"}, {"USD": "-1"}, {"USD": "0.001"}, {"USD": "much"}])
def test_wrong_balances_are_a_configuration_error(tmp_path: Path, balances: dict[str, str]) -> None:
    config = load_config(overrides={"symbols": [{"name": "A"}], "accounts": {"ann": {"balances": balances}}})
    with pytest.raises(ConfigError, match=r"accounts\.ann\.balances: "):
        Core(config, tmp_path)
    assert not list(tmp_path.iterdir())


def test_balances_alone_are_no_limits() -> None:
    assert AccountConfig(balances={"USD": "5"}).settings() == []


def test_a_start_deposits_where_nothing_was_deposited(tmp_path: Path) -> None:
    accounts = {"ann": {"balances": {"USD": "5", "S0": "3"}}}
    with exchange(tmp_path, at("10:00"), {}, {"tick_size": "0.05"}, accounts=accounts) as served:
        assert len(served.sent(CommandKind.DEPOSIT)) == 2
        assert served.sent(CommandKind.RULE)["flags"].tolist() == [Rule.QUOTE_UNITS]
        assert served.core.market.holdings(ANN)[3].balance == 500 * 10**6
        served.send(CommandKind.DEPOSIT, at("10:00"), 1, order_id=ANN, qty_lots=3, price_ticks=-499)
    with exchange(tmp_path, at("11:00"), {}, {"tick_size": "0.05"}, accounts=accounts) as served:
        assert not len(served.sent(CommandKind.DEPOSIT)) and not len(served.sent(CommandKind.RULE))
        assert served.core.market.holdings(ANN)[3].balance == 10**6
