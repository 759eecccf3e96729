"""The trades that minds know."""

from serl.clients.values import Trade
from serl.minds.market_view import Tape


def trade(number: int, time_ns: int, price_ticks: int) -> Trade:
    return Trade(number, time_ns, price_ticks, 1, 0, 0)


def test_an_exchange_without_its_journal_numbers_trades_again() -> None:
    tape = Tape()
    tape.add([trade(7, 70, 100), trade(8, 80, 101)])
    tape.add([trade(6, 60, 99), trade(7, 70, 100)])  # a reply that another mind's overtook
    assert tape.last_ticks == 101 and len(tape.bars(100, 100, 1)) == 1
    tape.add([trade(1, 90, 200)])
    tape.add([trade(1, 90, 200), trade(2, 95, 201)])
    (bar,) = tape.bars(100, 100, 1)
    assert tape.last_ticks == 201 and (bar.open_ticks, bar.volume_lots) == (200, 2)
