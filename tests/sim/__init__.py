"""The exchange and its clients on a simulated network, clock and disk, in one process: docs/trust.md."""
