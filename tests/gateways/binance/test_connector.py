"""Binance's own client, binance-sdk-spot, unmodified: its configurations have the gateway's addresses, and nothing else is special."""

import asyncio
import warnings
from typing import Any

import pytest

from tests.gateways.binance.gateway_fixture import SECRETS, WAIT_S, Gateway, exchange_levels
from tests.server_fixture import Served

reason = "binance-sdk-spot is in the extra interop: pip install -e '.[interop]'"
spot = pytest.importorskip("binance_sdk_spot.spot", reason=reason)
pytestmark = pytest.mark.long
DEMO = "DEMOUSDT"


def client(gateway: Gateway, key: str) -> Any:
    """A client for REST, the WebSocket API and streams."""
    secret = {"private_key" if key == "ANNA" else "api_secret": SECRETS[key]}
    return spot.Spot(
        spot.ConfigurationRestAPI(api_key=key, base_path=f"http://{gateway.address}", **secret),
        spot.ConfigurationWebSocketAPI(api_key=key, stream_url=f"ws://{gateway.address}/ws-api/v3", **secret),
        spot.ConfigurationWebSocketStreams(stream_url=f"ws://{gateway.address}/stream"),
    )


def test_every_query_is_answered_in_the_form_that_the_client_checks(gateway: Gateway) -> None:
    rest = client(gateway, "ALICE").rest_api
    gateway.placed("BUY", 5, "97.00")
    gateway.placed("SELL", 2, key="BOB")
    order_id = gateway.placed("BUY", 5, "96.00")["orderId"]
    of_all = (
        "ping", "time", "exchange_info", "get_account", "get_open_orders", "open_order_list", "all_order_list", "rate_limit_order",
        "ticker24hr", "ticker_price", "ticker_book_ticker",
    )  # fmt: skip
    of_symbol = (
        "account_commission", "all_orders", "my_trades", "my_filters", "my_allocations", "depth", "get_trades", "agg_trades", "avg_price",
        "historical_trades", "ticker", "ticker_trading_day",
    )  # fmt: skip
    for name in of_all:
        assert getattr(rest, name)().data() is not None, name
    for name in of_symbol:
        assert getattr(rest, name)(symbol=DEMO).data() is not None, name
    assert rest.klines(symbol=DEMO, interval="1m").data()[-1][4] == "97.00000000"
    assert rest.get_order(symbol=DEMO, order_id=order_id).data().status == "NEW"
    assert rest.my_prevented_matches(symbol=DEMO, order_id=order_id).data() == []


def test_orders_over_rest(gateway: Gateway) -> None:
    rest = client(gateway, "ALICE").rest_api
    limit = {"symbol": DEMO, "side": "BUY", "type": "LIMIT", "time_in_force": "GTC"}
    order = rest.new_order(**limit, quantity=10, price=97.5).data()
    assert rest.order_amend_keep_priority(symbol=DEMO, order_id=order.order_id, new_qty=8).data().execution_id == 1
    replaced = rest.order_cancel_replace(
        **limit, quantity=9, price=97.6, cancel_replace_mode="STOP_ON_FAILURE", cancel_order_id=order.order_id
    ).data()
    new_id = replaced.new_order_response.order_id
    assert gateway.placed("SELL", 4, key="BOB")["status"] == "FILLED"
    assert rest.delete_order(symbol=DEMO, order_id=new_id).data().status == "CANCELED"
    assert rest.get_order(symbol=DEMO, order_id=new_id).data().executed_qty == "4.00000000"
    with pytest.raises(Exception, match=r"-2011, 'Unknown order sent."):
        rest.delete_order(symbol=DEMO, order_id=new_id)
    pair = {"above_type": "LIMIT_MAKER", "above_price": 130, "below_type": "STOP_LOSS", "below_stop_price": 80}
    placed = rest.order_list_oco(symbol=DEMO, side="SELL", quantity=1, **pair).data()
    (done,) = rest.delete_open_orders(symbol=DEMO).data()
    assert done.order_list_id == placed.order_list_id


def test_a_session_of_the_websocket_api_trades_and_follows(gateway: Gateway, exchange: Served) -> None:
    anna, events, books = client(gateway, "ANNA"), asyncio.Queue[Any](), asyncio.Queue[Any]()

    async def event(kind: str, **wanted: Any) -> Any:
        """The next event of the account's stream of this kind with these values."""
        while True:
            found = (await events.get()).actual_instance
            if type(found).__name__ == kind and all(getattr(found, name) == wanted[name] for name in wanted):
                return found

    async def run() -> None:
        api, streams = anna.websocket_api, anna.websocket_streams
        await asyncio.gather(api.create_connection(), streams.create_connection())
        (await streams.partial_book_depth(symbol=DEMO.lower(), levels="20")).on("message", books.put_nowait)
        assert (await api.session_logon()).data().result.api_key == "ANNA"
        (await api.user_data_stream_subscribe()).stream.on("message", events.put_nowait)
        limit = {"symbol": DEMO, "side": "BUY", "type": "LIMIT", "time_in_force": "GTC"}
        placed = (await api.order_place(**limit, quantity=6, price=98)).data().result
        await asyncio.to_thread(gateway.placed, "SELL", 2, key="BOB")
        fill = await event("ExecutionReport", x="TRADE")
        assert (fill.i, fill.l, fill.L) == (placed.order_id, "2.00000000", "98.00000000")
        assert (await event("OutboundAccountPosition")).B
        wanted = await asyncio.to_thread(exchange_levels, exchange)
        assert wanted == [[[98.0, 4.0]], []]
        book: Any = None
        while book != wanted:
            found = await books.get()
            book = [[list(map(float, level)) for level in side] for side in (found.bids, found.asks)]
        await api.order_cancel(symbol=DEMO, order_id=placed.order_id)
        assert (await event("ExecutionReport", x="CANCELED")).i == placed.order_id
        assert (await api.session_logout()).data().result.api_key is None
        for connections in (api, streams):
            await connections.close_connection(close_session=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its HTTP client
        asyncio.run(asyncio.wait_for(run(), 2 * WAIT_S))
