"""Tables of the evaluations of policies. docs/tables.md lists their columns."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.learning.errors import EvaluationFileError
from serl.agents.learning.evaluation import MEASURES, Evaluation
from serl.agents.learning.table import JSON_FILE, UNITS, Section, markets_json
from serl.exchange.table import Column, Names, Table

COSTS_BPS = ("pa", "pa_mid", "pa_rule", "pa_twap", "is", "impact", "risk", "fees")
SHARES = ("afi", "ffr")


def evaluation(source: Evaluation | Path | str) -> Table:
    """A row for each market, policy and measure, with its 95 % interval.

    source: an evaluation, the evaluation.json that `serl evaluate` wrote, or its folder. Raises EvaluationFileError if the file is not one.
    """
    markets = markets_json([Section(source, "")]) if isinstance(source, Evaluation) else _read_markets(Path(source))
    found: list[tuple[Any, ...]] = []
    for market in markets:
        for row in market["policies"]:
            for name in (name for name in MEASURES if name in row):
                ends = [_float(row[name][key]) for key in ("value", "low", "high")]
                found.append((market["market"], row["policy"], name, UNITS.get(name), *ends, market["orders"]))
    columns = list(zip(*found, strict=True)) or [()] * 8
    return Table({
        **{name: Names.encode(column) for name, column in zip(("market", "policy", "measure", "unit"), columns[:4], strict=True)},
        **{name: np.array(column, np.float64) for name, column in zip(("value", "low", "high"), columns[4:7], strict=True)},
        "orders": np.array(columns[7], np.int64),
    })  # fmt: skip


def evaluation_orders(evaluation: Evaluation) -> Table:
    """A row with the costs of each policy and parent order of an evaluation in Python; NaN where the market did not trade."""
    rows, orders = evaluation.rows, np.arange(evaluation.orders)
    columns: dict[str, Column] = {
        "market": Names.encode([evaluation.market] * (len(rows) * len(orders))),
        "policy": Names.of(np.repeat(np.arange(len(rows)), len(orders)), [row.name for row in rows]),
        "order": np.tile(orders, len(rows)),
    }
    for name in (*COSTS_BPS, *SHARES):
        missing = np.full(len(orders), 0.0 if name == "fees" else np.nan)
        parts = [row.columns.get(name, missing) for row in rows]
        columns[f"{name}_bps" if name in COSTS_BPS else name] = np.concatenate([np.zeros(0), *parts])
    return Table(columns)


def _read_markets(path: Path) -> list[dict[str, Any]]:
    path = path / JSON_FILE if path.is_dir() else path
    try:
        markets = json.loads(path.read_text())["markets"]
        return [{name: market[name] for name in ("market", "policies", "orders")} for market in markets]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluationFileError(
            f"{path}: expected a file of `serl evaluate`, got {error!r}; give {JSON_FILE} or its folder"
        ) from None


def _float(value: float | None) -> float:
    return np.nan if value is None else value
