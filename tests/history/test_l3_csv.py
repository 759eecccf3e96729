"""The event CSV: its rules, broken rows, and the sample against a reference reading."""

from decimal import Decimal
from pathlib import Path

import pytest

from serl.history.day import Day
from serl.history.errors import L3CsvError, SourceError
from serl.history.importing import import_day
from serl.history.l3_events import CREATED, DELETED, HEADER, read_events
from serl.history.source import Options
from tests.history.sample import commands_of_row
from tests.history.samples import Levels, best, replay_to_rows, sample, top

MIDNIGHT_MS = 1_430_438_400_000
Event = tuple[object, int, str, object, str, str]
"""id, ms after midnight, price, volume, action, direction."""


def csv_text(*events: Event) -> str:
    lines = [
        f"{name},{MIDNIGHT_MS + ms},{MIDNIGHT_MS},{price},{volume},{action},{direction}"
        for name, ms, price, volume, action, direction in events
    ]
    return "\n".join([HEADER.decode(), *lines]) + "\n"


def imported(folder: Path, *events: Event, **options: str) -> Day:
    (folder / "bitstamp_btcusd_x.csv").write_text(csv_text(*events))
    return import_day(folder / "bitstamp_btcusd_x.csv", Options(**options))  # pyrefly: ignore[bad-argument-type]


def test_created_changed_and_deleted_orders(tmp_path: Path) -> None:
    day = imported(
        tmp_path, (1, 0, "10.00", 500, "created", "bid"), (2, 5, "10.01", 300, "created", "ask"), (1, 6, "10.00", 200, "changed", "bid"),
        (2, 7, "10.02", 300, "changed", "ask"), (1, 8, "10.00", 200, "deleted", "bid"), (2, 9, "10.02", 0, "deleted", "ask"),
        (9, 10, "1.00", 5, "deleted", "bid"),
    )  # fmt: skip
    assert [commands_of_row(day, row) for row in range(7)] == [
        [("NEW", 0, 0, 500, 1000)], [("NEW", 0, 1, 300, 1001)], [("REDUCE", 1, 0, 300, 1000)],
        [("CANCEL", 2, 1, 0, 1001), ("NEW", 0, 1, 300, 1002)], [("CANCEL", 1, 0, 0, 1000)], [("CANCEL", 5, 1, 0, 1002)], [],
    ]  # fmt: skip
    assert day.reference.counts["orders_repriced"] == day.reference.counts["events_unknown"] == 1
    assert day.commands["time_ns"].tolist() == [0, 5_000_000, 6_000_000, 7_000_000, 7_000_000, 8_000_000, 9_000_000]
    assert (day.reference.symbols[0].name, day.reference.symbols[0].lot_size, day.reference.date) == (
        "BTCUSD",
        "0.00000001",
        "2015-05-01",
    )
    assert (day.reference.first_time_ns, day.reference.last_time_ns) == (0, 10_000_000)


def test_the_id_of_a_deleted_order_may_be_used_again(tmp_path: Path) -> None:
    day = imported(
        tmp_path, (1, 0, "10.00", 500, "created", "bid"), (1, 1, "10.00", 500, "deleted", "bid"), (1, 2, "10.01", 300, "created", "ask")
    )  # fmt: skip
    assert commands_of_row(day, 2) == [("NEW", 0, 1, 300, 1001)]


def test_the_day_is_that_of_the_first_event(tmp_path: Path) -> None:
    later = 86_400_005  # ms
    day = imported(tmp_path, (1, 5, "10.00", 500, "created", "bid"), (1, later, "10.00", 200, "changed", "bid"))
    assert day.commands["time_ns"].tolist() == [5_000_000, later * 1_000_000]
    assert (day.reference.date, day.reference.last_time_ns) == ("2015-05-01", later * 1_000_000)


def test_volumes_with_a_decimal_point_are_whole_coins(tmp_path: Path) -> None:
    """Other recordings of the stream write volumes so, and the second time as exchange_timestamp."""
    units = imported(
        tmp_path, (1, 0, "10.00", 50_000_000, "created", "bid"), (1, 6, "10.00", 200_000_000, "changed", "bid")
    )
    text = csv_text((1, 0, "10.00", "0.5", "created", "bid"), (1, 6, "10.00", 2, "changed", "bid"))
    path = tmp_path / "bitstamp_btcusd_y.csv"
    path.write_text(text.replace("exchange.timestamp", "exchange_timestamp"))
    assert import_day(path).commands.tobytes() == units.commands.tobytes()
    path.write_text(
        csv_text((1, 0, "10.00", "0.5", "created", "bid"), (1, 6, "10.00", "0.123456789", "changed", "bid"))
    )
    with pytest.raises(L3CsvError, match=r"row 2: volume: expected a multiple of 0\.00000001, got 0\.123456789"):
        import_day(path)


def test_the_market_matches_crossing_orders(tmp_path: Path) -> None:
    """A crossing order trades on arrival; the events that follow change nothing more."""
    day = imported(
        tmp_path, (1, 0, "10.00", 500, "created", "ask"), (2, 1, "10.05", 700, "created", "bid"),
        (2, 2, "10.05", 200, "changed", "bid"), (1, 3, "10.00", 0, "deleted", "ask"), (2, 4, "10.05", 200, "deleted", "bid"),
    )  # fmt: skip
    assert [commands_of_row(day, row) for row in range(2, 5)] == [[], [], [("CANCEL", 2, 0, 0, 1005)]]
    assert day.reference.counts["orders_crossing"] == 1


def test_names_and_lots(tmp_path: Path) -> None:
    day = imported(tmp_path, (1, 0, "10.00", 500, "created", "bid"), symbols=("X",), lot_size="0.000001")  # pyrefly: ignore[bad-argument-type]
    assert day.commands["qty_lots"][0] == 5 and day.reference.symbols[0].name == "X"
    with pytest.raises(SourceError, match="--lot-size"):
        imported(tmp_path, (1, 0, "10.00", 500, "created", "bid"), lot_size="0.1e-9")


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ((2, 1, "10.00", 5, "made", "bid"), "row 2: action: expected one of created, changed, deleted, got made"),
        ((2, 1, "10.00", 5, "created", "up"), "row 2: direction: expected one of bid, ask, got up"),
        ((2, 1, "10.005", 5, "created", "bid"), "row 2: price: expected a multiple of 0.01"),
        ((2, 1, "-1.00", 5, "created", "bid"), "row 2: price: expected 1 to 2.53 ticks of 0.01, got -1"),
        ((2, 1, "10.00", 0, "created", "bid"), "row 2: volume of a created order: expected a number above 0"),
        ((2, 1, "10.00", -5, "changed", "bid"), "row 2: volume: expected 0 to 2"),
        ((0, 1, "10.00", 5, "created", "bid"), "row 2: id: expected a number above 0"),
        ((2, -1, "10.00", 5, "created", "bid"), "row 2: timestamp: expected a time not before the row above"),
        ((1, 1, "10.00", 5, "created", "bid"), "row 2: id of a created order: expected one that is not open"),
        ((2, 1, "ten", 5, "created", "bid"), "row 2: price: expected a decimal with up to 12 places, got 'ten'"),
        ((2, 1, "1e30", 5, "created", "bid"), "row 2: price: expected a decimal with up to 12 places, got '1e30'"),
        ((2, 1, "1" + 20 * "0", 5, "created", "bid"), "row 2: price: expected 1 to 2.53 ticks of 0.01"),
        ((2, 1, "10.00", "", "created", "bid"), "row 2: volume: expected a decimal with up to 12 places, got ''"),
        ((2, 1, "10.00", 10**17, "created", "bid"), "row 2: volume: expected 0 to 2"),
        ((10**20, 1, "10.00", 5, "created", "bid"), "row 2: id: expected an integer, got '1000"),
        ((2, 10**13, "10.00", 5, "created", "bid"), "row 2: timestamp: expected ms since 1970, before 2100"),
        ((2, 1, "10.00", 5, "created", "bid,more"), "row 2: expected 7 columns, got 8: '2,1430.*,more'"),
        (
            (1, 1, "10.00", 3, "changed", "ask"),
            "row 2: direction: expected the direction that the order has had, got ask",
        ),
    ],
)
def test_broken_rows(event: Event, error: str, tmp_path: Path) -> None:
    with pytest.raises(L3CsvError, match=error):
        imported(tmp_path, (1, 0, "10.00", 5, "created", "bid"), event)


@pytest.mark.parametrize("mark", ["\ufeff", '"'])
def test_a_byte_order_mark_or_quotes_in_the_header(mark: str, tmp_path: Path) -> None:
    text = csv_text((1, 0, "10.00", 5, "created", "bid"))
    (tmp_path / "a.csv").write_text(mark + text if mark != '"' else text.replace("id", '"id"', 1))
    assert len(import_day(tmp_path / "a.csv")) == 1


def test_an_empty_day(tmp_path: Path) -> None:
    with pytest.raises(L3CsvError, match="expected at least one event"):
        imported(tmp_path)


@pytest.mark.long
def test_the_sample_follows_its_events() -> None:
    """Compares ten levels after every tenth event unless the source's book is crossed. They may differ between the two messages of a
    trade, and by the source's rounding of a hundred-millionth."""
    path = sample("bitstamp/bitstamp_btcusd_2015-05-01_orders.csv.xz")
    events, _ = read_events(path, Decimal("0.01"), 1)
    orders: dict[int, tuple[int, int, int]] = {}
    book: tuple[Levels, Levels] = ({}, {})
    rows, books = [], []

    def change(side: int, price_ticks: int, lots: int) -> None:
        book[side][price_ticks] = book[side].get(price_ticks, 0) + lots
        if not book[side][price_ticks]:
            del book[side][price_ticks]

    for row, (name, _, kind, side, price_ticks, lots) in enumerate(events.tolist()):
        if name not in orders and kind != CREATED:
            continue
        if name in orders:
            before = orders.pop(name)
            change(before[0], before[1], -before[2])
        if kind != DELETED and lots:
            orders[name] = (side, price_ticks, lots)
            change(*orders[name])
        if row % 10 == 0 and book[0] and book[1] and max(book[0]) < min(book[1]):
            rows.append(row)
            books.append([best(book[at], at, 10) for at in range(2)])
    differing = 0
    for expected, market in zip(books, replay_to_rows(import_day(path), rows), strict=True):
        shown = top(market, 10)
        differing += any(
            abs(expected[side].get(price, 0) - shown[side].get(price, 0)) > 1_000
            for side in range(2)
            for price in expected[side]
        )
    assert len(rows) > 4_500 and differing < 0.04 * len(rows), f"{differing} of {len(rows)}"


def test_quotes_within_a_name_of_the_header(tmp_path: Path) -> None:
    """It was taken for the header, and then a traceback said that there is no such column."""
    path = tmp_path / "bitstamp_btcusd_x.csv"
    path.write_text(csv_text((1, 0, "10.00", 500, "created", "bid")).replace("volume", 'vo""lume'))
    with pytest.raises(L3CsvError, match=r"header: expected the columns id, .*volume.*; Column 'volume'"):
        import_day(path)


def test_seconds_are_refused(tmp_path: Path) -> None:
    """They were read as milliseconds of 1970."""
    text = csv_text((1, 0, "10.00", 500, "created", "bid")).replace(str(MIDNIGHT_MS), str(MIDNIGHT_MS // 1000))
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(L3CsvError, match=r"row 1: timestamp: expected ms since 1970, .* not before 1980"):
        import_day(tmp_path / "a.csv")
