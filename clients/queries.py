"""Queries whose replies become values of the API: each function is a generator of `Steps` on a `ClientCore`."""

from collections.abc import Iterable
from decimal import Decimal

from serl.clients.core import ClientCore, Steps
from serl.clients.news import NewsPages
from serl.clients.values import AssetBalance, Balance, SymbolStatus, Trade, balances_in_money
from serl.exchange.integers import integer
from serl.exchange.news import News
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.wire import Kind


def account(core: ClientCore) -> Steps[dict[str, Balance]]:
    """The balances of every symbol that the participant has traded, by name."""
    rows = (yield from core.ask(Kind.ACCOUNT, core.session.token, core.session.name))[5]
    return balances_in_money(rows, core.session.instrument_numbered)


def balances(core: ClientCore) -> Steps[dict[str, AssetBalance]]:
    """The balances of every asset, by name."""
    _, rows = (yield from core.ask(Kind.BALANCES, core.session.token, core.session.name))[5]
    return {asset: AssetBalance(*map(Decimal, amounts)) for asset, *amounts in rows}


def trades(core: ClientCore, symbol: str, count: int) -> Steps[list[Trade]]:
    """The last trades, newest last."""
    count = integer("count", count, least=0)
    reply = yield from core.ask(Kind.TRADES, core.session.instrument(symbol).number, count)
    return [Trade(*trade) for trade in reply[5]]


def status(core: ClientCore, symbol: str) -> Steps[SymbolStatus]:
    """Whether a symbol is halted, and its phase."""
    reply = yield from core.ask(Kind.STATUS, core.session.instrument(symbol).number)
    return SymbolStatus.of(*reply[5])


def rules_of(core: ClientCore, symbols: Iterable[str]) -> Steps[list[SymbolRules]]:
    """What the quantities and prices of each symbol must fit."""
    session = core.session
    asked = [(Kind.RULES, session.token, session.instrument(symbol).number) for symbol in symbols]
    return [SymbolRules.of_reply(reply[5]) for reply in (yield from core.ask_all(asked))]


def news(core: ClientCore, count: int) -> Steps[list[News]]:
    """The last `count` messages, oldest first."""
    pages = NewsPages(integer("count", count, least=0))
    while not pages.are_complete:
        pages.add((yield from core.ask(Kind.NEWS, core.session.token, pages.after))[5])
    return pages.messages
