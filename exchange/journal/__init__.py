"""The journal on disk: every accepted command, every event, and the snapshots that restarts begin with."""
