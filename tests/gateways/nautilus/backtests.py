"""Backtests of NautilusTrader over an exported day."""

import subprocess
import sys
from pathlib import Path
from typing import Any


def simulate(folder: Path, until: str) -> Path:
    """A day file of the population `liquid`, from 09:30."""
    path = folder / "liquid.day"
    command = [sys.executable, "-m", "serl", "simulate", "liquid", "-o", str(path), "--until", until]
    subprocess.run(command, check=True, capture_output=True)
    return path


def backtest(catalog_path: Path, strategy: Any, *, book: str = "l3", latency_ns: int = 0) -> Any:
    """The engine after a backtest of a strategy over all of a catalogue, with one million USD in a margin account."""
    from nautilus_trader.backtest.engine import BacktestEngine, BacktestEngineConfig
    from nautilus_trader.backtest.models import LatencyModel
    from nautilus_trader.config import LoggingConfig
    from nautilus_trader.model.currencies import USD
    from nautilus_trader.model.enums import AccountType, BookType, OmsType
    from nautilus_trader.model.objects import Money
    from nautilus_trader.persistence.catalog import ParquetDataCatalog

    from serl.gateways.nautilus import SERL_VENUE

    catalog = ParquetDataCatalog(str(catalog_path))
    engine = BacktestEngine(BacktestEngineConfig(logging=LoggingConfig(bypass_logging=True)))
    engine.add_venue(
        SERL_VENUE, OmsType.NETTING, AccountType.MARGIN, [Money(1_000_000, USD)], base_currency=USD,
        book_type=BookType.L3_MBO if book == "l3" else BookType.L2_MBP,
        latency_model=LatencyModel(latency_ns) if latency_ns else None,
    )  # fmt: skip
    for instrument in catalog.instruments():
        engine.add_instrument(instrument)
    for data in (catalog.order_book_deltas(), catalog.trade_ticks(), catalog.quote_ticks()):
        engine.add_data(data)
    engine.add_strategy(strategy)
    engine.run()
    return engine


def ema_cross(step: str = "10-SECOND") -> Any:
    """The library's own example: crosses of two moving averages of bars of the mid."""
    from decimal import Decimal

    from nautilus_trader.examples.strategies.ema_cross import EMACross, EMACrossConfig
    from nautilus_trader.model.data import BarType
    from nautilus_trader.model.identifiers import InstrumentId

    config = EMACrossConfig(
        instrument_id=InstrumentId.from_str("DEMO.SERL"),
        bar_type=BarType.from_str(f"DEMO.SERL-{step}-MID-INTERNAL"),
        trade_size=Decimal(100),
        subscribe_quote_ticks=True,
        request_bars=False,
    )
    return EMACross(config)


def order_book_imbalance(book: str) -> Any:
    """The library's own example: a fill-or-kill order against the thinner side of the touch."""
    from decimal import Decimal

    from nautilus_trader.examples.strategies.orderbook_imbalance import OrderBookImbalance, OrderBookImbalanceConfig
    from nautilus_trader.model.identifiers import InstrumentId

    config = OrderBookImbalanceConfig(
        instrument_id=InstrumentId.from_str("DEMO.SERL"),
        max_trade_size=Decimal(100),
        book_type="L3_MBO" if book == "l3" else "L2_MBP",
    )
    return OrderBookImbalance(config)
