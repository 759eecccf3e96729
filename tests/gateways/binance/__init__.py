"""The Binance gateway."""
