"""NASDAQ TotalView-ITCH 5.0: import to and export from day files."""
