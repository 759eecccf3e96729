"""Packs rows into few bytes before they are compressed: whatever a row repeats from earlier rows is left out.

Each column is stored as differences from the likely value: the next number, the previous event of the participant, the other side of a
match. Columns whose values depend on the kind of row are stored by kind. A difference takes one byte in each plane: first come the lowest bytes
of all rows, then the next ones; planes of zeros are left out. Checks of commands are recomputed from the salt of the journal.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import COMMAND, EVENT, EventFlag, EventKind, Rows
from serl.exchange.row_checksum import row_checksums

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Order = NDArray[np.intp]
Columns = dict[str, NDArray[Any]]

WORD = 8


class _Writer:
    """Writes columns of numbers one after the other."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def put(self, values: NDArray[Any]) -> None:
        """Adds numbers: the bytes that each takes, then their planes. For bytes and bits only the one plane."""
        if values.dtype.itemsize == 1:
            self.parts.append(values.tobytes())
            return
        numbers = values.astype(np.int64, copy=False)
        folded = (numbers << 1) ^ (numbers >> 63)  # small negative numbers become small too
        used = -(-int(folded.view(np.uint64).max(initial=0)).bit_length() // 8)
        planes = folded.view(np.uint8).reshape(-1, WORD)
        self.parts.append(bytes([used]))
        self.parts += [planes[:, plane].tobytes() for plane in range(used)]


class _Reader:
    """Reads what a `_Writer` wrote."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """Reads numbers of one byte each."""
        self._at += count
        return np.frombuffer(self._data, np.uint8, count, self._at - count)

    def numbers(self, count: int) -> Numbers:
        """Reads numbers of any size."""
        folded = np.zeros(count, np.int64)
        planes = folded.view(np.uint8).reshape(count, WORD)
        for plane in range(int(self.bytes(1)[0])):
            planes[:, plane] = self.bytes(count)
        return ((folded >> 1) & np.int64(0x7FFF_FFFF_FFFF_FFFF)) ^ -(folded & 1)


def _by(*keys: NDArray[Any]) -> Order:
    """The stable order of rows by keys, the first key being the most significant."""
    order = np.argsort(keys[-1], kind="stable")
    for key in keys[-2::-1]:
        order = order[np.argsort(key[order], kind="stable")]
    return order


def _changes(values: NDArray[Any]) -> Mask:
    """Which values differ from the previous one; the first one always does."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes


def _differences(values: Numbers, starts: Mask) -> Numbers:
    """The difference of each value from the previous one; at `starts` the value itself."""
    differences = np.diff(values, prepend=np.int64(0))
    return np.where(starts, values, differences)


def _sums(differences: Numbers, starts: Mask) -> Numbers:
    """The inverse of `_differences`."""
    sums = np.cumsum(differences)
    start = np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))
    return sums - (sums - differences)[start]


def _ages(numbers: Numbers, newest: Numbers) -> Numbers:
    """How far each number is behind the newest one, 0 for the number 0."""
    ages = newest - numbers
    return np.where(numbers == 0, 0, ages + (ages >= 0))


def _aged(ages: Numbers, newest: Numbers) -> Numbers:
    """The inverse of `_ages`."""
    return np.where(ages == 0, 0, newest - ages + (ages > 0))


def _only_first(count: int) -> Mask:
    starts = np.zeros(count, np.bool_)
    starts[:1] = True
    return starts


def _columns(rows: Rows) -> Columns:
    """The columns of rows, each contiguous: reading them from rows takes longer."""
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


def _rows(columns: Columns, dtype: np.dtype[Any]) -> Rows:
    rows = np.empty(len(columns["kind"]), dtype)
    for name, column in columns.items():
        rows[name] = column
    return rows


def _pack_commands(rows: Columns, count: int) -> bytes:
    out, first = _Writer(), _only_first(count)
    for name in ("kind", "participant", "symbol"):
        out.put(rows[name])
    for name in ("time_ns", "sequence"):
        out.put(_differences(rows[name], first))
    own = _by(rows["participant"])
    out.put(_differences(rows["command_id"][own], _changes(rows["participant"][own])))
    like = _by(rows["kind"], rows["symbol"])
    out.put(_ages(rows["order_id"], rows["command_id"])[like])
    for name in ("price_ticks", "qty_lots", "reason", "side", "time_in_force", "flags"):
        out.put(rows[name][like])
    return b"".join(out.parts)


def _unpack_commands(data: bytes, count: int, salt: int) -> Rows:
    rows, source, first = _columns(np.zeros(count, COMMAND)), _Reader(data), _only_first(count)
    rows["kind"] = source.bytes(count)
    for name in ("participant", "symbol"):
        rows[name] = source.numbers(count)
    for name in ("time_ns", "sequence"):
        rows[name] = _sums(source.numbers(count), first)
    own = _by(rows["participant"])
    rows["command_id"][own] = _sums(source.numbers(count), _changes(rows["participant"][own]))
    like = _by(rows["kind"], rows["symbol"])
    rows["order_id"][like] = source.numbers(count)
    rows["order_id"] = _aged(rows["order_id"], rows["command_id"])
    for name in ("price_ticks", "qty_lots", "reason"):
        rows[name][like] = source.numbers(count)
    for name in ("side", "time_in_force", "flags"):
        rows[name][like] = source.bytes(count)
    result = _rows(rows, COMMAND)
    result["check"] = row_checksums(result, salt)
    return result


def _alike(rows: Columns) -> Order:
    """The order that brings events about the same thing together."""
    return _by((rows["kind"].astype(np.uint16) << 8) | rows["flags"], rows["symbol"])


def _is_maker(rows: Columns) -> Mask:
    """Which events probably answer no command."""
    return (rows["kind"] == EventKind.FILL) & (rows["flags"] & EventFlag.MAKER > 0)


def _is_match(rows: Columns) -> Mask:
    """Which events probably have a match_id."""
    return (rows["kind"] == EventKind.FILL) | (rows["kind"] == EventKind.PRINT)


def _is_new(rows: Columns) -> Mask:
    """Which events give an order its number."""
    return (rows["kind"] == EventKind.ACCEPTED) & (rows["flags"] & EventFlag.RESTING > 0)


def _newest_numbers(rows: Columns, new: Mask) -> Numbers:
    return np.maximum.accumulate(np.where(new, rows["order_number"], 0))


def _first_of_match(rows: Columns) -> Mask:
    """Which events are not the second side of a match."""
    return _changes(rows["match_id"]) | (rows["match_id"] == 0)


def _leaves_expected(rows: Columns, answers: Mask) -> tuple[Mask, Numbers]:
    """(the first events that answer each command, the lots taken off the leaves before each of them)."""
    first = _changes(rows["command_sequence"][answers])
    expected = np.where(first & (rows["kind"][answers] != EventKind.ACCEPTED), 0, rows["qty_lots"][answers])
    return first, np.where(first, expected, -expected)


def _pack_events(rows: Columns, count: int) -> bytes:
    out, first = _Writer(), _only_first(count)
    for name in ("kind", "flags", "participant"):
        out.put(rows[name])
    for name in ("time_ns", "sequence", "command_sequence"):
        out.put(_differences(rows[name], first))
    out.put(_differences(rows["symbol"].astype(np.int64), _changes(rows["command_sequence"])))
    own = _by(rows["participant"])
    out.put(_differences(rows["report"][own], _changes(rows["participant"][own])))
    answers = rows["command_id"] != 0
    out.put(answers == _is_maker(rows))
    own = own[answers[own]]
    out.put(_differences(rows["command_id"][own], _changes(rows["participant"][own])))
    matches = rows["match_id"] != 0
    out.put(matches != _is_match(rows))
    out.put(_differences(rows["match_id"][matches], _only_first(int(matches.sum()))))
    like = _alike(rows)
    _pack_orders(out, rows, like)
    starts = _first_of_match(rows)
    for name in ("price_ticks", "qty_lots", "side"):
        out.put(_differences(rows[name].astype(np.int64), starts)[like])
    leaves = rows["leaves_lots"].copy()
    begins, expected = _leaves_expected(rows, answers)
    leaves[answers] = _differences(leaves[answers], begins) - expected
    out.put(leaves[like])
    out.put(rows["reason"][like])
    return b"".join(out.parts)


def _pack_orders(out: _Writer, rows: Columns, like: Order) -> None:
    new = _is_new(rows)
    numbers = rows["order_number"]
    out.put(_differences(numbers[new], _only_first(int(new.sum()))))
    out.put(_ages(numbers, _newest_numbers(rows, new))[like[~new[like]]])
    named = new | (numbers == 0)
    out.put((rows["order_id"] - rows["command_id"])[named])
    rest = np.flatnonzero(~named)
    rest = rest[_by(rows["participant"][rest], numbers[rest])]
    out.put(_differences(rows["order_id"][rest], _changes(rows["participant"][rest])))


def _unpack_events(data: bytes, count: int, _salt: int) -> Rows:
    rows, source, first = _columns(np.zeros(count, EVENT)), _Reader(data), _only_first(count)
    for name in ("kind", "flags"):
        rows[name] = source.bytes(count)
    rows["participant"] = source.numbers(count)
    for name in ("time_ns", "sequence", "command_sequence"):
        rows[name] = _sums(source.numbers(count), first)
    rows["symbol"] = _sums(source.numbers(count), _changes(rows["command_sequence"]))
    own = _by(rows["participant"])
    rows["report"][own] = _sums(source.numbers(count), _changes(rows["participant"][own]))
    answers = (source.bytes(count) != 0) == _is_maker(rows)
    own = own[answers[own]]
    rows["command_id"][own] = _sums(source.numbers(len(own)), _changes(rows["participant"][own]))
    matches = (source.bytes(count) != 0) != _is_match(rows)
    total = int(matches.sum())
    rows["match_id"][matches] = _sums(source.numbers(total), _only_first(total))
    like = _alike(rows)
    _unpack_orders(source, rows, like)
    starts = _first_of_match(rows)
    for name in ("price_ticks", "qty_lots", "side"):
        values = np.zeros(count, np.int64)
        values[like] = source.numbers(count)
        rows[name] = _sums(values, starts)
    leaves = np.zeros(count, np.int64)
    leaves[like] = source.numbers(count)
    begins, expected = _leaves_expected(rows, answers)
    leaves[answers] = _sums(leaves[answers] + expected, begins)
    rows["leaves_lots"] = leaves
    rows["reason"][like] = source.bytes(count)
    return _rows(rows, EVENT)


def _unpack_orders(source: _Reader, rows: Columns, like: Order) -> None:
    new = _is_new(rows)
    total = int(new.sum())
    rows["order_number"][new] = _sums(source.numbers(total), _only_first(total))
    like = like[~new[like]]
    rows["order_number"][like] = _aged(source.numbers(len(like)), _newest_numbers(rows, new)[like])
    named = new | (rows["order_number"] == 0)
    rows["order_id"][named] = source.numbers(int(named.sum())) + rows["command_id"][named]
    rest = np.flatnonzero(~named)
    rest = rest[_by(rows["participant"][rest], rows["order_number"][rest])]
    rows["order_id"][rest] = _sums(source.numbers(len(rest)), _changes(rows["participant"][rest]))


_PACK: dict[np.dtype[Any], Callable[[Columns, int], bytes]] = {COMMAND: _pack_commands, EVENT: _pack_events}
_UNPACK: dict[np.dtype[Any], Callable[[bytes, int, int], Rows]] = {COMMAND: _unpack_commands, EVENT: _unpack_events}


def pack(rows: Rows) -> bytes:
    """Packs COMMAND or EVENT rows into bytes that compress well; leaves out the checks of commands."""
    return _PACK[rows.dtype](_columns(rows), len(rows))


def unpack(data: bytes, dtype: np.dtype[Any], count: int, salt: int) -> Rows:
    """Returns the packed rows, shape (count,). salt: that of the checks of commands."""
    return _UNPACK[dtype](data, count, salt)
