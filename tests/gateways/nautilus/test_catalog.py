"""Days in a catalogue: read by NautilusTrader, they are the market of the day again."""

from pathlib import Path
from typing import Any

import pytest

from serl.exchange.errors import ConfigError
from serl.exchange.market import Market
from serl.exchange.records import CommandKind, HaltReason, Phase, command
from serl.history import tables
from serl.history.day import Day, write_day
from serl.history.generate import generate_day
from serl.history.verify import market_of
from tests.gateways.nautilus import needs_nautilus
from tests.history.accounts_sample import random_day, recorded_day

pytestmark = needs_nautilus
HOUR_NS = 3_600_000_000_000
MIDNIGHT_NS = 946_857_600_000_000_000
"""2000-01-03 UTC, the day of days that have no date."""


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(5, start_ns=10 * HOUR_NS, end_ns=10 * HOUR_NS + HOUR_NS // 4)


@pytest.fixture(scope="module", params=["l3", "l2"])
def exported(
    request: pytest.FixtureRequest, day: Day, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any, Any]:
    from serl.gateways.nautilus import export_day

    folder = tmp_path_factory.mktemp("catalog")
    write_day(day, folder / "demo.day")
    (one,) = export_day(folder / "demo.day", folder / "catalog", book=request.param)
    return request.param, one, open_catalog(folder / "catalog")


def open_catalog(folder: Path) -> Any:
    from nautilus_trader.persistence.catalog import ParquetDataCatalog

    return ParquetDataCatalog(str(folder))


def replayed(day: Day) -> Market:
    market, commands = market_of(day)
    market.submit(commands)
    return market


def nautilus_book(instrument: Any, detail: str) -> Any:
    from nautilus_trader.model.book import OrderBook
    from nautilus_trader.model.enums import BookType

    return OrderBook(instrument, BookType.L3_MBO if detail == "l3" else BookType.L2_MBP)


def test_the_book_of_nautilus_is_that_of_the_day(exported: tuple[str, Any, Any], day: Day) -> None:
    detail, one, catalog = exported
    book, market = nautilus_book(one.instrument.id, detail), replayed(day)
    quotes: list[tuple[int, Any]] = []
    deltas = catalog.order_book_deltas()
    assert len(deltas) == one.deltas > 5_000
    for delta in deltas:
        book.apply_delta(delta)
        if delta.flags and book.spread():
            bid, ask = book.bids()[0], book.asks()[0]  # of single orders, best_bid_size is that of the first one
            top = (bid.price, ask.price, bid.size(), ask.size())
            if not quotes or quotes[-1][1] != top:
                quotes.append((delta.ts_event, top))
    book.check_integrity()
    for side, levels in zip(market.book(), (book.bids(), book.asks()), strict=True):
        assert [(row["price_ticks"], row["qty_lots"]) for row in side] == [
            (round(float(level.price) * 100), level.size()) for level in levels
        ]
    if detail == "l3":  # in their priority
        own = market.orders()
        for side_number, levels in enumerate((book.bids(), book.asks())):
            numbers = [order.order_id for level in levels for order in level.orders()]
            assert numbers == own["order_number"][own["side"] == side_number].tolist()
    told = [
        (quote.ts_event, (quote.bid_price, quote.ask_price, quote.bid_size, quote.ask_size))
        for quote in catalog.quote_ticks()
    ]
    assert told == quotes and len(told) == one.quotes


def test_trades_and_times(exported: tuple[str, Any, Any], day: Day) -> None:
    _, one, catalog = exported
    ours, theirs = tables.trades(day), catalog.trade_ticks()
    assert one.trades == len(theirs) == len(ours) > 100
    assert [(round(float(tick.price) * 100), int(tick.size), int(tick.trade_id.value)) for tick in theirs] == list(
        zip(ours["price_ticks"].tolist(), ours["qty_lots"].tolist(), ours["match_id"].tolist(), strict=True)
    )
    assert [tick.aggressor_side.name == "BUYER" for tick in theirs] == [side == "buy" for side in ours["side"]]
    assert [tick.ts_event - MIDNIGHT_NS for tick in theirs] == ours["time_ns"].tolist()


def test_a_second_export_to_the_same_time_is_refused_and_changes_nothing(day: Day, tmp_path: Path) -> None:
    from serl.gateways.nautilus import export_day

    write_day(day, tmp_path / "demo.day")
    export_day(tmp_path / "demo.day", tmp_path / "catalog")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match="expected no OrderBookDelta of DEMO"):
        export_day(tmp_path / "demo.day", tmp_path / "catalog")
    assert sorted(tmp_path.rglob("*")) == before
    export_day(tmp_path / "demo.day", tmp_path / "catalog", date="2000-01-04")
    assert len(open_catalog(tmp_path / "catalog").get_intervals(*delta_of_demo())) == 2


def delta_of_demo() -> tuple[Any, str]:
    from nautilus_trader.model.data import OrderBookDelta

    return OrderBookDelta, "DEMO.SERL"


@pytest.mark.parametrize(
    "options, error",
    [
        ({"symbol": "NONE"}, "expected one of DEMO, got NONE"),
        ({"date": "tomorrow"}, "expected YYYY-MM-DD, got 'tomorrow'"),
        ({"date": "1960-01-01"}, "expected 1970-01-02 or later"),
        ({"time_zone": "Mars"}, "expected a name like America/New_York, got 'Mars'"),
    ],
)
def test_settings_that_cannot_be_are_refused(day: Day, tmp_path: Path, options: dict[str, str], error: str) -> None:
    from serl.gateways.nautilus import export_day

    write_day(day, tmp_path / "demo.day")
    with pytest.raises(ConfigError, match=error):
        export_day(tmp_path / "demo.day", tmp_path / "catalog", **options)  # pyrefly: ignore[bad-argument-type]
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_day_of_several_participants_with_every_rule(tmp_path: Path) -> None:
    from serl.gateways.nautilus import export_day

    day = random_day("phases", 2_000)
    write_day(day, tmp_path / "all.day")
    exported = export_day(tmp_path / "all.day", tmp_path / "catalog", time_zone="America/New_York")
    catalog = open_catalog(tmp_path / "catalog")
    assert sum(one.statuses for one in exported) > 10
    table = tables.trades(day)
    for one in exported:
        ticks = catalog.trade_ticks([one.instrument.id.value])
        ours = table.rows(table["symbol"] == one.instrument.raw_symbol.value)
        assert [tick.aggressor_side.name == "NO_AGGRESSOR" for tick in ticks] == ours["auction"].tolist()
        # midnight in New York is five hours later
        assert [tick.ts_event - 1_577_941_200_000_000_000 for tick in ticks] == ours["time_ns"].tolist()


def test_halts_and_phases_are_market_status(tmp_path: Path) -> None:
    from nautilus_trader.model.enums import MarketStatusAction

    from serl.gateways.nautilus import export_day

    market, parts = Market(["ABC"]), []
    market.grant_operator(1)
    for number, (kind, flags) in enumerate(STATUS_COMMANDS):
        row = command(kind, flags=flags, participant=1, command_id=number + 1, time_ns=number + 1)
        parts.append((row, market.submit(row)))
    write_day(recorded_day(market, parts), tmp_path / "abc.day")
    (one,) = export_day(tmp_path / "abc.day", tmp_path / "catalog")
    statuses = open_catalog(tmp_path / "catalog").instrument_status()
    assert one.statuses == len(statuses) == len(STATUS_COMMANDS)
    action = MarketStatusAction
    expected = [action.PRE_OPEN, action.TRADING, action.HALT, action.TRADING, action.PRE_CLOSE, action.CLOSE]
    assert [status.action for status in statuses] == expected
    assert [status.reason for status in statuses] == [None, None, "NEWS", None, None, None]
    assert [status.is_trading for status in statuses] == [False, True, False, True, False, False]


STATUS_COMMANDS = (
    (CommandKind.PHASE, Phase.PRE_OPEN),
    (CommandKind.PHASE, Phase.CONTINUOUS),
    (CommandKind.HALT, HaltReason.NEWS),
    (CommandKind.RESUME, 0),
    (CommandKind.PHASE, Phase.CLOSING),
    (CommandKind.PHASE, Phase.CLOSED),
)
