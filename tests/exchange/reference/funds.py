"""Balances by asset of the reference market, what open orders reserve of them, and what is free; docs/orders.md, Assets and balance checks."""

from serl.exchange.records import (
    DEPOSITS_MAX,
    FEE_COLUMNS,
    MICRO,
    UNITS_MAX,
    Phase,
    Reason,
    Rule,
    Setting,
    Side,
    TimeInForce,
)  # fmt: skip
from tests.exchange.reference.book import FEES, IN_NO_QUEUE, MARKET, Book, Command, Order
from tests.exchange.reference.state import State


def base_asset(state: State, symbol: int) -> int:
    """The number of the asset that a symbol trades."""
    return state.books[symbol].assets[Rule.BASE_ASSET] or symbol + 1


def quote_asset(state: State, symbol: int) -> int:
    """The number of the asset that it is paid with."""
    return state.books[symbol].assets[Rule.QUOTE_ASSET] or len(state.books) + 1


def reserved_ticks(state: State, order: Order) -> int:
    """The price at which an order that rests counts."""
    return order.price_ticks or order.trigger_ticks or state.limits.price_ticks_max


def partner_of(state: State, order: Order) -> Order | None:
    """The linked order on the same side of the symbol, if it rests."""
    other = state.open.get(order.linked_key) if order.link else None
    if (
        other is None
        or (other.symbol, other.side) != (order.symbol, order.side)
        or other.queue == IN_NO_QUEUE
        or other.waits
    ):
        return None
    return other


def reserve_of(state: State, order: Order, lots: int, price_ticks: int) -> tuple[int, int]:
    """(lots, ticks x lots) that an order reserves with so many lots at that price, besides what its linked order reserves."""
    partner = partner_of(state, order)
    if partner is None:
        return lots, lots * price_ticks
    shared = min(lots, partner.leaves_lots)
    return lots - shared, lots * price_ticks - shared * min(price_ticks, reserved_ticks(state, partner))


def reserved(state: State, participant: int, symbol: int, side: int) -> tuple[int, int]:
    """(lots, ticks x lots) that the resting orders of one side reserve."""
    lots = notional = 0
    for order in state.open.values():
        if (order.participant, order.symbol, order.side) != (participant, symbol, side):
            continue
        if order.queue == IN_NO_QUEUE or order.waits:
            continue
        own = order.leaves_lots, order.leaves_lots * reserved_ticks(state, order)
        if partner_of(state, order) is not None and order.order_id > order.link:  # the pair, once
            own = reserve_of(state, order, order.leaves_lots, reserved_ticks(state, order))
        lots, notional = lots + own[0], notional + own[1]
    return lots, notional


def free(state: State, participant: int, asset: int, more: tuple[int, int, int, int] = (-1, 0, 0, 0)) -> int:
    """Units of an asset that are free, once a further order (symbol, side, lots, ticks x lots) has reserved what it does."""
    units = state.deposits[participant, asset]
    for symbol, book in enumerate(state.books):
        balances = state.balances[participant, symbol]
        if base_asset(state, symbol) == asset:
            lots, _ = reserved(state, participant, symbol, Side.SELL)
            lots += more[2] if more[:2] == (symbol, Side.SELL) else 0
            units += (balances.position_lots - lots) * (book.assets[Rule.BASE_UNITS] or 1)
        if quote_asset(state, symbol) == asset:
            lots, notional = reserved(state, participant, symbol, Side.BUY)
            if more[:2] == (symbol, Side.BUY):
                lots, notional = lots + more[2], notional + more[3]
            per_lot, ppm = _highest_fees(state, participant, book)
            fees = balances.fees_microticks + lots * per_lot + notional * ppm
            units += (balances.cash_ticks - notional - -(-fees // MICRO)) * (book.assets[Rule.QUOTE_UNITS] or 1)
    return units


def _highest_fees(state: State, participant: int, book: Book) -> tuple[int, int]:
    """(per lot, by notional); rebates count as 0."""
    account, fees = state.accounts[participant], [book.fees[fee] for fee in FEES]
    if account[Setting.OWN_FEES]:
        fees = account[Setting.MAKER_MICROTICKS :][:FEE_COLUMNS]
    return max(0, *fees[::2]), max(0, *fees[1::2])


def _exceeds(state: State, order: Order, lots: int, notional: int) -> bool:
    account = state.accounts[order.participant]
    if (lots <= 0 and notional <= 0) or (order.side == Side.SELL and account[Setting.SHORT_SALES]):
        return False
    asset = (quote_asset if order.side == Side.BUY else base_asset)(state, order.symbol)
    return free(state, order.participant, asset, (order.symbol, order.side, lots, notional)) < 0


def new_exceeds_balance(state: State, order: Order) -> bool:
    """Whether a NEW is LIMIT_BALANCE."""
    if order.waits or not state.accounts[order.participant][Setting.BALANCE_CHECKS]:
        return False
    price = reserved_ticks(state, order)
    if _trades_at_once(state, order):
        asks = state.books[order.symbol].displayed[Side.SELL].ranks
        price = asks[0] if asks else 1
    return _exceeds(state, order, *reserve_of(state, order, order.leaves_lots, price))


def _trades_at_once(state: State, order: Order) -> bool:
    """Whether it is a market order that does not wait."""
    waits = order.trigger_ticks or order.time_in_force == TimeInForce.AT_CLOSE
    return bool(order.flags & MARKET) and not waits and state.books[order.symbol].phase == Phase.CONTINUOUS


def replace_exceeds_balance(state: State, order: Order, changed: Order, lots: int) -> bool:
    """Whether a REPLACE of an order is LIMIT_BALANCE; `changed`: it with its new limit and terms."""
    if not state.accounts[order.participant][Setting.BALANCE_CHECKS]:
        return False
    before = reserve_of(state, order, order.leaves_lots, reserved_ticks(state, order))
    after = reserve_of(state, order, lots, reserved_ticks(state, changed))
    return _exceeds(state, order, after[0] - before[0], after[1] - before[1])


def affordable_ticks(state: State, order: Order) -> int:
    """The highest price at which free pays for all of a market order to buy; 0: none."""
    low, high = 0, state.limits.price_ticks_max
    while low < high:
        price = (low + high + 1) // 2
        if _exceeds(state, order, *reserve_of(state, order, order.open_lots, price)):
            high = price - 1
        else:
            low = price
    return low


def check_deposit(state: State, c: Command) -> Reason:
    """Why a DEPOSIT is rejected."""
    if not 0 <= c.order_id < state.limits.participants_max or not 1 <= c.qty_lots <= 2 * len(state.books):
        return Reason.BAD_SETTING
    after = state.deposits[c.order_id, c.qty_lots] + c.price_ticks
    if c.price_ticks == 0 or max(abs(c.price_ticks), abs(after)) > DEPOSITS_MAX:
        return Reason.BAD_SETTING
    checked = state.accounts[c.order_id][Setting.BALANCE_CHECKS]
    if checked and c.price_ticks < 0 and free(state, c.order_id, c.qty_lots) + c.price_ticks < 0:
        return Reason.LIMIT_BALANCE
    return Reason.NONE


def is_asset_rule(state: State, c: Command) -> bool:
    """Whether an asset rule can have that value now."""
    book, rule = state.books[c.symbol], Rule(c.flags)
    if c.price_ticks != book.assets[rule] and any(state.deposits.values()):
        return False
    return 0 <= c.price_ticks <= (UNITS_MAX if rule in (Rule.BASE_UNITS, Rule.QUOTE_UNITS) else 2 * len(state.books))
