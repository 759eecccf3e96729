"""The order book, compiled: functions over arrays, deterministic, without clock, randomness, input or output."""

from serl.exchange.kernel.commands import DONE, EVENTS_FULL, GROW, execute, execute_batch
from serl.exchange.kernel.levels import best, level_at, levels

__all__ = ["DONE", "EVENTS_FULL", "GROW", "best", "execute", "execute_batch", "level_at", "levels"]
