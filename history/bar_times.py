"""The start of each bar as a date and a time of day, from the columns of various tables."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serl.history.errors import BarsError
from serl.history.table_rows import RowCheck

EPOCH_UNITS = ("s", "ms", "us", "ns")
YEAR_1980_S, YEAR_2100_S = 315_532_800, 4_102_444_800
"""Counts from 1970 are between these years: others are dates in digits, as 20180216093000."""
EPOCH_UNIT_MIN = np.array([10**11, 10**14, 10**17])
"""A count since 1970 of at least this size is in the next finer unit."""
TIME_FORM = "a time like 2018-02-16 09:30:00, with an offset in all rows or in none"


def date_and_time(table: pa.Table, names: dict[str, str], time_zone: str, check: RowCheck) -> tuple[Any, Any, Any]:
    """(date, time of day) at which the bar begins, as texts, and that moment before it is converted to local time. Raises `BarsError`.

    names: the table's column names by canonical name. time_zone: the zone to convert UTC times to, empty for UTC.
    """
    split = "date" in names and "clock" in names
    name = "date and time" if split else names.get("moment", names.get("date", ""))
    moment = _date_with_time(table[names["date"]], table[names["clock"]], check) if split else table[name]
    check(name, pc.is_null(moment).to_numpy(), "a time", moment)
    if pa.types.is_integer(moment.type):
        moment = _from_epoch(moment, name, check)
    elif pa.types.is_string(moment.type) or pa.types.is_large_string(moment.type):
        moment = _parsed(moment, name, check)
    if pa.types.is_date(moment.type):
        raise BarsError(f"{check.path}: expected bars with a time of day, got dates alone in {name}")
    if not pa.types.is_timestamp(moment.type):
        raise BarsError(
            f"{check.path}: expected a column of times (text, timestamps or a count from 1970), got {moment.type}"
        )
    seconds = pc.cast(_local(moment, name, time_zone, check), pa.timestamp("s"), safe=False)
    return pc.strftime(seconds, "%Y-%m-%d"), pc.strftime(seconds, "%H:%M:%S"), moment


def _date_with_time(date: Any, clock: Any, check: RowCheck) -> Any:
    """Date and time as one text; accepts dates without separators and hours of one digit."""
    if pa.types.is_timestamp(date.type):
        date = pc.cast(date, pa.date32())
    check("date", pc.is_null(date).to_numpy(), "a date", date)
    check("time", pc.is_null(clock).to_numpy(), "a time", clock)
    days = pc.replace_substring_regex(pc.cast(date, pa.string()), r"^(\d{4})[-/]?(\d\d)[-/]?(\d\d)$", r"\1-\2-\3")
    hours = pc.replace_substring_regex(pc.cast(clock, pa.string()), r"^(\d):", r"0\1:")
    return pc.binary_join_element_wise(days, hours, " ")


def _from_epoch(counts: Any, name: str, check: RowCheck) -> Any:
    """UTC timestamps from counts since 1970; the magnitude of the counts implies their unit."""
    values = check.cast(name, counts, pa.int64(), "a count from 1970").to_numpy()
    check(name, values < 0, "a count from 1970, not below 0", counts)
    unit = np.searchsorted(EPOCH_UNIT_MIN, values, side="right")
    first = EPOCH_UNITS[unit[0]]
    check(name, unit != unit[0], f"a count from 1970 in {first}, as in row 1", counts)
    second = 1000 ** int(unit[0])
    is_count = (values >= YEAR_1980_S * second) & (values < YEAR_2100_S * second)
    check(name, ~is_count, f"a count of {first} from 1970, of a time from 1980 to 2099, or a time as text", counts)
    return pa.array(values, pa.timestamp(first, "UTC"))


def _parsed(texts: Any, name: str, check: RowCheck) -> Any:
    """Timestamps parsed from texts; in UTC if the first text has an offset."""
    try:
        pc.cast(texts.slice(0, 1), pa.timestamp("ns", "UTC"))
        kind = pa.timestamp("ns", "UTC")
    except pa.ArrowException:
        kind = pa.timestamp("ns")
    return check.cast(name, texts, kind, TIME_FORM)


def _local(moment: Any, name: str, time_zone: str, check: RowCheck) -> Any:
    """Timestamps in the time zone of the day."""
    if not moment.type.tz:
        if time_zone:
            raise BarsError(
                f"{check.path}: --time-zone: expected UTC times (with an offset, or a count from 1970), got {name} without an "
                "offset; omit it"
            )
        return moment
    try:
        return pc.local_timestamp(pc.cast(moment, pa.timestamp(moment.type.unit, time_zone or "UTC")))
    except pa.ArrowException as error:
        raise BarsError(f"--time-zone: expected a name like America/New_York, got {time_zone!r} ({error})") from None
