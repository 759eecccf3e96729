"""Market data over REST and streams, and the user data stream."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.gateways.binance.gateway_fixture import Gateway, Socket, eventually

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def make_trade(gateway: Gateway, price: str, quantity: int = 1) -> Any:
    """ALICE buys first, then BOB sells to her; returns his answer."""
    gateway.placed("BUY", quantity, price)
    return gateway.placed("SELL", quantity, price, key="BOB")


def test_exchange_info_and_filters(gateway: Gateway) -> None:
    info = gateway.public("exchangeInfo", symbol="DEMOUSDT")
    (symbol,) = info["symbols"]
    assert (symbol["symbol"], symbol["status"], symbol["baseAsset"], symbol["quoteAsset"]) == (
        "DEMOUSDT",
        "TRADING",
        "DEMO",
        "USDT",
    )
    filters = {each["filterType"]: each for each in symbol["filters"]}
    assert filters["PRICE_FILTER"]["tickSize"] == "0.01000000" and filters["LOT_SIZE"]["stepSize"] == "1.00000000"
    assert len(gateway.public("exchangeInfo")["symbols"]) == 2
    assert len(gateway.public("exchangeInfo", symbols='["AMZNUSDT"]')["symbols"]) == 1
    assert gateway.public("ping") == {} and gateway.public("time")["serverTime"] > 1e12


def test_trades_candles_and_tickers(gateway: Gateway) -> None:
    taken = make_trade(gateway, "50.00", 3)
    trade_id = taken["fills"][0]["tradeId"]
    eventually(lambda: [each["id"] for each in gateway.public("trades", symbol="DEMOUSDT", limit=1)], [trade_id])
    make_trade(gateway, "52.00", 1)
    eventually(lambda: gateway.public("ticker/price", symbol="DEMOUSDT")["price"], "52.00000000")
    first = gateway.public("historicalTrades", symbol="DEMOUSDT", fromId=trade_id)[0]
    assert (first["price"], first["qty"], first["isBuyerMaker"]) == ("50.00000000", "3.00000000", True)
    joined = gateway.public("aggTrades", symbol="DEMOUSDT", fromId=trade_id)
    assert [(row["a"], row["p"]) for row in joined] == [(trade_id, "50.00000000"), (trade_id + 1, "52.00000000")]
    candle = gateway.public("klines", symbol="DEMOUSDT", interval="1d", limit=1)[0]
    assert candle[4] == "52.00000000" and float(candle[2]) >= 52 and candle[8] >= 2
    east = gateway.public("klines", symbol="DEMOUSDT", interval="1d", limit=1, timeZone="+08:00")[0]
    assert (east[0] + 8 * HOUR_MS) % DAY_MS == 0 and east[6] == east[0] + DAY_MS - 1
    day = gateway.public("ticker/24hr", symbol="DEMOUSDT")
    assert day["lastPrice"] == "52.00000000" and day["lastId"] == trade_id + 1 and day["volume"] == candle[5]
    assert "bidPrice" not in gateway.public("ticker/24hr", symbol="DEMOUSDT", type="MINI")
    assert gateway.public("ticker", symbol="DEMOUSDT", windowSize="1h")["lastPrice"] == "52.00000000"
    today, shifted = (gateway.public("ticker/tradingDay", symbol="DEMOUSDT", timeZone=zone) for zone in ("0", "-1:30"))
    assert today["openTime"] % DAY_MS == 0 and today["closeTime"] == today["openTime"] + DAY_MS - 1
    assert (shifted["openTime"] - 90 * 60_000) % DAY_MS == 0 and today["lastPrice"] == "52.00000000"
    assert gateway.ask("GET", "/api/v3/ticker/tradingDay?symbol=DEMOUSDT&timeZone=15").body["code"] == -1130
    assert float(gateway.public("avgPrice", symbol="DEMOUSDT")["price"]) > 0
    assert len(gateway.public("ticker/bookTicker")) == 2
    assert gateway.ask("GET", "/api/v3/klines?symbol=DEMOUSDT&interval=7m").body["code"] == -1120


def test_the_last_aggregate_trade_is_whole(gateway: Gateway) -> None:
    for _ in range(6):
        gateway.placed("BUY", 2, "51.00")
    fills = gateway.placed("SELL", 12, "51.00", key="BOB")["fills"]
    first, last = fills[0]["tradeId"], fills[-1]["tradeId"]
    eventually(lambda: gateway.public("trades", symbol="DEMOUSDT", limit=1)[0]["id"], last)
    (row,) = gateway.public("aggTrades", symbol="DEMOUSDT", limit=1)
    assert (row["a"], row["f"], row["l"], row["q"]) == (first, first, last, "12.00000000")


class LocalBook:
    """A book as Binance tells clients to keep it: events are buffered, then a snapshot, then every event that continues it."""

    def __init__(self, snapshot: Any) -> None:
        self.sides: tuple[dict[str, str], dict[str, str]] = (dict(snapshot["bids"]), dict(snapshot["asks"]))
        self.update_id = snapshot["lastUpdateId"]
        self._started = False

    def apply(self, event: Any) -> None:
        if event["u"] <= self.update_id:
            return
        if self._started:
            assert event["U"] == self.update_id + 1
        else:
            assert event["U"] <= self.update_id + 1 <= event["u"]
        self._started, self.update_id = True, event["u"]
        for side, changes in zip(self.sides, (event["b"], event["a"]), strict=True):
            for price, quantity in changes:
                if float(quantity):
                    side[price] = quantity
                else:
                    side.pop(price, None)  # it came and went between two events

    def rows(self) -> Any:
        bids, asks = (sorted(side.items(), key=lambda level: float(level[0])) for side in self.sides)
        return [list(map(list, bids[::-1])), list(map(list, asks))]


def test_a_client_keeps_the_book_by_binances_rule(gateway: Gateway) -> None:
    gateway.placed("BUY", 5, "99.00")
    with gateway.socket("/ws/demousdt@depth@100ms") as stream:
        for number in range(40):
            gateway.placed("BUY", 1 + number % 3, f"{98 - number % 7}.00")
            if number % 5 == 0:
                gateway.placed("SELL", 2, key="BOB")
            if number == 10:
                first = stream.receive(e="depthUpdate")
                book = LocalBook(gateway.public("depth", symbol="DEMOUSDT", limit=5000))
                book.apply(first)
        last = gateway.placed("BUY", 7, "42.00")["price"]
        while last not in book.sides[0]:
            book.apply(stream.receive(e="depthUpdate"))
        snapshot = gateway.public("depth", symbol="DEMOUSDT", limit=5000)
        assert book.rows() == [snapshot["bids"], snapshot["asks"]] and book.update_id == snapshot["lastUpdateId"]


def test_streams_of_trades_quotes_candles_and_tickers(gateway: Gateway) -> None:
    names = [
        "trade", "aggTrade", "bookTicker", "kline_1m", "kline_1d@+08:00", "ticker", "ticker_1h", "miniTicker", "depth5@100ms", "avgPrice",
    ]  # fmt: skip
    with gateway.socket("/stream?streams=" + "/".join(f"demousdt@{name}" for name in names)) as stream:
        make_trade(gateway, "61.00", 2)
        expected: dict[str, Any] = {
            "trade": {"p": "61.00000000", "q": "2.00000000", "m": True}, "aggTrade": {"p": "61.00000000"}, "bookTicker": {"b": "61.00000000"},
            "kline_1m": {"e": "kline"}, "ticker": {"e": "24hrTicker", "c": "61.00000000"}, "miniTicker": {"c": "61.00000000"},
            "depth5@100ms": {}, "avgPrice": {"i": "5m"}, "ticker_1h": {"e": "1hTicker", "c": "61.00000000"}, "kline_1d@+08:00": {"e": "kline"},
        }  # fmt: skip
        while expected:
            message = stream.receive()
            name = message["stream"].removeprefix("demousdt@")
            wanted = expected.get(name)
            if wanted is not None and all(message["data"][field] == value for field, value in wanted.items()):
                del expected[name]


def test_subscriptions_are_changed_on_a_connection(gateway: Gateway) -> None:
    with gateway.socket("/ws") as stream:
        stream.send({"method": "SUBSCRIBE", "params": ["demousdt@trade", "!miniTicker@arr"], "id": 7})
        assert stream.receive() == {"result": None, "id": 7}
        stream.send({"method": "UNSUBSCRIBE", "params": ["!miniTicker@arr"], "id": "x"})
        stream.receive(id="x")
        stream.send({"method": "LIST_SUBSCRIPTIONS", "id": 8})
        assert stream.receive(id=8)["result"] == ["demousdt@trade"]
        stream.send({"method": "SET_PROPERTY", "params": ["combined", True], "id": 9})
        stream.receive(id=9)
        make_trade(gateway, "62.00")
        assert stream.receive(e="trade")["stream"] == "demousdt@trade"


JUNK = [
    ("{", 3), ("[]", 2), ("null", 2), ("[" * 3000, 3), ('{"id": 1}', 2), ('{"method": "DANCE", "id": 1}', 2), ('{"method": 5, "id": 1}', 2),
    ('{"method": "SUBSCRIBE", "params": "a", "id": 1}', 2), ('{"method": "SUBSCRIBE", "params": [1], "id": 1}', 2),
    ('{"method": "SUBSCRIBE", "params": ["a"], "id": {}}', 2), ('{"method": "GET_PROPERTY", "params": ["x"], "id": 1}', 0),
    ('{"method": "SET_PROPERTY", "params": ["combined", 3], "id": 1}', 1),
]  # fmt: skip


def test_junk_on_a_stream_is_refused_and_the_stream_goes_on(gateway: Gateway) -> None:
    with gateway.socket("/ws/demousdt@trade") as stream:
        for text, code in JUNK:
            stream.connection.send(text)
            assert stream.receive()["code"] == code, text
        too_many = {"method": "SUBSCRIBE", "params": [f"s{number}@trade" for number in range(1100)], "id": 1}
        stream.send(too_many)
        assert "at most" in stream.receive()["msg"]
        stream.connection.send(["{}", ' {"method": "LIST_', 'SUBSCRIPTIONS", "id": 5}'][1:])  # in fragments
        assert stream.receive(id=5)["result"] == ["demousdt@trade"]
        make_trade(gateway, "63.00")
        stream.receive(e="trade")


def test_a_huge_message_ends_the_connection(gateway: Gateway) -> None:
    for path in ("/ws", "/ws-api/v3"):
        with gateway.socket(path) as stream:
            stream.connection.send("x" * 100_000)
            with pytest.raises(ConnectionClosed) as closed:
                stream.connection.recv(20)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


def check_user_events(gateway: Gateway, stream: Socket) -> None:
    """Places, fills and cancels, and receives what Binance would send."""
    order = gateway.placed("BUY", 5, "71.00", newClientOrderId="watched")
    new = stream.receive(x="NEW", c="watched")
    event = new.get("event", new.get("data", new))
    assert (event["e"], event["X"], event["i"], event["q"]) == (
        "executionReport",
        "NEW",
        order["orderId"],
        "5.00000000",
    )
    gateway.placed("SELL", 2, key="BOB")
    filled = stream.receive(x="TRADE", c="watched")
    event = filled.get("event", filled.get("data", filled))
    assert (event["X"], event["l"], event["L"], event["m"]) == ("PARTIALLY_FILLED", "2.00000000", "71.00000000", True)
    stream.receive(e="outboundAccountPosition")
    gateway.signed("DELETE", "order", symbol="DEMOUSDT", orderId=order["orderId"], newClientOrderId="bye")
    cancelled = stream.receive(x="CANCELED", C="watched")
    event = cancelled.get("event", cancelled.get("data", cancelled))
    assert (event["c"], event["X"], event["z"]) == ("bye", "CANCELED", "2.00000000")


def test_the_user_data_stream_by_listen_key(gateway: Gateway) -> None:
    headers = {"X-MBX-APIKEY": "ALICE"}
    key = gateway.ask("POST", "/api/v3/userDataStream", headers=headers).body["listenKey"]
    with gateway.socket(f"/ws/{key}") as stream:
        check_user_events(gateway, stream)
    with gateway.socket(f"/stream?streams={key}/demousdt@trade") as stream:
        check_user_events(gateway, stream)
    target = f"/api/v3/userDataStream?listenKey={key}"
    assert gateway.ask("PUT", target, headers=headers).body == {}
    assert gateway.ask("DELETE", target, headers=headers).body == {}
    assert gateway.ask("PUT", target, headers=headers).body["code"] == -1125


def test_the_user_data_stream_over_the_websocket_api(gateway: Gateway) -> None:
    with gateway.socket("/ws-api/v3") as stream:
        answer = stream.call("userDataStream.subscribe.signature", "ALICE")
        assert answer["result"] == {"subscriptionId": 0}
        check_user_events(gateway, stream)
        assert stream.call("userDataStream.unsubscribe", subscriptionId=0)["result"] == {}


def test_orders_over_the_websocket_api(gateway: Gateway) -> None:
    with gateway.socket("/ws-api/v3") as stream:
        order = {
            "symbol": "DEMOUSDT",
            "side": "BUY",
            "type": "LIMIT",
            "timeInForce": "GTC",
            "quantity": "2",
            "price": 44.5,
        }
        placed = stream.call("order.place", "BOB", **order)
        assert placed["status"] == 200 and placed["result"]["price"] == "44.50000000" and placed["rateLimits"] == []
        named = {"symbol": "DEMOUSDT", "orderId": placed["result"]["orderId"]}
        assert stream.call("order.status", "BOB", **named)["result"]["status"] == "NEW"
        assert stream.call("openOrders.status", "BOB")["result"][0]["orderId"] == named["orderId"]
        assert stream.call("order.cancel", "BOB", **named)["result"]["status"] == "CANCELED"
        again = stream.call("order.cancel", "BOB", **named)
        assert (again["status"], again["error"]["code"]) == (400, -2011)
        assert stream.call("ticker.price", symbol="DEMOUSDT")["result"]["symbol"] == "DEMOUSDT"
        assert stream.call("session.logon", "BOB")["error"]["code"] == -4056
        for junk in (
            "{",
            "[]",
            '{"id": []}',
            '{"id": 1, "method": "order.place", "params": []}',
            '{"id": 1, "method": "nothing"}',
        ):
            stream.connection.send(junk)
            assert stream.receive()["status"] == 400
        assert stream.call("ping")["result"] == {}


def test_symbols_that_are_nested_too_deeply(gateway: Gateway) -> None:
    """Before, an unknown error (500), and a line in the log for each."""
    answer = gateway.ask("GET", f"/api/v3/ticker/price?symbols={'[' * 20_000}")
    assert (answer.status, answer.body["code"]) == (400, -1100)
