"""The OUCH 5.0 gateway: NASDAQ's order entry protocol, over SoupBinTCP."""
