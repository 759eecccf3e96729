"""Shared code of environments whose agents hold positions among simulated traders: market, compiled step, accounts, observations, comparison."""
