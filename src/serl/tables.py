"""Data as tables for pandas, polars, Arrow and files, with one function per table. docs/tables.md lists the functions and their columns.

from serl import tables
tables.trades(day).to_pandas()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from serl.agents.backtest.tables import backtest_curve as backtest_curve
    from serl.agents.backtest.tables import backtest_fills as backtest_fills
    from serl.agents.backtest.tables import backtest_trades as backtest_trades
    from serl.agents.execution.tables import execution_fills as execution_fills
    from serl.agents.execution.tables import execution_orders as execution_orders
    from serl.agents.learning.evaluation_tables import evaluation as evaluation
    from serl.agents.learning.evaluation_tables import evaluation_orders as evaluation_orders
    from serl.agents.traders.tables import order_flow as order_flow
    from serl.agents.traders.tables import traders as traders
    from serl.exchange.journal.tables import journal_events as journal_events
    from serl.exchange.journal.tables import journal_orders as journal_orders
    from serl.exchange.table import Table as Table
    from serl.history.tables import book as book
    from serl.history.tables import events as events
    from serl.history.tables import orders as orders
    from serl.history.tables import quotes as quotes
    from serl.history.tables import trades as trades
    from serl.researcher.browse.tables import candidates as candidates
    from serl.researcher.browse.tables import iterations as iterations

_MODULES = {
    "serl.exchange.table": ("Table",),
    "serl.exchange.journal.tables": ("journal_orders", "journal_events"),
    "serl.history.tables": ("orders", "events", "trades", "quotes", "book"),
    "serl.agents.traders.tables": ("order_flow", "traders"),
    "serl.agents.backtest.tables": ("backtest_fills", "backtest_trades", "backtest_curve"),
    "serl.agents.execution.tables": ("execution_orders", "execution_fills"),
    "serl.agents.learning.evaluation_tables": ("evaluation", "evaluation_orders"),
    "serl.researcher.browse.tables": ("candidates", "iterations"),
}
"""The functions by module. They are loaded on first use, because the packages that some need take seconds to load."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'serl.tables' has no attribute {name!r}; expected one of {', '.join(_MODULE_OF)}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
