"""The commission of each fill: the exchange's rule, and what is not known."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.session import Report
from serl.exchange.account import Account
from serl.exchange.records import EventFlag, EventKind
from serl.exchange.wire import Kind
from serl.gateways.binance.fees import AccountFees, Rates
from tests.gateways.binance.gateway_fixture import UNLIMITED, Gateway, eventually, launch
from tests.server_fixture import Served, free_endpoint
from tests.server_fixture import launch as launch_exchange

RATES = Rates(1, -20, 7, 50, 1000, 3)


def fill(sequence: int, lots: int, price_ticks: int, flags: int = 0) -> Report:
    values = dict.fromkeys(Report._fields, 0) | {
        "kind": EventKind.FILL,
        "symbol": 0,
        "qty_lots": lots,
        "price_ticks": price_ticks,
    }
    return Report(**values | {"sequence": sequence, "flags": flags})


@pytest.mark.parametrize(
    "flags, fee", [(0, 3 * 7 + 300 * 50), (EventFlag.MAKER, 3 - 300 * 20), (EventFlag.MAKER | EventFlag.AUCTION, 3000 + 900)]
)  # fmt: skip
def test_a_fill_costs_what_its_role_pays(flags: int, fee: int) -> None:
    fees = AccountFees()
    fees.read({0: RATES}, 0)
    assert fees.settle({}) == []
    assert fees.charge(fill(1, 3, 100, flags)).fee == fee


def test_fills_are_settled_at_the_rates_that_explain_the_accounts_fees() -> None:
    fees, changed = AccountFees(), Rates(taker_ppm=9)
    before_login = fees.charge(fill(1, 1, 100))
    assert before_login.fee is None
    fees.read({0: RATES}, 10)
    late, after = fees.charge(fill(9, 1, 100)), fees.charge(fill(11, 2, 100))
    assert fees.settle({0: 2 * (7 + 5000)}) == []
    assert before_login.fee == late.fee == 5007 and after.fee == 10_014
    fees.read({0: changed}, 20)  # the fill after the first login was at its rates, though they have changed since
    assert fees.settle({0: 4 * 5007}) == [] and after.fee == 10_014
    fees.read({0: changed}, 20)
    assert not fees.explains({0: 5 * 5007}), "a report is still to come"
    assert fees.explains({0: 4 * 5007}) and fees.settle({0: 4 * 5007}) == []
    mixed, now = fees.charge(fill(21, 1, 100)), Rates(taker_ppm=10)
    fees.charge(fill(22, 1, 100))
    fees.read({0: now}, 30)
    assert fees.settle({0: 4 * 5007 + 900 + 1000}) == [0], "one fill at each of two rates"
    assert mixed.fee is None
    assert fees.charge(fill(31, 1, 100)).fee == 1000
    fees.read({0: now}, 40)
    assert fees.settle({0: 4 * 5007 + 900 + 1000 + 1000}) == [], "what was not known does not spoil what follows"


def charged(endpoint: str, name: str) -> Decimal:
    """What the exchange has charged an account in money, at a tick of 0.01 and a lot of 1."""
    with connect(endpoint, "judge") as client:
        rows = client.ask(Kind.ACCOUNT, "", name)[5]
    return sum((Decimal(Account.from_balances(row[2:]).fees_microticks) for row in rows), Decimal(0)) / 10**8


def commissions(gateway: Gateway, key: str) -> list[str]:
    trades = gateway.signed("GET", "myTrades", key, symbol="DEMOUSDT").body
    assert {trade["commissionAsset"] for trade in trades} <= {"USDT"}
    return [trade["commission"] for trade in trades]


def with_fees(folder: Path, endpoint: str, taker_ppm: int) -> Served:
    config = folder / f"fees-{taker_ppm}.yaml"
    config.write_text(
        f"symbols: [{{name: DEMO, fees: {{maker_ppm: -20, taker_ppm: {taker_ppm}, taker_microticks: 7}}}}]\n"
        "accounts: {anna: {fees: {taker_ppm: 3}}}\n"
    )
    options = ("--config", str(config), "--journal", str(folder / "journal"))
    return launch_exchange(*options, endpoint=endpoint)


def kill(exchange: Served) -> None:
    exchange.kill()
    assert exchange.process.stdout is not None
    exchange.process.stdout.close()


def test_commissions_add_up_to_the_fees_of_the_account(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    exchange = with_fees(tmp_path, endpoint, 50)
    gateway = launch(endpoint, tmp_path, *UNLIMITED)
    try:
        with gateway.socket("/ws-api/v3") as stream:
            stream.call("userDataStream.subscribe.signature", "ALICE")
            gateway.placed("BUY", 10, "99.00")
            gateway.placed("BUY", 10, "98.37")
            taken = gateway.placed("SELL", 13, key="BOB")
            event = stream.receive(x="TRADE")["event"]
        assert (event["n"], event["N"]) == ("-0.01980000", "USDT")
        assert [fill["commission"] for fill in taken["fills"]] == ["0.04950070", "0.01475571"]
        gateway.placed("SELL", 1, key="ANNA")
        eventually(lambda: commissions(gateway, "ALICE"), ["-0.01980000", "-0.00590220", "-0.00196740"])
        expected = {key: commissions(gateway, key) for key in ("ALICE", "ANNA", "BOB")}
        assert expected["ANNA"] == ["0.00029511"], "by the account's own fees"
        for key, values in expected.items():
            assert sum(map(Decimal, values)) == charged(endpoint, key.lower()) != 0
        rates = gateway.signed("GET", "account/commission", "BOB", symbol="DEMOUSDT").body["standardCommission"]
        assert (rates["maker"], rates["taker"]) == ("-0.00002000", "0.00005000")

        gateway.kill()
        gateway = launch(endpoint, tmp_path, *UNLIMITED)
        assert {key: commissions(gateway, key) for key in expected} == expected

        kill(exchange)
        exchange = with_fees(tmp_path, endpoint, 80)
        eventually(lambda: gateway.signed("GET", "openOrders").status, 200)
        eventually(lambda: gateway.signed("GET", "openOrders", "BOB").status, 200)
        gateway.placed("SELL", 1, key="BOB")
        eventually(lambda: commissions(gateway, "BOB"), [*expected["BOB"], "0.00786967"])
        assert sum(map(Decimal, commissions(gateway, "BOB"))) == charged(endpoint, "bob")

        gateway.kill()  # a gateway that starts now cannot know which of bob's fills was at which fee
        gateway = launch(endpoint, tmp_path, *UNLIMITED)
        known: Any = {key: commissions(gateway, key) for key in ("ALICE", "ANNA", "BOB")}
        assert known["BOB"] == ["0.00000000"] * 3 and known["ANNA"] == expected["ANNA"]
        assert known["ALICE"] == [*expected["ALICE"], "-0.00196740"]
    finally:
        gateway.stop()
        kill(exchange)
