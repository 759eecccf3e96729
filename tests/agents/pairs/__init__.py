"""Taking positions."""
