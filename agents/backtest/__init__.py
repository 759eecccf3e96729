"""Backtests: one strategy class that trades in process over a recorded day or a population, and on a served exchange."""
