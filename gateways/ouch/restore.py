"""Restores the state of a user's orders after a restart, from the entries and the messages in the stream."""

from typing import Any

import numpy as np

from serl.gateways.ouch.messages import OUTBOUND
from serl.gateways.ouch.orders import NO_ENTRY, REPLACEMENT, OrderTable
from serl.gateways.soup.packets import HEAD_BYTES
from serl.gateways.soup.stream import StreamLog

LESS = "ECD"
"""Messages that take shares off an order."""


def restore(table: OrderTable, log: StreamLog) -> int:
    """Sets the open and executed shares, the answers and the current entries; returns the largest id of a command that the exchange has accepted."""
    by_kind: dict[str, list[Any]] = {kind: [] for kind in "AUECDMJX"}
    positions: dict[str, list[Any]] = {kind: [] for kind in by_kind}
    base_position = 0
    for block in log.blocks():
        starts = _starts(block)
        data = np.frombuffer(block, np.uint8)
        kinds = data[starts + HEAD_BYTES]
        for kind in by_kind:
            places = np.flatnonzero(kinds == ord(kind))
            if len(places):
                layout = OUTBOUND[kind]
                where = starts[places][:, None] + np.arange(layout.itemsize)
                where = np.minimum(where, len(data) - 1)  # D of earlier versions lacks its last field
                by_kind[kind].append(data[where].view(layout).ravel())
                positions[kind].append(base_position + places)
        base_position += len(starts)
    told = {kind: np.concatenate(parts) for kind, parts in by_kind.items() if parts}
    at = {kind: np.concatenate(parts) for kind, parts in positions.items() if parts}
    return _apply(table, told, at)


def _starts(block: bytes) -> Any:
    """The positions at which the packets of a block begin."""
    starts, at = [], 0
    while at < len(block):
        starts.append(at)
        at += 2 + (block[at] << 8 | block[at + 1])
    return np.array(starts, np.int64)


def _apply(table: OrderTable, told: dict[str, Any], at: dict[str, Any]) -> int:
    answered_id = 0
    for kind in "AU":
        if kind in told:
            places = table.find(told[kind]["user_ref"])
            table.open_shares[places], table.answered[places] = told[kind]["quantity"], True
            answered_id = max(answered_id, int(table.entries["command_id"][places].max()))
    if "U" in told:
        table.open_shares[table.find(told["U"]["orig_user_ref"])] = 0
        places = table.find(told["U"]["user_ref"])
        np.maximum.at(table.current, table.base[places], places)
    modified: dict[int, tuple[int, int]] = {}  # place -> position and quantity of its last modification
    if "M" in told:
        for place, position, message in zip(
            table.find(told["M"]["user_ref"]).tolist(), at["M"].tolist(), told["M"], strict=True
        ):
            modified[place] = position, int(message["quantity"])
            table.entries["side"][place] = message["side"]
    for kind in LESS:
        if kind in told:
            _take_off(table, told[kind], at[kind], modified, is_execution=kind == "E")
    for place, (_, quantity) in modified.items():
        table.open_shares[place] += quantity
    for kind in "JX":
        if kind in told:
            places = np.searchsorted(table.entries["user_ref"][: table.count], told[kind]["user_ref"])
            table.answered[places] = True
            table.open_shares[places] = 0
    _inherit_sides(table)
    return answered_id


def _take_off(
    table: OrderTable, messages: Any, positions: Any, modified: dict[int, tuple[int, int]], *, is_execution: bool
) -> None:
    places = table.find(messages["user_ref"])
    quantities = messages["quantity"].astype(np.int64)
    if is_execution:
        np.add.at(table.executed, table.base[places], quantities)
    for place, (position, _) in modified.items():
        table.open_shares[place] = 0
        quantities = np.where((places == place) & (positions < position), 0, quantities)
    np.subtract.at(table.open_shares, places, quantities)


def _inherit_sides(table: OrderTable) -> None:
    """Gives each replacement the side of its order, unless that was modified."""
    is_replacement = (table.entries["kind"][: table.count] == REPLACEMENT) & (table.base[: table.count] != NO_ENTRY)
    blank = np.flatnonzero(is_replacement & (table.entries["side"][: table.count] == 0))
    table.entries["side"][blank] = table.entries["side"][table.base[blank]]
