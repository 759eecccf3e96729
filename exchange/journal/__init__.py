"""What the exchange never forgets: every accepted command, every event, and snapshots to start again from."""
