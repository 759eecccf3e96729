"""A replayed day that gives way to what strangers trade: docs/answering.md has the rules."""
