"""Backtests: the same strategy class trades in process, on a recorded day or in a population, and on a served exchange."""
