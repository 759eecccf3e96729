"""Simulated traders as compiled functions, the market they make in process, and the process that hosts them."""
