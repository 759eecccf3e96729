"""The functions that a trader's function may call; they are inlined into it. Prices are in ticks, quantities in lots, times in ns."""

from typing import Any, LiteralString

from serl.agents.traders.addresses import load_float64, load_int32, load_int64, store_float64
from serl.agents.traders.records import (
    BOARD_COUNT,
    BOARD_START,
    BOARD_TIME,
    FLOW_ROWS,
    FORECAST_NUMBERS,
    NO_SLEEP,
    NODE,
    REQUESTS_MAX,
)
from serl.exchange.compiling import inlined, int64
from serl.exchange.records import CommandFlag, CommandKind, Side, TimeInForce

BUY, SELL = int(Side.BUY), int(Side.SELL)
DAY, IOC = int(TimeInForce.DAY), int(TimeInForce.IOC)
NEW, CANCEL = int(CommandKind.NEW), int(CommandKind.CANCEL)
POST_ONLY, MARKET = int(CommandFlag.POST_ONLY), int(CommandFlag.MARKET)
SECOND_NS = 1_000_000_000
DOWN, FLAT, UP, VOLUME, FILL_BUY, FILL_SELL = range(6)
"""What `forecast` returns: probabilities of the mid's moves, expected volume in lots, and probabilities that a lot at the back of the queue at the
bid or at the ask is filled."""

_NODE_BYTES = NODE.itemsize


def _offset(field: LiteralString) -> int:
    assert NODE.fields is not None
    return int(NODE.fields[field][1])


_PRICE, _OPEN, _SENT = _offset("price_ticks"), _offset("open_lots"), _offset("sent_ns")
_SIDE, _CANCEL_PENDING = _offset("side"), _offset("cancel_pending")


@inlined
def add_request(
    requests: Any, kind: int, side: int, price: int, lots: int, time_in_force: int, flags: int
) -> None:  # fmt: skip
    """Adds a request unchecked; the functions below check it first."""
    if requests.count >= REQUESTS_MAX:
        requests.dropped += 1
        return
    index = requests.count
    requests.rows[index, 0] = kind
    requests.rows[index, 1] = side
    requests.rows[index, 2] = price
    requests.rows[index, 3] = lots
    requests.rows[index, 4] = time_in_force
    requests.rows[index, 5] = flags
    requests.count = index + 1


@inlined
def limit(requests: Any, side: int, price_ticks: int, qty_lots: int) -> None:
    """Sends a limit order for the day; does nothing unless price and quantity are positive."""
    if price_ticks > 0 and qty_lots > 0:
        add_request(requests, NEW, side, price_ticks, qty_lots, DAY, 0)


@inlined
def post(requests: Any, side: int, price_ticks: int, qty_lots: int) -> None:
    """Sends a post-only limit order, which is rejected if it would trade on arrival."""
    if price_ticks > 0 and qty_lots > 0:
        add_request(requests, NEW, side, price_ticks, qty_lots, DAY, POST_ONLY)


@inlined
def take(requests: Any, side: int, price_ticks: int, qty_lots: int) -> None:
    """Sends an IOC order: it trades up to its limit at once, and the remainder is cancelled."""
    if price_ticks > 0 and qty_lots > 0:
        add_request(requests, NEW, side, price_ticks, qty_lots, IOC, 0)


@inlined
def market_order(requests: Any, side: int, qty_lots: int) -> None:
    """Sends a market order."""
    if qty_lots > 0:
        add_request(requests, NEW, side, 0, qty_lots, IOC, MARKET)


@inlined
def cancel(requests: Any, market: Any, index: int) -> None:
    """Cancels own order `index` (0 .. market.orders_open - 1), unless a cancel is already in flight."""
    node = own_node(market, index)
    if load_int32(market.nodes_address + node * _NODE_BYTES + _CANCEL_PENDING) == 0:
        add_request(requests, CANCEL, 0, node, 0, 0, 0)


@inlined
def cancel_all(requests: Any, market: Any) -> None:
    """Cancels all own orders."""
    for index in range(market.orders_open):
        cancel(requests, market, index)


@inlined
def sleep(requests: Any, market: Any, duration_ns: float) -> None:
    """Schedules the next wake-up. A trader that does not call this is not woken again. A duration of at most 0 ends the run with an error."""
    if duration_ns > 0:
        requests.wake_ns = market.time_ns + max(int64(1), int64(min(duration_ns, 1e17)))
    else:  # NaN too
        requests.wake_ns = NO_SLEEP
        requests.sleep_ns = duration_ns


@inlined
def own_node(market: Any, index: int) -> int:
    """The node of own order `index`; orders are in no particular order."""
    return int64(load_int32(market.list_address + 4 * index))


@inlined
def own_price(market: Any, index: int) -> int:
    """Limit price of own order `index`; 0 for a market order."""
    return load_int64(market.nodes_address + own_node(market, index) * _NODE_BYTES + _PRICE)


@inlined
def own_lots(market: Any, index: int) -> int:
    """Open quantity of own order `index`."""
    return load_int64(market.nodes_address + own_node(market, index) * _NODE_BYTES + _OPEN)


@inlined
def own_side(market: Any, index: int) -> int:
    """Side of own order `index`: BUY or SELL."""
    return int64(load_int32(market.nodes_address + own_node(market, index) * _NODE_BYTES + _SIDE))


@inlined
def own_since(market: Any, index: int) -> int:
    """Time at which own order `index` was sent, ns."""
    return load_int64(market.nodes_address + own_node(market, index) * _NODE_BYTES + _SENT)


@inlined
def has_slot(market: Any, index: int) -> bool:
    """Whether the trader's memory has a number at `index`; the run ends with an error if it does not, because others' memory lies there."""
    if 0 <= index < market.memory_slots:
        return True
    market.outside_slots += 1
    market.outside_slot = index
    return False


@inlined
def recall(market: Any, index: int) -> float:
    """The number at `index` of the trader's memory; initially 0. The run ends with an error if the memory has no such number."""
    return load_float64(market.memory_address + 8 * index) if has_slot(market, index) else 0.0


@inlined
def remember(market: Any, index: int, value: float) -> None:
    """Stores a number at `index` of the trader's memory. The run ends with an error if the memory has no such number."""
    if has_slot(market, index):
        store_float64(market.memory_address + 8 * index, value)


@inlined
def value_at(market: Any, time_ns: int) -> float:
    """The fundamental value in ticks at any time of the day, including the future."""
    step = (time_ns - market.open_ns) // market.value_step_ns
    step = min(max(step, 0), market.value_count - 1)
    return load_float64(market.value_address + 8 * step)


@inlined
def two_sided(market: Any) -> bool:
    """Whether the book has a bid and an ask."""
    return market.bid_ticks > 0 and market.ask_ticks > 0


@inlined
def mid_ticks(market: Any) -> float:
    """The mid price. If one side is empty, the price of the other; if both are, the price of the last trade, or else the fundamental value."""
    if market.bid_ticks > 0 and market.ask_ticks > 0:
        return 0.5 * (market.bid_ticks + market.ask_ticks)
    if market.bid_ticks + market.ask_ticks > 0:
        return 1.0 * (market.bid_ticks + market.ask_ticks)
    if market.last_ticks > 0:
        return 1.0 * market.last_ticks
    return value_at(market, market.time_ns)


@inlined
def flow_rows(market: Any) -> int:
    """Number of public orders and trades available to flow_field, at most FLOW_ROWS."""
    return min(market.flow_count, FLOW_ROWS)


@inlined
def flow_field(market: Any, back: int, field: int) -> int:
    """A field of the public order or trade `back` rows before the latest.

    Fields: 0 time, 1 side (for a trade the aggressor's + 2), 2 price, 3 lots.
    """
    row = (market.flow_count - 1 - back) & (FLOW_ROWS - 1)
    return load_int64(market.flow_address + (row * 4 + field) * 8)


@inlined
def forecast_count(market: Any) -> int:
    """Number of horizons of the last forecast; 0 if there is none, for example within a minute after a book with an empty side."""
    return int64(load_float64(market.board_address + 8 * BOARD_COUNT))


@inlined
def forecast_time_ns(market: Any) -> int:
    """Time of the last forecast."""
    return int64(load_float64(market.board_address + 8 * BOARD_TIME))


@inlined
def forecast_horizon_s(market: Any, index: int) -> float:
    """Horizon `index` (0 .. forecast_count - 1), in seconds."""
    return load_float64(market.board_address + 8 * (BOARD_START + FORECAST_NUMBERS * index))


@inlined
def forecast(market: Any, index: int, which: int) -> float:
    """The forecast for horizon `index`. which: DOWN, FLAT, UP, VOLUME, FILL_BUY or FILL_SELL."""
    return load_float64(market.board_address + 8 * (BOARD_START + FORECAST_NUMBERS * index + 1 + which))


@inlined
def nearest_horizon(market: Any, horizon_s: float) -> int:
    """Index of the horizon nearest to `horizon_s`; -1 without a forecast."""
    found = -1
    for index in range(forecast_count(market)):
        distance = abs(forecast_horizon_s(market, index) - horizon_s)
        if found < 0 or distance < abs(forecast_horizon_s(market, found) - horizon_s):
            found = index
    return found
