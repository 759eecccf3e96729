"""The gateway's ITCH 5.0 stream: the exchange's public feed, live, over SoupBinTCP."""
