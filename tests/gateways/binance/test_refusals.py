"""What a stranger, a replay or a broken client gets from REST."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.gateways.binance.gateway_fixture import SECRETS, Gateway, now_ms, sign, signature, start_gateway
from tests.server_fixture import start_exchange

ORDER = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": "1", "price": "10.00"}
KEY = {"X-MBX-APIKEY": "ALICE"}


def test_keys_and_signatures(gateway: Gateway) -> None:
    wrong = gateway.signed("POST", "order", "ALICE", "another secret", **ORDER)
    assert (wrong.status, wrong.body) == (400, {"code": -1022, "msg": "Signature for this request is not valid."})
    stolen = gateway.signed("POST", "order", "BOB", SECRETS["ALICE"], **ORDER)
    assert stolen.body["code"] == -1022
    unknown = (
        gateway.signed("POST", "order", "EVE", "", **ORDER)
        if "EVE" in SECRETS
        else gateway.ask("GET", "/api/v3/account", headers={"X-MBX-APIKEY": "EVE"})
    )
    assert (unknown.status, unknown.body["code"]) == (401, -2015)
    assert gateway.ask("GET", "/api/v3/account").body["code"] == -2014
    unsigned = gateway.ask("GET", f"/api/v3/account?timestamp={now_ms()}", headers=KEY)
    assert unsigned.body == {
        "code": -1102,
        "msg": "Mandatory parameter 'signature' was not sent, was empty/null, or malformed.",
    }
    assert gateway.signed("GET", "openOrders").body == []


def test_what_an_account_does_not_have(gateway: Gateway) -> None:
    none = {"exchangeFilters": [], "symbolFilters": [], "assetFilters": []}
    assert gateway.signed("GET", "myFilters", symbol="DEMOUSDT").body == none
    delisted = gateway.ask("GET", "/sapi/v1/spot/delist-schedule", headers=KEY)
    assert (delisted.status, delisted.body) == (200, [])
    assert gateway.ask("GET", "/sapi/v1/spot/delist-schedule").body["code"] == -2014


def test_a_signature_covers_every_parameter(gateway: Gateway) -> None:
    query = sign({**ORDER, "timestamp": now_ms()}, SECRETS["ALICE"])
    changed = gateway.ask("POST", f"/api/v3/order?{query.replace('quantity=1', 'quantity=9')}", headers=KEY)
    assert changed.body["code"] == -1022
    twice = gateway.ask("POST", f"/api/v3/order?{query}", "quantity=9", KEY)
    assert twice.body["code"] == -1022
    more = gateway.ask("POST", f"/api/v3/order?{query}", "icebergQty=1", KEY)
    assert more.body["code"] == -1022
    split = sign({**ORDER, "timestamp": now_ms()}, SECRETS["ALICE"]).partition("&")
    assert gateway.ask("POST", f"/api/v3/order?{split[0]}&", split[2], KEY).status == 200


def test_of_a_parameter_in_query_and_body_that_of_the_query_counts(gateway: Gateway) -> None:
    """As Binance says; such requests were refused."""
    query = urlencode({**ORDER, "timestamp": now_ms()})
    signed = signature(f"{query}quantity=9&timeInForce=GTC", SECRETS["ALICE"])
    answer = gateway.ask("POST", f"/api/v3/order?{query}", f"quantity=9&timeInForce=GTC&signature={signed}", KEY)
    assert (answer.status, answer.body["origQty"]) == (200, "1.00000000")


def test_old_and_future_requests(gateway: Gateway) -> None:
    late = gateway.signed("GET", "account", timestamp=now_ms() - 6_000, recvWindow=5_000)
    assert late.body == {"code": -1021, "msg": "Timestamp for this request is outside of the recvWindow."}
    early = gateway.signed("GET", "account", timestamp=now_ms() + 5_000)
    assert early.body["code"] == -1021 and "ahead" in early.body["msg"]
    assert gateway.signed("GET", "account", recvWindow=70_000).body["code"] == -1131
    assert gateway.signed("GET", "account", timestamp="now").body["code"] == -1100
    assert gateway.signed("GET", "account", timestamp=now_ms() * 1000).status == 200


def test_a_replayed_order_is_refused_while_it_is_open_and_after_its_window(gateway: Gateway) -> None:
    query = sign(
        {**ORDER, "newClientOrderId": "once", "timestamp": now_ms() - 2_500, "recvWindow": 5_000}, SECRETS["ALICE"]
    )
    answers = [gateway.ask("POST", "/api/v3/order", query, KEY) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 400] and answers[1].body["code"] == -2010
    gateway.clear()
    while (answer := gateway.ask("POST", "/api/v3/order", query, KEY)).body.get("code") in (None, -2010):
        time.sleep(0.05)
        gateway.clear()
    assert answer.body["code"] == -1021


def test_paths_methods_and_bodies(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/api/v3/nothing").status == 404
    assert gateway.ask("PATCH", "/api/v3/order").status == 404
    assert gateway.ask("GET", "/api/v3/depth?symbol=DEMOUSDT&symbol=DEMOUSDT").body["code"] == -1101
    assert gateway.ask("GET", "/api/v3/depth?symbol=DEMOUSDT&limit=0").body["code"] == -1130
    assert gateway.ask("GET", "/api/v3/depth?symbol=DEMOUSDT&limit=many").body["code"] == -1100
    assert gateway.ask("GET", "/api/v3/depth?symbol=%FF%00").body["code"] == -1100
    assert gateway.ask("GET", "/api/v3/depth?symbol=").body["code"] == -1102
    assert gateway.ask("GET", "/api/v3/depth").body["code"] == -1102
    assert gateway.ask("GET", "/api/v3/ticker/price?symbols=[1]").body["code"] == -1100
    assert gateway.ask("GET", "/api/v3/ping?x=1").body["code"] == -1104
    assert gateway.ask("POST", "/api/v3/order", b"\x00\xff" * 100, KEY).status == 400
    huge = gateway.ask("POST", "/api/v3/order", "x" * 70_000, KEY)
    assert huge.status == 413
    gateway.connections.pop().close()
    assert gateway.public("ping") == {}


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway to an exchange of its own: its orders, and its sessions in place of others, would disturb the shared one."""
    limits = ("--weight-per-minute", "100", "--orders-per-10s", "2")
    with start_exchange(symbols="DEMO") as served, start_gateway(served.endpoint, tmp_path, *limits) as gateway:
        yield gateway


def test_rate_limits(limited: Gateway) -> None:
    limits = {
        (each["rateLimitType"], each["interval"]): each["limit"]
        for each in limited.public("exchangeInfo")["rateLimits"]
    }
    assert limits == {("REQUEST_WEIGHT", "MINUTE"): 100, ("ORDERS", "SECOND"): 2, ("ORDERS", "DAY"): 200_000}
    answers = [limited.signed("POST", "order", **ORDER) for _ in range(3)]
    if answers[2].status == 200:  # ten seconds began anew between them
        answers = [limited.signed("POST", "order", **ORDER) for _ in range(2)]
    assert answers[-1].status == 429 and answers[-1].body["code"] == -1015 and "retry-after" in answers[-1].headers
    while (answer := limited.ask("GET", "/api/v3/trades?symbol=DEMOUSDT")).status == 200:
        assert int(answer.headers["x-mbx-used-weight-1m"]) <= 100
    assert (answer.status, answer.body["code"]) == (429, -1003) and int(answer.headers["retry-after"]) >= 1
    for _ in range(110):
        if (answer := limited.ask("GET", "/api/v3/ping")).status == 418:
            break
    forwarded = limited.ask("GET", "/api/v3/ping", headers={"X-Forwarded-For": "192.0.2.7"})
    assert forwarded.status == 418, "a header does not make another address of the client, nor bans that address"
    assert answer.status == 418 and "banned" in answer.body["msg"] and int(answer.headers["retry-after"]) > 60
