"""Simulated traders as compiled functions, the in-process market in which they trade, and the processes that host them."""
