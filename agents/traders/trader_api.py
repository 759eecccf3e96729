"""What a trader's function can say and ask. All are compiled into it; prices in ticks, quantities in lots, times in ns."""

from typing import Any

from serl.agents.traders.addresses import load_float64, load_int32, load_int64, store_float64
from serl.agents.traders.records import FLOW_ROWS, NODE, REQUESTS_MAX
from serl.exchange.compiling import inlined, int64
from serl.exchange.records import CommandFlag, CommandKind, Side, TimeInForce

BUY, SELL = int(Side.BUY), int(Side.SELL)
DAY, IOC = int(TimeInForce.DAY), int(TimeInForce.IOC)
NEW, CANCEL = int(CommandKind.NEW), int(CommandKind.CANCEL)
POST_ONLY, MARKET = int(CommandFlag.POST_ONLY), int(CommandFlag.MARKET)
SECOND_NS = 1_000_000_000

_NODE_BYTES = NODE.itemsize


def _offset(field: str) -> int:
    assert NODE.fields is not None
    return int(NODE.fields[field][1])


_PRICE, _OPEN, _SINCE = _offset("price_ticks"), _offset("open_lots"), _offset("since_ns")
_SIDE, _CANCELLING = _offset("side"), _offset("cancelling")


@inlined
def _ask_for(requests: Any, kind: int, side: int, price: int, lots: int, force: int, flags: int) -> None:
    if requests.count >= REQUESTS_MAX:
        requests.dropped += 1
        return
    place = requests.count
    requests.rows[place, 0] = kind
    requests.rows[place, 1] = side
    requests.rows[place, 2] = price
    requests.rows[place, 3] = lots
    requests.rows[place, 4] = force
    requests.rows[place, 5] = flags
    requests.count = place + 1


@inlined
def limit(requests: Any, side: int, price_ticks: int, qty_lots: int) -> None:
    """A limit order for the day. Without a positive price and quantity nothing is sent."""
    if price_ticks > 0 and qty_lots > 0:
        _ask_for(requests, NEW, side, price_ticks, qty_lots, DAY, 0)


@inlined
def post(requests: Any, side: int, price_ticks: int, qty_lots: int) -> None:
    """A limit order that is refused where it would trade at once."""
    if price_ticks > 0 and qty_lots > 0:
        _ask_for(requests, NEW, side, price_ticks, qty_lots, DAY, POST_ONLY)


@inlined
def take(requests: Any, side: int, price_ticks: int, qty_lots: int) -> None:
    """An order that trades up to its limit at once; what is left goes (IOC)."""
    if price_ticks > 0 and qty_lots > 0:
        _ask_for(requests, NEW, side, price_ticks, qty_lots, IOC, 0)


@inlined
def market_order(requests: Any, side: int, qty_lots: int) -> None:
    """An order without a price limit."""
    if qty_lots > 0:
        _ask_for(requests, NEW, side, 0, qty_lots, IOC, MARKET)


@inlined
def cancel(requests: Any, market: Any, index: int) -> None:
    """Cancels own order `index` (0 .. market.orders_open - 1), if no cancel is under way yet."""
    node = own_node(market, index)
    if load_int32(market.nodes_address + node * _NODE_BYTES + _CANCELLING) == 0:
        _ask_for(requests, CANCEL, 0, node, 0, 0, 0)


@inlined
def cancel_all(requests: Any, market: Any) -> None:
    """Cancels every own order."""
    for index in range(market.orders_open):
        cancel(requests, market, index)


@inlined
def sleep(requests: Any, market: Any, duration_ns: float) -> None:
    """Asks for the next wake-up; without it there is none."""
    requests.wake_ns = market.time_ns + max(int64(1), int64(min(duration_ns, 1e17)))


@inlined
def own_node(market: Any, index: int) -> int:
    """The node of own order `index`: in no particular order."""
    return int64(load_int32(market.list_address + 4 * index))


@inlined
def own_price(market: Any, index: int) -> int:
    """Its limit price, 0 for a market order."""
    return load_int64(market.nodes_address + own_node(market, index) * _NODE_BYTES + _PRICE)


@inlined
def own_lots(market: Any, index: int) -> int:
    """What is open of it."""
    return load_int64(market.nodes_address + own_node(market, index) * _NODE_BYTES + _OPEN)


@inlined
def own_side(market: Any, index: int) -> int:
    """BUY or SELL."""
    return int64(load_int32(market.nodes_address + own_node(market, index) * _NODE_BYTES + _SIDE))


@inlined
def own_since(market: Any, index: int) -> int:
    """When it was sent."""
    return load_int64(market.nodes_address + own_node(market, index) * _NODE_BYTES + _SINCE)


@inlined
def recall(market: Any, index: int) -> float:
    """What the trader remembered at `index` of its memory; 0 at first."""
    return load_float64(market.memory_address + 8 * index)


@inlined
def remember(market: Any, index: int, value: float) -> None:
    """Keeps a number until the next wake-up."""
    store_float64(market.memory_address + 8 * index, value)


@inlined
def value_at(market: Any, time_ns: int) -> float:
    """The fundamental value in ticks at a time of the day, also one that is yet to come."""
    step = (time_ns - market.open_ns) // market.value_step_ns
    step = min(max(step, 0), market.value_count - 1)
    return load_float64(market.value_address + 8 * step)


@inlined
def two_sided(market: Any) -> bool:
    """Whether there is a bid and an ask."""
    return market.bid_ticks > 0 and market.ask_ticks > 0


@inlined
def mid_ticks(market: Any) -> float:
    """Mid price; with one side empty the other side, with both the last trade, before the first the fundamental value."""
    if market.bid_ticks > 0 and market.ask_ticks > 0:
        return 0.5 * (market.bid_ticks + market.ask_ticks)
    if market.bid_ticks + market.ask_ticks > 0:
        return 1.0 * (market.bid_ticks + market.ask_ticks)
    if market.last_ticks > 0:
        return 1.0 * market.last_ticks
    return value_at(market, market.time_ns)


@inlined
def flow_rows(market: Any) -> int:
    """How many public orders and trades are remembered, at most FLOW_ROWS."""
    return min(market.flow_count, FLOW_ROWS)


@inlined
def flow_field(market: Any, back: int, field: int) -> int:
    """Of the public order or trade `back` before the last: 0 time, 1 side (of the aggressor + 2 for trades), 2 price, 3 lots."""
    row = (market.flow_count - 1 - back) & (FLOW_ROWS - 1)
    return load_int64(market.flow_address + (row * 4 + field) * 8)
