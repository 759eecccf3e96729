"""Market making."""
