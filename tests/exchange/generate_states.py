"""What operators do, for the generator of commands: phases, auctions, accounts and rules, each taken back after a while."""

import dataclasses

import numpy as np

from serl.exchange.records import ALL_SYMBOLS, COLLECTING, CommandKind, Phase, Rule, SelfTrade, Setting
from tests.exchange.generate_orders import Draw


@dataclasses.dataclass
class Operation:
    """Fields of a command of an operator."""

    kind: int
    symbol: int = 0
    order_id: int = 0
    flags: int = 0
    price_ticks: int = 0
    qty_lots: int = 0


def operation(
    random: np.random.Generator, symbol: int, participants: int, mid_ticks: int, near_ticks: float
) -> list[Operation]:
    """A command, and those that take it back later (none where nothing has to be)."""

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, max(low, high) + 1))

    which = random.random()
    if which < 0.01:
        return [Operation(int(CommandKind.RULE - draw(0, 1)), symbol, draw(-1, 99), draw(0, 17), draw(-1, 0))]
    if which < 0.35:
        phases = [*COLLECTING, *COLLECTING, Phase.CLOSED, Phase.CONTINUOUS]
        made = [Operation(CommandKind.PHASE, symbol, flags=int(phases[draw(0, len(phases) - 1)]))]
        if draw(0, 2) == 0:
            made.append(Operation(CommandKind.UNCROSS, symbol))
        if draw(0, 3) == 0:
            made.append(Operation(CommandKind.PHASE, symbol, flags=draw(0, int(max(Phase)))))
        if draw(0, 3) == 0:  # auctions that are due while halted
            made += [Operation(CommandKind.HALT, symbol), Operation(CommandKind.UNCROSS, symbol)]
            made += [Operation(CommandKind.PHASE, symbol), Operation(CommandKind.RESUME, symbol)]
        return [*made, Operation(CommandKind.PHASE, symbol)]
    if which < 0.4:
        return [Operation(CommandKind.UNCROSS, symbol)]
    if which < 0.45:
        return [Operation(CommandKind.TIME)]
    if which < 0.46:
        where = symbol if draw(0, 2) else ALL_SYMBOLS
        return [Operation(CommandKind.PURGE, where, draw(-1, participants), draw(0, 3))]
    if which < 0.48:
        return _deposit(participants, draw, mid_ticks)
    if which < 0.7:
        return _account(draw(0, participants - 1), Setting(draw(0, int(max(Setting)))), draw, near_ticks)
    return _rule(symbol, Rule(draw(0, int(Rule.MAKER_MICROTICKS))), draw, mid_ticks, int(near_ticks))


def band(random: np.random.Generator, symbol: int, mid_ticks: int, near_ticks: float) -> list[Operation]:
    """An edge of a band near the middle of the market, so that orders of both sides stand outside; or what happens there."""

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, max(low, high) + 1))

    def made(rule: Rule, value: int) -> Operation:
        return Operation(CommandKind.RULE, symbol, flags=rule, price_ticks=value)

    if draw(0, 9) == 0:  # interruptions end
        return [made(Rule.BAND_ACTION, 1), made(Rule.BAND_ACTION, 0), Operation(CommandKind.PHASE, symbol)]
    rule, sign = ((Rule.BAND_LOW, -1), (Rule.BAND_HIGH, 1))[draw(0, 1)]
    return [made(rule, mid_ticks + sign * draw(-2, int(near_ticks))), made(rule, 0)]


def _account(participant: int, setting: Setting, draw: Draw, near_ticks: float) -> list[Operation]:
    values = {
        Setting.SELF_TRADE: draw(0, int(max(SelfTrade))),
        Setting.ORDER_LOTS_MAX: draw(1, 40),
        Setting.ORDER_NOTIONAL_MAX: draw(1, 400_000),
        Setting.COLLAR_TICKS: draw(1, int(near_ticks)),
        Setting.ORDERS_OPEN_MAX: draw(1, 30),
        Setting.POSITION_LOTS_MAX: draw(1, 200),
        Setting.KILLED: draw(0, 3) // 3,
        Setting.OWN_FEES: draw(0, 1),
        Setting.BALANCE_CHECKS: 1,
        Setting.SHORT_SALES: draw(0, 1),
    }

    def made(value: int) -> Operation:
        return Operation(CommandKind.ACCOUNT, order_id=participant, flags=setting, price_ticks=value)

    if Setting.OWN_FEES < setting < Setting.BALANCE_CHECKS:
        return [made(_fee(Rule[setting.name], draw))]
    return [made(values[setting])] + ([made(0)] if setting not in (Setting.SELF_TRADE, Setting.OWN_FEES) else [])


def _deposit(participants: int, draw: Draw, mid_ticks: int) -> list[Operation]:
    """A deposit or a withdrawal, seldom a wrong one."""
    if draw(0, 9) == 0:
        odd = (0, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**62 - 1)[draw(0, 5)]
        return [Operation(CommandKind.DEPOSIT, 0, draw(-1, 99), draw(0, 255), odd, draw(-1, 8))]
    asset = draw(1, 6)
    amount = draw(1, 60 * (1 if asset == 1 else mid_ticks)) * (1, 1, -1)[draw(0, 2)]
    return [Operation(CommandKind.DEPOSIT, 0, draw(0, participants - 1), 0, amount, asset)]


def opening_balances(participants: int, mid_ticks: int, qty_lots: int) -> list[Operation]:
    """Assets that symbols share, also as base asset of one and quote asset of another, and accounts with some of each, most of them with checks."""
    assets = [(1, 4, 0, 0), (2, 4, 3, 5), (1, 2, 7, 0)]  # by symbol
    made = [
        Operation(CommandKind.RULE, symbol, flags=Rule.BASE_ASSET + place, price_ticks=value)
        for symbol, values in enumerate(assets)
        for place, value in enumerate(values)
    ]
    for participant in range(1, participants):
        for asset in (1, 2, 4):
            amount = qty_lots * mid_ticks * 40 if asset == 4 else qty_lots * 60
            amount *= mid_ticks if asset == 2 else 1
            made.append(Operation(CommandKind.DEPOSIT, 0, participant, 0, amount, asset))
        made.append(
            Operation(CommandKind.ACCOUNT, 0, participant, Setting.BALANCE_CHECKS, int(participant < participants - 1))
        )
    return [*made, Operation(CommandKind.ACCOUNT, 0, 2, Setting.SHORT_SALES, 1)]


def balance(random: np.random.Generator, participants: int, mid_ticks: int) -> list[Operation]:
    """A deposit or withdrawal, or checks and permissions that change."""

    def draw(low: int, high: int) -> int:
        return int(random.integers(low, max(low, high) + 1))

    if draw(0, 2):
        return _deposit(participants, draw, mid_ticks)
    setting = (Setting.BALANCE_CHECKS, Setting.BALANCE_CHECKS, Setting.SHORT_SALES)[draw(0, 2)]
    value, who = draw(0, 1), draw(1, participants - 1)
    return [
        Operation(CommandKind.ACCOUNT, 0, who, setting, value),
        Operation(CommandKind.ACCOUNT, 0, who, setting, int(setting == Setting.BALANCE_CHECKS)),
    ]


def _fee(rule: Rule, draw: Draw) -> int:
    return draw(-3000, 3000) * (1 if rule % 2 else 997)


def _rule(symbol: int, rule: Rule, draw: Draw, mid_ticks: int, near_ticks: int) -> list[Operation]:
    def made(value: int, start: int = 0) -> Operation:
        return Operation(CommandKind.RULE, symbol, order_id=start, flags=rule, price_ticks=value)

    if rule == Rule.LOT:
        return [made(draw(1, 3)), made(1)]
    if rule == Rule.TICK:
        start = 1000 * draw(0, 9)
        return [made(draw(1, 3), start), made(draw(0, 1), start)]
    if rule == Rule.MAKER_MICROTICKS:
        rule = Rule(draw(rule, int(max(Rule))))
        return [made(_fee(rule, draw) if rule < Rule.BASE_ASSET else draw(-1, 7))]
    if rule == Rule.MATCHING:
        return [made(draw(0, 1))]
    if rule == Rule.BAND_ACTION:
        return [made(draw(0, 1))]
    distance = draw(1, near_ticks)
    return [made(max(1, mid_ticks - distance if rule == Rule.BAND_LOW else mid_ticks + distance)), made(0)]
