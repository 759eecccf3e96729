"""Tests of backtests and of strategies on a server."""
