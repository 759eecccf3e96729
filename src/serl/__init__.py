"""serl: simulate markets and teach agents to trade in them."""

__version__ = "0.1.0"
