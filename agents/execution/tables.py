"""Tables of an execution's child orders and fills, from its report. docs/tables.md lists their columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.errors import ReportError
from serl.agents.execution.report import CHILD_FIELDS, FILL_FIELDS
from serl.exchange.table import Column, Names, Table, prices, times


def execution_orders(report: Path | str) -> Table:
    """The child orders of an execution in the order in which they were sent, from the JSON file of its report.

    Raises ReportError if it is not the report of an execution, as does execution_fills.
    """
    return Table(_columns(Path(report), "children", CHILD_FIELDS))


def execution_fills(report: Path | str) -> Table:
    """The fills of an execution, from the JSON file of its report; prices are NaN in a report of an earlier version."""
    return Table(_columns(Path(report), "fills", FILL_FIELDS))


def _columns(path: Path, part: str, fields: tuple[str, ...]) -> dict[str, Column]:
    """The columns of fills or child orders, which are lists of integers in the file."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        rows = np.array(record[part], np.int64).reshape(-1, len(fields))
        summary = record["summary"]
        symbol, side = str(summary["symbol"]), str(summary["side"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(
            f"{path}: expected the JSON file of a report of `serl execute`, got {error!r}; give SYMBOL-SIDE-POLICY.json"
        ) from None
    found: dict[str, Column] = dict(zip(fields, np.ascontiguousarray(rows.T), strict=True))
    code, tick_sizes = np.zeros(len(rows), np.int64), [str(record["tick_size"])] if "tick_size" in record else []
    columns: dict[str, Column] = {
        "time": times(rows[:, 0]), "time_ns": found.pop("time_ns"), "symbol": Names(code.astype(np.int8), (symbol,)),
        "side": Names(code.astype(np.int8), (side,)),
    }  # fmt: skip
    if "price_ticks" in found:
        columns["price"] = prices(rows[:, fields.index("price_ticks")], tick_sizes, code)
    return columns | found
