"""Pages get the newest state, bounded in size, and nothing twice."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients.dashboard.account import Account
from serl.clients.dashboard.board import TRADES_A_FRAME, Board, Cursor
from serl.clients.dashboard.json_lines import READ_BYTES_MAX
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.progress import SCHEDULE_POINTS, Progress
from serl.clients.dashboard.ring import Ring
from serl.clients.dashboard.symbol import COLUMNS, TRADES, SymbolView, imbalance, order_flow, traded_by_price
from serl.clients.dashboard.vitals import OFFLINE_S, Vitals
from serl.exchange.records import EVENT, EventFlag, EventKind, HaltReason, Phase
from serl.exchange.wire import Kind

SECOND_NS = 1_000_000_000


def with_book(name: str = "DEMO") -> SymbolView:
    view = SymbolView(0, name, "0.01")
    view.book.apply_snapshot([145, 1, 1, 10, 0, [[[99, 5, 1], [98, 7, 2]], [[101, 4, 1]]]])
    view.apply_trades([147, 1, 1, 0, 0, []])
    return view


def board_of(*views: SymbolView) -> Board:
    board = Board()
    board.views = {view.name: view for view in views}
    return board


def l2(previous: int, sequence: int, *levels: list[int]) -> list[Any]:
    return [113, 1, previous, sequence, 0, list(levels)]


def status(sequence: int, phase: Phase) -> list[Any]:
    return [116, 1, sequence - 1, sequence, 0, [0, phase, HaltReason.NONE]]


def trades(first: int, count: int) -> list[Any]:
    items = [[first + index, SECOND_NS, 100, 1, index % 2, 0] for index in range(count)]
    return [115, 1, 0, first, 0, items]


def test_a_reader_of_a_ring_gets_the_newer_items_that_are_kept() -> None:
    ring: Ring[int] = Ring(3, 100)
    for item in range(5):
        ring.append(item)
    assert ring.since(0) == [2, 3, 4]
    assert ring.since(4) == [4]
    assert ring.since(5) == []
    assert ring.since(0, limit=2) == [3, 4]


def test_a_ring_keeps_what_its_bytes_hold() -> None:
    random = np.random.default_rng(1)
    ring: Ring[str] = Ring(20, 200)
    items: list[str] = []
    for number in range(2000):
        items.append(f"{number} " + "x" * int(random.integers(0, 60)))
        ring.append(items[-1])
        kept = ring.since(0)
        assert kept == items[len(items) - len(kept) :]
        if number % 500 > 100:
            with_next = items[-len(kept) - 1 :]
            assert len(kept) == 20 or sum(map(len, with_next)) + 3 * len(with_next) > 200 - 70, "it wastes little"
        if number % 500 == 499:
            ring.clear()
            assert ring.since(0) == []
    ring.append("x" * 300)
    assert ring.since(0) == [] and ring.count == 2001
    ring.append("y")
    assert ring.since(0) == ["y"]


def test_the_history_is_no_heap_of_objects() -> None:
    """Thousands of them, replaced for hours, let the process grow."""
    view, random = with_book(), np.random.default_rng(1)
    levels = [[[1000 + place, 1000 * place, 300 + place] for place in range(50)] for _ in range(2)]
    view.book.apply_snapshot([0, 0, 1, 10, 0, levels])
    view.apply(trades(1, 5))
    view.add_column(1)
    before = sys.getallocatedblocks()
    for step in range(2, COLUMNS + 2):
        view.apply([115, 1, 0, step, 0, [[step, step, 1000 + int(random.integers(50)), 900, 0, 0]]])
        view.add_column(step * SECOND_NS)
    assert sys.getallocatedblocks() - before < COLUMNS
    assert len(view.columns.since(0)) == COLUMNS


def test_a_page_is_sent_nothing_twice() -> None:
    view = with_book()
    board, cursor = board_of(view), Cursor()
    board.put("market", {"symbols": [["DEMO", "0.01", "1"]]})
    first = board.frame(cursor)
    assert first["symbol"] == "DEMO" and first["fresh"] and first["market"]
    assert first["book"]["bids"] == [(99, 5, 1), (98, 7, 2)]
    assert board.frame(cursor) == {}
    view.apply(l2(10, 11, [0, 99, 6, 1]))
    assert board.frame(cursor)["book"]["bids"][0] == (99, 6, 1)
    board.put("market", {"symbols": [["DEMO", "0.01", "1"]]})
    assert board.frame(cursor) == {}, "an equal value is not sent again"


def test_a_trade_that_arrives_after_its_book_changes_the_last_price() -> None:
    view = with_book()
    board, cursor = board_of(view), Cursor()
    view.apply(l2(10, 11, [1, 101, 0, 0]))
    assert board.frame(cursor)["book"]["last"] is None
    view.apply([115, 1, 0, 11, 0, [[1, 0, 101, 4, 0, 0]]])
    assert board.frame(cursor)["book"]["last"] == 101


def test_a_slow_page_gets_the_newest_state_instead_of_a_queue() -> None:
    view = with_book()
    board, cursor = board_of(view), Cursor()
    board.frame(cursor)
    for sequence in range(11, 50_011):
        view.apply(l2(sequence - 1, sequence, [0, 99, sequence, 1]))
        view.apply(trades(sequence, 1))
    frame = board.frame(cursor)
    assert frame["book"]["bids"][0] == (99, 50_010, 1)
    assert [trade[0] for trade in frame["trades"]] == list(range(50_011 - TRADES_A_FRAME, 50_011))
    assert board.frame(cursor) == {}


def test_a_page_that_begins_with_a_symbol_gets_all_that_is_kept() -> None:
    view, other = with_book(), with_book("ABC")
    board, cursor = board_of(view, other), Cursor()
    board.frame(cursor)
    for second in range(COLUMNS):
        other.apply(trades(10 * second + 1, 10))
        other.add_column(second * SECOND_NS)
    cursor.select("ABC")
    frame = board.frame(cursor)
    assert len(frame["columns"]) == COLUMNS and len(frame["trades"]) == TRADES


def test_memory_is_bounded() -> None:
    view = with_book()
    for step in range(3 * COLUMNS):
        view.apply(trades(50 * step + 1, 50))
        view.add_column(step * SECOND_NS)
    assert len(view.columns.since(0)) == COLUMNS
    assert len(view.trades.since(0)) == TRADES


def test_a_column_holds_the_trades_since_the_one_before() -> None:
    view = with_book()
    view.apply(
        [115, 1, 0, 11, 0, [[1, 0, 101, 3, 0, 0], [2, 0, 99, 2, 1, 0], [3, 0, 101, 4, 0, 0], [4, 0, 100, 9, 0, 1]]]
    )
    view.add_column(SECOND_NS)
    view.add_column(2 * SECOND_NS)
    first, second = view.columns.since(0)
    assert first["traded"] == [[99, 0, 2, 0], [101, 7, 0, 0]], "prints are not trades of the book"
    assert first["last"] == 101
    assert (first["bid"], first["ask"], first["t"]) == (99, 101, 1.0)
    assert second["traded"] == []


def test_a_column_in_which_nothing_happened_repeats_the_book_alone() -> None:
    view = with_book()
    row = np.zeros(1, EVENT)
    row["kind"], row["flags"], row["qty_lots"] = EventKind.ACCEPTED, EventFlag.RESTING, 5
    view.apply([118, 1, 9, 11, 0, row.tobytes()])
    view.apply([115, 1, 0, 11, 0, [[1, 0, 101, 3, 0, 0]]])
    for second in range(4):
        view.add_column(second * SECOND_NS)
    view.apply(l2(10, 12, [0, 99, 6, 1]))
    view.add_column(4 * SECOND_NS)
    first, *quiet, last = view.columns.since(0)
    assert first["traded"] and first["flow"]["added_bid"] == 5
    assert [column["t"] for column in quiet] == [1.0, 2.0, 3.0]
    for column in quiet:
        assert column == first | {"t": column["t"], "traded": [], "flow": dict.fromkeys(first["flow"], 0)}
    assert last["bids"][0] == [99, 6, 1]


def test_a_symbol_among_many_has_less_memory() -> None:
    view = SymbolView(0, "DEMO", "0.01", history_bytes=50_000)
    view.book.apply_snapshot([0, 0, 1, 10, 0, [[[99 - level, 5, 1] for level in range(40)], []]])
    for step in range(COLUMNS):
        view.add_column(step * SECOND_NS)
    columns = view.columns.since(0)
    assert 20 < len(columns) < COLUMNS and columns[-1]["t"] == COLUMNS - 1


def test_times_of_columns_increase_at_midnight() -> None:
    """A chart cannot show data whose times go back by a day."""
    view = SymbolView(0, "DEMO", "0.01")
    for second in (86_399, 86_400, 86_401):
        view.add_column(second * SECOND_NS)
    assert [column["t"] for column in view.columns.since(0)] == [86_399, 86_400, 86_401]


def test_no_column_while_time_stands_still() -> None:
    view = with_book()
    for _ in range(5):
        view.add_column(7 * SECOND_NS)
    assert view.columns.count == 1


def test_a_new_process_of_the_exchange_resets_the_view() -> None:
    view = with_book()
    view.apply(trades(1, 5))
    view.add_column(9 * SECOND_NS)
    board, cursor = board_of(view), Cursor()
    board.frame(cursor)
    board.generation += 1
    view.reset()
    view.add_column(1 * SECOND_NS)
    frame = board.frame(cursor)
    assert frame["fresh"]
    assert [column["t"] for column in frame["columns"]] == [1.0]
    assert frame["book"]["bids"] == []


def test_order_flow_counts_what_rows_add_and_cancel() -> None:
    rows = np.zeros(6, EVENT)
    rows["kind"] = [
        EventKind.ACCEPTED, EventKind.ACCEPTED, EventKind.RESTED, EventKind.CANCELLED, EventKind.REDUCED, EventKind.FILL,
    ]  # fmt: skip
    rows["flags"] = [EventFlag.RESTING, 0, 0, EventFlag.RESTING, 0, EventFlag.MAKER]
    rows["side"] = [0, 0, 1, 0, 1, 0]
    rows["qty_lots"] = [10, 99, 20, 3, 4, 50]
    rows["leaves_lots"] = [10, 99, 20, 0, 16, 0]
    expected = {"added_bid": 10, "added_ask": 20, "cancelled_bid": 3, "cancelled_ask": 4}
    assert order_flow(rows.tobytes()) == expected


def test_imbalance_is_between_minus_one_and_one() -> None:
    assert imbalance([(99, 3, 1)], [(101, 1, 1)]) == 0.5
    assert imbalance([], [(101, 1, 1)]) == -1.0
    assert imbalance([], []) is None


def test_traded_by_price_adds_up() -> None:
    in_auction = [3, 0, 100, 5, 0, 2]
    assert traded_by_price([[1, 0, 100, 3, 0, 0], [2, 0, 100, 4, 1, 0], in_auction]) == [[100, 3, 4, 5]]


def test_the_indicative_auction_is_shown_while_orders_are_collected() -> None:
    view = with_book()
    board, cursor = board_of(view), Cursor()
    view.apply(status(11, Phase.PRE_OPEN))
    shown = board.frame(cursor)["book"]
    assert (shown["phase"], shown["indicative"], shown["halted"]) == ("pre_open", None, False)
    view.set_indicative([100, 30, -5])
    assert board.frame(cursor)["book"]["indicative"] == [100, 30, -5]
    view.set_indicative([100, 30, -5])
    assert board.frame(cursor) == {}, "an equal value is not sent again"
    view.add_column(SECOND_NS)
    view.apply(status(12, Phase.CONTINUOUS))
    view.set_indicative([100, 30, -5])
    view.add_column(2 * SECOND_NS)
    shown = board.frame(cursor)
    assert shown["book"]["indicative"] is None, "a late reply from before the end of the auction"
    assert [column["indicative"] for column in shown["columns"]] == [[100, 30, -5], None]


def test_the_speed_of_a_lockstep_clock_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    vitals = Vitals("tcp://127.0.0.1:1")
    vitals.clock = ["lockstep", 0.0, 0, 0]
    for quarter in range(12):
        monkeypatch.setattr(time, "monotonic", lambda quarter=quarter: 5 + quarter / 4)
        counts = dict.fromkeys(("commands", "events", "messages"), 0) | {"uptime_s": 1.0}
        vitals.add_reply([148, 1, 1, 1, quarter**2 * SECOND_NS, counts], 0.001)
    clock = vitals.as_json()["clock"]
    assert clock["measured"] == pytest.approx((11**2 - 4**2) / (7 / 4), rel=1e-2), "over the last seven quarters"
    assert clock["speed"] == 0


def test_progress_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "execution.jsonl"
    progress = Progress(path)
    assert progress.as_json()["order"] is None
    parent = {
        "participant": "me",
        "policy": "twap",
        "symbol": "DEMO",
        "side": 1,
        "qty_lots": 100,
        "start_ns": 0,
        "end_ns": 10**10,
    }
    order = json.dumps({"order": parent, "schedule": [[0, 0], [10**10, 100]]}) + "\n"
    path.write_text(order + '{"fill": [1000000000, 50, 10]}\n{"fill": [2000')
    shown = progress.as_json()
    assert shown["schedule"] == [[0.0, 0], [10.0, 100]]
    assert (shown["filled_lots"], shown["average_ticks"]) == (10, 50)
    with path.open("a") as file:
        file.write('000000, 53, 20]}\n{"ended": {"unfilled_lots": 5}}\n')
    shown = progress.as_json()
    assert (shown["filled_lots"], shown["average_ticks"]) == (30, 52)
    assert shown["fills"][-1] == [2.0, 53, 20, 30]
    assert shown["ended"] == {"unfilled_lots": 5}
    path.write_text(order)
    assert progress.as_json()["filled_lots"] == 0, "another execution replaced the file"
    path.write_text(order + "rubbish\n")
    assert "rubbish" in progress.as_json()["problem"]


@pytest.mark.parametrize(
    "line",
    [
        '{"order": 5, "schedule": [[1, 2]]}',
        '{"order": {"symbol": "DEMO", "qty_lots": 100}, "schedule": []}',
        '{"fill": [NaN, 50, 10]}',
        f'{{"fill": [1{"0" * 400}, 50, 10]}}',
        '{"fill": [1, "50", 10]}',
        '{"ended": 7}',
        "[" * 100_000,
    ],
)
def test_a_malformed_line_of_progress_is_reported_and_changes_nothing(line: str, tmp_path: Path) -> None:
    progress = Progress(tmp_path / "execution.jsonl")
    before = progress.as_json()
    (tmp_path / "execution.jsonl").write_text(line + "\n")
    shown = progress.as_json()
    assert shown.pop("problem").startswith("expected a line of progress, got")
    assert shown == {name: value for name, value in before.items() if name != "problem"}


def test_a_folder_instead_of_a_progress_file_is_reported(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "one")
    (tmp_path / "one").mkdir()
    assert "Is a directory" in progress.as_json()["problem"]
    (tmp_path / "one").rmdir()
    assert progress.as_json()["problem"] == ""


def test_a_schedule_in_a_long_line_is_read_and_thinned(tmp_path: Path) -> None:
    path = tmp_path / "execution.jsonl"
    order = {
        "participant": "a",
        "policy": "twap",
        "symbol": "DEMO",
        "side": 1,
        "qty_lots": 1,
        "start_ns": 0,
        "end_ns": 1,
    }
    schedule = [[step * SECOND_NS, step] for step in range(23_401)]
    path.write_text(json.dumps({"order": order, "schedule": schedule}) + '\n{"fill": [1, 2, 3]}\n')
    assert path.stat().st_size > READ_BYTES_MAX
    progress = Progress(path)
    progress.as_json()
    shown = progress.as_json()
    assert (shown["problem"], shown["filled_lots"]) == ("", 3)
    assert len(shown["schedule"]) == SCHEDULE_POINTS
    assert (shown["schedule"][0], shown["schedule"][-1]) == ([0, 0], [23_400, 23_400])


def test_a_line_without_an_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serl.clients.dashboard.json_lines.LINE_BYTES_MAX", READ_BYTES_MAX + 5)
    path = tmp_path / "execution.jsonl"
    path.write_text("x" * (READ_BYTES_MAX + 5))
    assert "got a longer one" in Progress(path).as_json()["problem"]


def test_an_exchange_that_refuses_is_not_merely_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    vitals = Vitals("tcp://127.0.0.1:5570")
    assert vitals.as_json()["refusal"] == ""
    vitals.add_refusal("expected a token")
    assert (vitals.as_json()["offline"], vitals.as_json()["refusal"]) == (True, "expected a token")
    now += 2 * OFFLINE_S
    assert vitals.as_json()["refusal"] == "", "it has stopped meanwhile"


def test_the_link_notes_that_it_is_refused() -> None:
    link = Link("tcp://127.0.0.1:5570", Board(), Account("tcp://127.0.0.1:5570", "a", "", None, active=False))
    link._sockets.close()
    link._on_statistics([Kind.ERROR, "bad_token", "expected a token", 1], 0.0)
    assert link._vitals.refusal == "expected a token"


def test_a_new_process_has_no_last_price() -> None:
    view = with_book()
    view.add_trades([[1, SECOND_NS, 12345, 1, 0, 0]])
    assert view.ladder()["last"] == 12345
    view.reset()
    assert view.ladder()["last"] is None and view.watch_row()[1] is None
