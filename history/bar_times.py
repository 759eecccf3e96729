"""When bars begin: the columns that other tables say it in, as a date and a time of day."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serl.history.errors import BarsError
from serl.history.table_rows import Refuse

EPOCH_UNITS = ("s", "ms", "us", "ns")
EPOCH_LEAST = np.array([10**11, 10**14, 10**17])
"""Counts from 1970 from which on they are of the next finer unit."""
TIME_DUE = "a time like 2018-02-16 09:30:00, with an offset in all rows or in none,"


def when(table: pa.Table, names: dict[str, str], time_zone: str, refuse: Refuse) -> tuple[Any, Any]:
    """(date, time of day at which the bar begins) as texts.

    names: canonical name: column of the table. time_zone: whose clock universal times follow, empty for UTC. BarsError names the row.
    """
    split = "date" in names and "clock" in names
    name = "date and time" if split else names.get("moment", names.get("date", ""))
    moment = _joined(table[names["date"]], table[names["clock"]], refuse) if split else table[name]
    refuse(pc.is_null(moment).to_numpy(), f"{name}: a time", moment)
    if pa.types.is_integer(moment.type):
        moment = _counted(moment, name, refuse)
    elif pa.types.is_string(moment.type) or pa.types.is_large_string(moment.type):
        moment = _parsed(moment, name, refuse)
    if pa.types.is_date(moment.type):
        raise BarsError(f"{refuse.path}: bars within the day are due, with a time; {name} has dates alone")
    if not pa.types.is_timestamp(moment.type):
        raise BarsError(
            f"{refuse.path}: a column of times is due (text, timestamps or a count from 1970), got {moment.type}"
        )
    seconds = pc.cast(_local(moment, name, time_zone, refuse), pa.timestamp("s"), safe=False)
    return pc.strftime(seconds, "%Y-%m-%d"), pc.strftime(seconds, "%H:%M:%S")


def _joined(date: Any, clock: Any, refuse: Refuse) -> Any:
    """Texts of date and time; of a date without separators too, and of an hour with one digit."""
    if pa.types.is_timestamp(date.type):
        date = pc.cast(date, pa.date32())
    refuse(pc.is_null(date).to_numpy(), "a date", date)
    refuse(pc.is_null(clock).to_numpy(), "a time", clock)
    days = pc.replace_substring_regex(pc.cast(date, pa.string()), r"^(\d{4})[-/]?(\d\d)[-/]?(\d\d)$", r"\1-\2-\3")
    hours = pc.replace_substring_regex(pc.cast(clock, pa.string()), r"^(\d):", r"0\1:")
    return pc.binary_join_element_wise(days, hours, " ")


def _counted(counts: Any, name: str, refuse: Refuse) -> Any:
    """Counts from 1970, whose unit is told by how large they are: universal timestamps."""
    values = refuse.cast(counts, pa.int64(), f"{name}: a count from 1970").to_numpy()
    refuse(values < 0, f"{name}: a count from 1970, not below 0,", counts)
    unit = np.searchsorted(EPOCH_LEAST, values, side="right")
    first = EPOCH_UNITS[unit[0]]
    refuse(unit != unit[0], f"{name}: a count from 1970 in {first}, as in row 1,", counts)
    return pa.array(values, pa.timestamp(first, "UTC"))


def _parsed(texts: Any, name: str, refuse: Refuse) -> Any:
    """Timestamps: universal ones if the first text has an offset."""
    try:
        pc.cast(texts.slice(0, 1), pa.timestamp("ns", "UTC"))
        kind = pa.timestamp("ns", "UTC")
    except pa.ArrowException:
        kind = pa.timestamp("ns")
    return refuse.cast(texts, kind, f"{name}: {TIME_DUE}")


def _local(moment: Any, name: str, time_zone: str, refuse: Refuse) -> Any:
    """Timestamps of the clock that the day follows."""
    if not moment.type.tz:
        if time_zone:
            raise BarsError(
                f"{refuse.path}: --time-zone: universal times are due (with an offset, or a count from 1970); those of {name} "
                "say none and are taken as they are"
            )
        return moment
    try:
        return pc.local_timestamp(pc.cast(moment, pa.timestamp(moment.type.unit, time_zone or "UTC")))
    except pa.ArrowException as error:
        raise BarsError(f"--time-zone: a name like America/New_York is due, got {time_zone!r} ({error})") from None
