"""Simulated traders as compiled functions, the in-process market that they form, and the process that hosts them."""
