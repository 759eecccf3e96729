"""Executors and market makers in one simulated market, rules and learnt ones, who meet in every pairing."""
