"""Converts halts and phases of a symbol to NautilusTrader's market status."""

from typing import Any

from nautilus_trader.model.data import InstrumentStatus
from nautilus_trader.model.enums import MarketStatusAction

from serl.exchange.records import HaltReason, Phase

ACTIONS = {
    Phase.CONTINUOUS: MarketStatusAction.TRADING,
    Phase.PRE_OPEN: MarketStatusAction.PRE_OPEN,
    Phase.OPENING: MarketStatusAction.CROSS,
    Phase.INTRADAY: MarketStatusAction.CROSS,
    Phase.VOLATILITY: MarketStatusAction.PAUSE,
    Phase.CLOSING: MarketStatusAction.PRE_CLOSE,
    Phase.CLOSED: MarketStatusAction.CLOSE,
}


def instrument_status(instrument: Any, halted: bool, phase: int, reason: int, time_ns: int, init_ns: int) -> Any:
    """Creates an `InstrumentStatus` with the names of the phase and of the `HaltReason`, and whether orders trade (in an auction: later)."""
    phase = Phase(phase)
    return InstrumentStatus(
        instrument,
        MarketStatusAction.HALT if halted else ACTIONS[phase],
        time_ns,
        init_ns,
        reason=HaltReason(reason).name if reason else None,
        trading_event=phase.name,
        is_trading=not halted and phase == Phase.CONTINUOUS,
        is_quoting=not halted and phase != Phase.CLOSED,
    )
