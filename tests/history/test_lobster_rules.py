"""Each rule of docs/history.md on a hand-written sample; every sample's book is also compared row by row."""

from pathlib import Path

import numpy as np

from serl.exchange.records import COMMAND, TimeInForce
from serl.history.day import Day
from serl.history.lobster import read_lobster
from serl.history.lobster_day import book_view, lobster_day
from serl.history.verify import verify
from tests.history.sample import Book, Message, commands_of_row, imported, write_sample

START: Book = ([(101, 10), (103, 10)], [(99, 10), (97, 10)])
NO_CHANGE: tuple[Message, Book] = ((5, 0, 1, 100, 1), START)
"""A first row that does not change the book."""
BUY, SELL = 0, 1


def assert_counts(day: Day, **counts: int) -> None:
    """Checks these counts, and that no change is unexplained."""
    assert day.reference.counts["unexplained"] == day.reference.counts["missing_lots"] == 0
    assert {name: day.reference.counts[name] for name in counts} == counts


def test_opening_book_is_one_order_per_level_before_the_first_row(tmp_path: Path) -> None:
    day, result = imported(tmp_path, NO_CHANGE)
    assert commands_of_row(day, -1) == [
        ("NEW", 0, BUY, 10, 99), ("NEW", 0, SELL, 10, 101), ("NEW", 0, BUY, 10, 97), ("NEW", 0, SELL, 10, 103),
    ]  # fmt: skip
    assert commands_of_row(day, 0) == [("PRINT", 0, BUY, 1, 100)]
    assert (day.commands["time_ns"] == 34_200_500_000_000).all()
    assert (day.commands["time_in_force"][:4] == TimeInForce.GTC).all()
    assert result.differing == 0 and result.rows == 1


def test_the_order_of_the_first_message_is_separate_from_its_level(tmp_path: Path) -> None:
    book: Book = ([(101, 10), (103, 10)], [(99, 7), (97, 10)])
    day, result = imported(tmp_path, ((1, 5, 3, 99, 1), START), ((3, 5, 3, 99, 1), book))
    assert ("NEW", 0, BUY, 7, 99) in commands_of_row(day, -1)
    assert commands_of_row(day, 0) == [("NEW", 0, BUY, 3, 99)]
    assert commands_of_row(day, 1) == [("CANCEL", 5, BUY, 0, 99)]
    assert result.differing == 0


def test_new_reduce_cancel_of_a_named_order(tmp_path: Path) -> None:
    six: Book = ([(101, 10), (103, 10)], [(100, 6), (99, 10)])
    four: Book = ([(101, 10), (103, 10)], [(100, 4), (99, 10)])
    day, result = imported(
        tmp_path, NO_CHANGE, ((1, 8, 6, 100, 1), six), ((2, 8, 2, 100, 1), four), ((3, 8, 4, 100, 1), START)
    )
    order = int(day.commands["command_id"][day.rows == 1][0])
    assert commands_of_row(day, 1) == [("NEW", 0, BUY, 6, 100)]
    assert commands_of_row(day, 2) == [("REDUCE", order, BUY, 2, 100)]
    assert commands_of_row(day, 3) == [("CANCEL", order, BUY, 0, 100)]
    assert result.differing == result.rejected == 0


def test_command_ids_count_up_and_times_are_the_rows(tmp_path: Path) -> None:
    day, _ = imported(tmp_path, NO_CHANGE, ((2, 77, 2, 99, 1), ([(101, 10), (103, 10)], [(99, 8), (97, 10)])))
    assert day.commands["command_id"].tolist() == list(range(1, len(day) + 1))
    assert int(day.commands["time_ns"][-1]) == day.reference.last_time_ns == 34_201_500_000_000
    assert day.reference.first_time_ns == 34_200_500_000_000
    assert day.commands.dtype == COMMAND and not day.commands["participant"].any()


def test_cancel_of_an_unnamed_order_takes_anonymous_lots(tmp_path: Path) -> None:
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 8, 5, 99, 1), ([(101, 10), (103, 10)], [(99, 15), (97, 10)])),
        ((3, 77, 4, 99, 1), ([(101, 10), (103, 10)], [(99, 11), (97, 10)])),
    )
    assert commands_of_row(day, 2) == [("REDUCE", 1, BUY, 4, 99)]
    assert_counts(day, unnamed_cancels=1)
    assert result.differing == 0


def test_unnamed_cancel_beyond_the_anonymous_lots_takes_the_newest_named(tmp_path: Path) -> None:
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 8, 5, 99, 1), ([(101, 10), (103, 10)], [(99, 15), (97, 10)])),
        ((1, 9, 5, 99, 1), ([(101, 10), (103, 10)], [(99, 20), (97, 10)])),
        ((3, 77, 12, 99, 1), ([(101, 10), (103, 10)], [(99, 8), (97, 10)])),
    )
    assert commands_of_row(day, 3) == [("CANCEL", 1, BUY, 0, 99), ("REDUCE", 7, BUY, 2, 99)]
    assert_counts(day)
    assert result.differing == 0


def test_execution_is_an_ioc_order_of_the_other_side(tmp_path: Path) -> None:
    day, result = imported(tmp_path, NO_CHANGE, ((4, 1, 4, 101, -1), ([(101, 6), (103, 10)], [(99, 10), (97, 10)])))
    assert commands_of_row(day, 1) == [("NEW", 0, BUY, 4, 101)]
    assert day.commands["time_in_force"][-1] == TimeInForce.IOC
    assert_counts(day, executions=1, executions_other_head=0, executions_unfilled=0)
    assert result.differing == 0


def test_execution_behind_the_head_keeps_the_level_and_later_cancels_remove_the_rest(tmp_path: Path) -> None:
    """History executes the second order of the queue, the book the first, whose cancel comes later."""
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 8, 5, 100, 1), ([(101, 10), (103, 10)], [(100, 5), (99, 10)])),
        ((1, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(100, 10), (99, 10)])),
        ((4, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(100, 5), (99, 10)])),
        ((3, 8, 5, 100, 1), START),
    )
    assert_counts(day, executions=1, executions_other_head=1)
    assert commands_of_row(day, 4) == [("CANCEL", 7, BUY, 0, 100)]
    assert result.differing == result.rejected == 0


def test_hidden_executions_and_crosses_are_prints_rounded_half_to_even(tmp_path: Path) -> None:
    path = write_sample(tmp_path, [NO_CHANGE, ((5, 0, 2, 100, -1), START), ((6, 0, 3, 100, 1), START)])
    path.write_text("34200.5,5,0,1,10050,1\n34200.5,5,0,2,10150,-1\n34200.5,6,-1,3,10049,1\n")
    day = lobster_day(read_lobster(path))
    assert [commands_of_row(day, row) for row in range(3)] == [
        [("PRINT", 0, BUY, 1, 100)], [("PRINT", 0, SELL, 2, 102)], [("PRINT", 0, BUY, 3, 100)],
    ]  # fmt: skip
    assert_counts(day, prints=3, prints_rounded=3)


def test_cross_without_shares_is_omitted(tmp_path: Path) -> None:
    day, _ = imported(tmp_path, NO_CHANGE, ((6, -1, 0, 0, 1), START))
    assert commands_of_row(day, 1) == []
    assert_counts(day, crosses_empty=1)


def test_halt_and_first_resume(tmp_path: Path) -> None:
    after: Book = ([(101, 10), (103, 10)], [(99, 4), (97, 10)])
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((7, 0, 0, -1, -1), START),
        ((2, 70, 6, 99, 1), after),
        ((7, 0, 0, 0, -1), after),
        ((7, 0, 0, 1, -1), after),
    )
    assert [commands_of_row(day, row)[0][0] for row in (1, 2, 3)] == ["HALT", "REDUCE", "RESUME"]
    assert commands_of_row(day, 4) == []
    assert_counts(day, halts=1, resumes=1)
    assert result.differing == result.rejected == 0


def test_order_entered_while_halted_comes_with_the_resume(tmp_path: Path) -> None:
    after: Book = ([(101, 10), (103, 10)], [(100, 4), (99, 10)])
    day, result = imported(
        tmp_path, NO_CHANGE, ((7, 0, 0, -1, -1), START), ((1, 70, 4, 100, 1), after), ((7, 0, 0, 1, -1), after)
    )
    assert commands_of_row(day, 2) == []
    assert commands_of_row(day, 3) == [("RESUME", 0, BUY, 0, 0), ("NEW", 0, BUY, 4, 100)]
    assert_counts(day, halted_orders=1, refresh_adds=1)
    assert result.differing == 1 and result.rejected == 0


def test_level_coming_into_view_is_added_as_one_anonymous_order(tmp_path: Path) -> None:
    day, result = imported(tmp_path, NO_CHANGE, ((3, 70, 10, 99, 1), ([(101, 10), (103, 10)], [(97, 10), (90, 33)])))
    assert commands_of_row(day, 1) == [("CANCEL", 1, BUY, 0, 99), ("NEW", 0, BUY, 33, 90)]
    assert_counts(day, refresh_adds=1, refresh_cuts=0)
    assert result.differing == 0


def test_level_back_in_view_with_less_loses_anonymous_lots_first(tmp_path: Path) -> None:
    wide: Book = ([(101, 10), (103, 10)], [(100, 5), (99, 14)])
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 8, 4, 99, 1), ([(101, 10), (103, 10)], [(99, 14), (97, 10)])),
        ((1, 9, 5, 100, 1), wide),  # 97 goes out of view with 10 lots
        ((3, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(99, 14), (97, 6)])),
    )
    assert commands_of_row(day, 3)[1:] == [("REDUCE", 3, BUY, 4, 97)]
    assert_counts(day, refresh_cuts=1)
    assert result.differing == 0


def test_level_that_vanished_out_of_view_is_removed_when_the_view_reaches_it(tmp_path: Path) -> None:
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(100, 5), (99, 10)])),
        ((3, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(99, 10), (95, 2)])),
    )
    assert commands_of_row(day, 2)[1:] == [("CANCEL", 3, BUY, 0, 97), ("NEW", 0, BUY, 2, 95)]
    assert_counts(day, refresh_cuts=1, refresh_adds=1)
    assert result.differing == 0


def test_new_order_at_a_price_whose_old_lots_are_gone_is_not_queued_behind_them(tmp_path: Path) -> None:
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(100, 5), (99, 10)])),
        ((1, 11, 3, 98, 1), ([(101, 10), (103, 10)], [(100, 5), (99, 10)])),
        ((3, 70, 10, 99, 1), ([(101, 10), (103, 10)], [(100, 5), (98, 3)])),
        ((1, 12, 1, 99, 1), ([(101, 10), (103, 10)], [(100, 5), (99, 1)])),
        ((3, 9, 5, 100, 1), ([(101, 10), (103, 10)], [(99, 1)])),
        ((1, 13, 4, 97, 1), ([(101, 10), (103, 10)], [(99, 1), (97, 4)])),
    )
    assert commands_of_row(day, 6) == [("NEW", 0, BUY, 4, 97)]
    assert_counts(day)
    assert result.differing == 0
    order_at_97 = [c for c in commands_of_row(day, 5) if c[4] == 97]
    assert order_at_97 == [("CANCEL", 3, BUY, 0, 97)], "gone when the view, not full, reached every price"


def test_stale_lots_go_before_a_new_order_enters_at_their_price(tmp_path: Path) -> None:
    """97 leaves the view with 10 lots and returns with one order of 4."""
    day, result = imported(
        tmp_path,
        NO_CHANGE,
        ((1, 9, 5, 98, 1), ([(101, 10), (103, 10)], [(99, 10), (98, 5)])),
        ((1, 12, 4, 97, 1), ([(101, 10), (103, 10)], [(99, 10), (97, 4)])),
    )
    assert commands_of_row(day, 2)[:2] == [("CANCEL", 3, BUY, 0, 97), ("NEW", 0, BUY, 4, 97)]
    assert result.differing == 0


def test_change_in_view_that_no_message_explains_is_counted_and_still_followed(tmp_path: Path) -> None:
    day, result = imported(tmp_path, NO_CHANGE, ((5, 0, 1, 100, 1), ([(101, 12), (103, 10)], [(99, 10), (97, 9)])))
    assert day.reference.counts["unexplained"] == 2
    assert commands_of_row(day, 1)[1:] == [("REDUCE", 3, BUY, 1, 97), ("NEW", 0, SELL, 2, 101)]
    assert result.differing == 0 and result.unexplained == 2


def test_verify_reports_the_first_differing_row(tmp_path: Path) -> None:
    after: Book = ([(101, 6), (103, 10)], [(99, 10), (97, 10)])
    source = read_lobster(write_sample(tmp_path, [NO_CHANGE, ((4, 1, 4, 101, -1), after), ((5, 0, 1, 100, 1), after)]))
    day = lobster_day(source)
    ticks, lots = book_view(source)
    wrong = lots.copy()
    wrong[1, SELL, 0] = 7
    result = verify(day, ticks, wrong)
    assert result.differing == 1 and result.first_difference is not None
    assert result.first_difference.row == 2
    assert result.first_difference.expected == (((99, 10), (97, 10)), ((101, 7), (103, 10)))
    assert result.first_difference.actual == (((99, 10), (97, 10)), ((101, 6), (103, 10)))
    assert verify(day, ticks, lots).differing == 0
    shallow = Day(day.commands[:-2], day.rows[:-2], day.reference)
    assert verify(shallow, ticks, lots).differing == 2
    assert np.array_equal(day.rows, np.sort(day.rows))
