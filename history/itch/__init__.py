"""NASDAQ TotalView-ITCH 5.0: read into day files, and written from them."""
