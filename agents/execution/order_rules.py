"""The rules of a symbol that every order must fit: its quantity in whole lots, its price in the tick table. The exchange does not publish them."""

from serl.exchange.config import MarketRules
from serl.exchange.records import CommandKind, Rule
from serl.history.day import Day

NO_RULES = MarketRules()


def rules_of_day(day: Day, time_ns: int, before: MarketRules = NO_RULES) -> MarketRules:
    """The lots and ticks at a time of a day with one symbol, which had the rules `before` it began."""
    lot_multiple, tick_table = before.lot_multiple, dict(before.tick_table)
    commands = day.commands
    changes = commands[(commands["kind"] == CommandKind.RULE) & (commands["time_ns"] <= time_ns)]
    for rule, value, from_ticks in changes[["flags", "price_ticks", "order_id"]].tolist():
        if rule == Rule.LOT:
            lot_multiple = value
        elif rule == Rule.TICK:
            tick_table[from_ticks] = value
    tick_table = {start: step for start, step in tick_table.items() if step}  # 0 removes an entry
    return MarketRules(lot_multiple=lot_multiple, tick_table=tick_table)


def whole_lots(rules: MarketRules, qty_lots: int) -> int:
    """A quantity, rounded down to what an order can have."""
    return qty_lots - qty_lots % rules.lot_multiple


def on_tick(rules: MarketRules, price_ticks: int, sign: int) -> int:
    """A price, moved to the next one that an order can have: up for a sell (sign +1), down for a buy (-1)."""
    while price_ticks > 0 and price_ticks % _step(rules, price_ticks):
        price_ticks += sign
    return price_ticks


def _step(rules: MarketRules, price_ticks: int) -> int:
    """What prices are multiples of, there."""
    return max((start, step) for start, step in [(0, 1), *rules.tick_table.items()] if start <= price_ticks)[1]
